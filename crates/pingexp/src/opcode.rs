//! The instructions of pickle, by Python's `pickletools`: those that plain data needs, and those that are refused.

/// An instruction that this machine carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Says the protocol; a byte follows.
    Proto,
    /// Says how long a stretch of instructions is; eight bytes follow.
    Frame,
    Stop,
    Mark,
    Pop,
    PopMark,
    Dup,
    None,
    True,
    False,
    /// A line of digits; `00` and `01` are truth values.
    IntLine,
    LongLine,
    FloatLine,
    Float,
    /// A whole number of so many bytes, least significant first.
    Int {
        bytes: usize,
        signed: bool,
    },
    /// A whole number; so many bytes tell how many follow.
    Long {
        length: usize,
    },
    /// A text in quotes, with escapes.
    StringLine,
    /// A text with `\u` escapes.
    UnicodeLine,
    /// A text; so many bytes tell how many follow.
    Text {
        length: usize,
    },
    EmptyTuple,
    /// The items since the mark.
    Tuple,
    /// This many items.
    TupleOf(usize),
    EmptyList,
    List,
    Append,
    Appends,
    EmptyDict,
    Dict,
    SetItem,
    SetItems,
    /// Remember under the number on this line.
    PutLine,
    Put {
        bytes: usize,
    },
    /// Remember under the next number.
    Memoize,
    GetLine,
    Get {
        bytes: usize,
    },
}

use Op::*;

/// Code, name, and what it does here.
const KNOWN: &[(u8, &str, Op)] = &[
    (0x80, "PROTO", Proto),
    (0x95, "FRAME", Frame),
    (b'.', "STOP", Stop),
    (b'(', "MARK", Mark),
    (b'0', "POP", Pop),
    (b'1', "POP_MARK", PopMark),
    (b'2', "DUP", Dup),
    (b'N', "NONE", None),
    (0x88, "NEWTRUE", True),
    (0x89, "NEWFALSE", False),
    (b'I', "INT", IntLine),
    (b'L', "LONG", LongLine),
    (b'F', "FLOAT", FloatLine),
    (b'G', "BINFLOAT", Float),
    (b'J', "BININT", Int { bytes: 4, signed: true }),
    (b'K', "BININT1", Int { bytes: 1, signed: false }),
    (b'M', "BININT2", Int { bytes: 2, signed: false }),
    (0x8a, "LONG1", Long { length: 1 }),
    (0x8b, "LONG4", Long { length: 4 }),
    (b'S', "STRING", StringLine),
    (b'V', "UNICODE", UnicodeLine),
    (b'T', "BINSTRING", Text { length: 4 }),
    (b'U', "SHORT_BINSTRING", Text { length: 1 }),
    (b'X', "BINUNICODE", Text { length: 4 }),
    (b'B', "BINBYTES", Text { length: 4 }),
    (b'C', "SHORT_BINBYTES", Text { length: 1 }),
    (0x8c, "SHORT_BINUNICODE", Text { length: 1 }),
    (0x8d, "BINUNICODE8", Text { length: 8 }),
    (0x8e, "BINBYTES8", Text { length: 8 }),
    (b')', "EMPTY_TUPLE", EmptyTuple),
    (b't', "TUPLE", Tuple),
    (0x85, "TUPLE1", TupleOf(1)),
    (0x86, "TUPLE2", TupleOf(2)),
    (0x87, "TUPLE3", TupleOf(3)),
    (b']', "EMPTY_LIST", EmptyList),
    (b'l', "LIST", List),
    (b'a', "APPEND", Append),
    (b'e', "APPENDS", Appends),
    (b'}', "EMPTY_DICT", EmptyDict),
    (b'd', "DICT", Dict),
    (b's', "SETITEM", SetItem),
    (b'u', "SETITEMS", SetItems),
    (b'p', "PUT", PutLine),
    (b'q', "BINPUT", Put { bytes: 1 }),
    (b'r', "LONG_BINPUT", Put { bytes: 4 }),
    (0x94, "MEMOIZE", Memoize),
    (b'g', "GET", GetLine),
    (b'h', "BINGET", Get { bytes: 1 }),
    (b'j', "LONG_BINGET", Get { bytes: 4 }),
];

/// An instruction that is never carried out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub name: &'static str,
    /// What Python would do.
    pub does: &'static str,
    /// How many lines follow that name what it is about.
    pub lines: usize,
}

const LOADS: &str = "loads a function or class by its name";
const CALLS: &str = "calls a function or makes an object, which can run any program";
const ASKS: &str = "asks the program that loads it for an object";
const OTHER: &str = "makes a kind of data that ping-exp has no use for";

const REFUSED: &[(u8, &str, &str, usize)] = &[
    (b'c', "GLOBAL", LOADS, 2),
    (0x93, "STACK_GLOBAL", LOADS, 0),
    (0x82, "EXT1", LOADS, 0),
    (0x83, "EXT2", LOADS, 0),
    (0x84, "EXT4", LOADS, 0),
    (b'i', "INST", CALLS, 2),
    (b'o', "OBJ", CALLS, 0),
    (b'R', "REDUCE", CALLS, 0),
    (b'b', "BUILD", CALLS, 0),
    (0x81, "NEWOBJ", CALLS, 0),
    (0x92, "NEWOBJ_EX", CALLS, 0),
    (b'P', "PERSID", ASKS, 1),
    (b'Q', "BINPERSID", ASKS, 0),
    (0x97, "NEXT_BUFFER", ASKS, 0),
    (0x98, "READONLY_BUFFER", ASKS, 0),
    (0x8f, "EMPTY_SET", OTHER, 0),
    (0x90, "ADDITEMS", OTHER, 0),
    (0x91, "FROZENSET", OTHER, 0),
    (0x96, "BYTEARRAY8", OTHER, 0),
];

/// The instruction with this code, and its name.
pub(crate) fn known(code: u8) -> Option<(&'static str, Op)> {
    KNOWN.iter().find(|(c, ..)| *c == code).map(|(_, name, op)| (*name, *op))
}

/// The refused instruction with this code.
pub(crate) fn refused(code: u8) -> Option<Refusal> {
    let (_, name, does, lines) = REFUSED.iter().find(|(c, ..)| *c == code)?;
    Some(Refusal { name, does, lines: *lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_meaning() {
        let mut codes: Vec<u8> = KNOWN.iter().map(|(c, ..)| *c).collect();
        codes.extend(REFUSED.iter().map(|(c, ..)| *c));
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
        // Python 3.8 to 3.13 have 68 instructions.
        assert_eq!(all, 68);
    }
}
