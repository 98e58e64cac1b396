//! The stack machine: carries out instructions of plain data, and refuses the others.

use crate::opcode::{self, Op};
use crate::value::{Id, Value, Values};
use crate::{MOST_VALUES, PickleError, text};
use std::collections::HashMap;

/// Longest name that a message repeats, in bytes.
const LONGEST_NAME: usize = 60;

/// Carries out a pickle: all values that it makes, and which of them is its result.
pub(crate) fn load(bytes: &[u8]) -> Result<(Values, Id), PickleError> {
    let mut machine = Machine { bytes, ..Machine::default() };
    loop {
        if let Some(result) = machine.step()? {
            return Ok((machine.values, result));
        }
    }
}

#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    /// The next byte.
    next: usize,
    /// Where the instruction stands that is being carried out, and its name.
    at: usize,
    name: &'static str,
    values: Values,
    stack: Vec<Id>,
    /// Heights of the stack at marks.
    marks: Vec<u32>,
    memo: HashMap<u64, Id>,
}

impl<'a> Machine<'a> {
    /// Carries out one instruction; the result where it is the last one.
    fn step(&mut self) -> Result<Option<Id>, PickleError> {
        self.at = self.next;
        self.name = "an instruction";
        let code = self.take(1)?[0];
        if let Some(refusal) = opcode::refused(code) {
            return Err(self.refuse(&refusal));
        }
        let (name, op) = opcode::known(code).ok_or(PickleError::Unknown { at: self.at, code })?;
        self.name = name;
        match op {
            Op::Proto => {
                if self.take(1)?[0] > 5 {
                    return Err(self.wrong("names a protocol later than 5"));
                }
            }
            // Only a hint for reading ahead.
            Op::Frame => drop(self.take(8)?),
            Op::Stop => return self.pop().map(Some),
            Op::Mark => self.marks.push(self.stack.len() as u32),
            Op::Pop if self.marks.last() == Some(&(self.stack.len() as u32)) => {
                self.marks.pop();
            }
            Op::Pop => drop(self.pop()?),
            Op::PopMark => drop(self.since_mark()?),
            Op::Dup => {
                let top = self.top()?;
                self.stack.push(top);
            }
            Op::None => self.push(Value::None)?,
            Op::True => self.push(Value::Bool(true))?,
            Op::False => self.push(Value::Bool(false))?,
            Op::IntLine => match self.line()? {
                b"00" => self.push(Value::Bool(false))?,
                b"01" => self.push(Value::Bool(true))?,
                digits => self.push_int(digits)?,
            },
            Op::LongLine => {
                let line = self.line()?;
                self.push_int(line.strip_suffix(b"L").unwrap_or(line))?;
            }
            Op::FloatLine => {
                let line = self.line()?;
                let value = parsed(line).ok_or_else(|| self.wrong("has no number"))?;
                self.push(Value::Float(value))?;
            }
            Op::Float => {
                let bits = self.take(8)?.iter().fold(0, |bits, b| (bits << 8) | u64::from(*b));
                self.push(Value::Float(f64::from_bits(bits)))?;
            }
            Op::Int { bytes, signed } => {
                let value = self.number(bytes)?;
                let value = if signed { i64::from(value as u32 as i32) } else { value as i64 };
                self.push(Value::Int(value))?;
            }
            Op::Long { length } => {
                let length = self.length(length)?;
                let bytes = self.take(length)?;
                let value =
                    long(bytes).ok_or_else(|| self.wrong("has a number of over 64 bits"))?;
                self.push(Value::Int(value))?;
            }
            Op::StringLine => {
                let line = self.line()?;
                let text = text::quoted(line).ok_or_else(|| self.wrong("has a broken text"))?;
                self.push(Value::Text(text))?;
            }
            Op::UnicodeLine => {
                let line = self.line()?;
                let text = text::escaped(line).ok_or_else(|| self.wrong("has a broken text"))?;
                self.push(Value::Text(text))?;
            }
            Op::Text { length } => {
                let length = self.length(length)?;
                let text = text::decode(self.take(length)?);
                self.push(Value::Text(text))?;
            }
            Op::EmptyTuple => self.push(Value::Tuple(Vec::new()))?,
            Op::Tuple => {
                let items = self.since_mark()?;
                self.push(Value::Tuple(items))?;
            }
            Op::TupleOf(count) => {
                let from = self.stack.len().checked_sub(count).filter(|from| *from >= self.floor());
                let from = from.ok_or_else(|| self.wrong("finds too few values"))?;
                let items = self.stack.split_off(from);
                self.push(Value::Tuple(items))?;
            }
            Op::EmptyList => self.push(Value::List(Vec::new()))?,
            Op::List => {
                let items = self.since_mark()?;
                self.push(Value::List(items))?;
            }
            Op::Append => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            Op::Appends => {
                let items = self.since_mark()?;
                self.append(items)?;
            }
            Op::EmptyDict => self.push(Value::Dict(Vec::new()))?,
            Op::Dict => {
                self.push(Value::Dict(Vec::new()))?;
                let dict = self.pop()?;
                let items = self.since_mark()?;
                self.stack.push(dict);
                self.set(items)?;
            }
            Op::SetItem => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![key, value])?;
            }
            Op::SetItems => {
                let items = self.since_mark()?;
                self.set(items)?;
            }
            Op::PutLine => {
                let number = self.line_number()?;
                self.remember(number)?;
            }
            Op::Put { bytes } => {
                let number = self.number(bytes)?;
                self.remember(number)?;
            }
            Op::Memoize => self.remember(self.memo.len() as u64)?,
            Op::GetLine => {
                let number = self.line_number()?;
                self.recall(number)?;
            }
            Op::Get { bytes } => {
                let number = self.number(bytes)?;
                self.recall(number)?;
            }
        }
        Ok(None)
    }

    /// The next `count` bytes.
    fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let end = self.next.checked_add(count);
        let part = end.and_then(|end| self.bytes.get(self.next..end));
        let part = part.ok_or(PickleError::Truncated { at: self.at, of: self.name })?;
        self.next += count;
        Ok(part)
    }

    /// What stands before the next end of line.
    fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = self.bytes.get(self.next..).unwrap_or_default();
        let length = rest.iter().position(|b| *b == b'\n');
        let length = length.ok_or(PickleError::Truncated { at: self.at, of: self.name })?;
        self.next += length + 1;
        let line = &rest[..length];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// An unsigned number of up to eight bytes, least significant first.
    fn number(&mut self, bytes: usize) -> Result<u64, PickleError> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |value, b| (value << 8) | u64::from(*b)))
    }

    /// A length; what is longer than the file is cut off in it.
    fn length(&mut self, bytes: usize) -> Result<usize, PickleError> {
        Ok(usize::try_from(self.number(bytes)?).unwrap_or(usize::MAX))
    }

    fn line_number(&mut self) -> Result<u64, PickleError> {
        let line = self.line()?;
        parsed(line).ok_or_else(|| self.wrong("has no number"))
    }

    fn push_int(&mut self, digits: &[u8]) -> Result<(), PickleError> {
        let value = parsed(digits).ok_or_else(|| self.wrong("has no whole number of 64 bits"))?;
        self.push(Value::Int(value))
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        let id = self.values.add(value);
        if id as usize >= MOST_VALUES {
            return Err(PickleError::TooBig);
        }
        self.stack.push(id);
        Ok(())
    }

    /// Below this height lies what was there before the last mark.
    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |height| *height as usize)
    }

    fn top(&self) -> Result<Id, PickleError> {
        let top = self.stack.last().filter(|_| self.stack.len() > self.floor());
        top.copied().ok_or_else(|| self.wrong("finds no value"))
    }

    fn pop(&mut self) -> Result<Id, PickleError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn since_mark(&mut self) -> Result<Vec<Id>, PickleError> {
        let height = self.marks.pop().ok_or_else(|| self.wrong("finds no mark"))?;
        Ok(self.stack.split_off((height as usize).min(self.stack.len())))
    }

    fn append(&mut self, mut items: Vec<Id>) -> Result<(), PickleError> {
        let top = self.top()?;
        match self.values.get_mut(top) {
            Some(Value::List(list)) => list.append(&mut items),
            _ => return Err(self.wrong("finds no list to append to")),
        }
        Ok(())
    }

    fn set(&mut self, items: Vec<Id>) -> Result<(), PickleError> {
        let top = self.top()?;
        if !items.len().is_multiple_of(2) {
            return Err(self.wrong("finds a key without a value"));
        }
        match self.values.get_mut(top) {
            Some(Value::Dict(pairs)) => {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            _ => return Err(self.wrong("finds no dictionary")),
        }
        Ok(())
    }

    fn remember(&mut self, number: u64) -> Result<(), PickleError> {
        let top = self.top()?;
        self.memo.insert(number, top);
        if self.memo.len() > MOST_VALUES {
            return Err(PickleError::TooBig);
        }
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Result<(), PickleError> {
        let known = self.memo.get(&number).copied();
        self.stack.push(known.ok_or_else(|| self.wrong("refers to what was never made"))?);
        Ok(())
    }

    fn wrong(&self, why: &'static str) -> PickleError {
        PickleError::Malformed { at: self.at, name: self.name, why }
    }

    fn refuse(&mut self, refusal: &opcode::Refusal) -> PickleError {
        let lines = (0..refusal.lines).map_while(|_| self.line().ok());
        let words: Vec<String> = lines.map(text::decode).collect();
        let target = match words.join(".") {
            named if named.is_empty() => String::new(),
            named => {
                let short: String = named.chars().take(LONGEST_NAME).collect();
                format!(" {short:?}")
            }
        };
        PickleError::Refused { at: self.at, name: refusal.name, target, does: refusal.does }
    }
}

/// A number in words of ASCII.
fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

/// A whole number in two's complement, least significant byte first; none where it does not fit.
fn long(bytes: &[u8]) -> Option<i64> {
    let Some(last) = bytes.last() else { return Some(0) };
    let fill = if *last >= 0x80 { 0xff } else { 0 };
    let mut wide = [fill; 8];
    for (index, byte) in bytes.iter().enumerate() {
        match wide.get_mut(index) {
            Some(place) => *place = *byte,
            None if *byte == fill => {}
            None => return None,
        }
    }
    let value = i64::from_le_bytes(wide);
    ((value < 0) == (fill != 0)).then_some(value)
}
