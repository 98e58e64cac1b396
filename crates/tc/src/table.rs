//! One table of options a kind of queue or class: what a person writes, `tc`'s word, the attribute and its unit.
//!
//! ```text
//!   options! { limit: Option<u32> = Name("limit"), Attr(2), Count; … }
//!        │
//!        ├─► the struct, which serde reads and writes
//!        ├─► words      "limit 600 …"               ┐
//!        ├─► attributes [(2, 600), …]  and back     ├─ unless the Kind has a function of its own
//!        └─► what a difference is looked for in     ┘
//! ```
//!
//! The table's order is that of the words. Attributes are plain data here; netlink makes bytes of them.

use std::cell::OnceCell;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Handle;
pub use crate::value::Unit;
pub(crate) use crate::value::{Cell, Value};

/// One option of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// As a person writes it in a file.
    pub name: &'static str,
    pub doc: &'static str,
    /// As `tc` writes it.
    pub word: Word,
    pub at: At,
    /// What the kernel's number counts.
    pub unit: Unit,
    /// Whether the kernel shows it again.
    pub reported: bool,
}

/// How `tc` writes an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A name, then the value.
    Name(&'static str),
    /// One word for on and one for off; the latter may be empty.
    Flag(&'static str, &'static str),
    Bare,
}

/// Where in `TCA_OPTIONS` an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// An attribute of its own.
    Attr(u16),
    /// A 32-bit word of the struct that comes first, counted from 0.
    Head(usize),
    /// One of several things in this attribute, which the kind puts in and takes out by a function of its own; 0 is the
    /// struct that comes first.
    Part(u16),
    /// Nowhere: other options follow from it.
    Derived,
}

/// Attributes with their numbers, in order.
pub type Attrs = Vec<(u16, Payload)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Bytes, in host order.
    Bytes(Vec<u8>),
    List(Attrs),
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Payload::Bytes(bytes)
    }
}

/// What `TCA_OPTIONS` is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// A struct that comes first; empty for none.
    pub head: Vec<u8>,
    pub attrs: Attrs,
    /// Whether they are marked as attributes (`NLA_F_NESTED`), as newer kinds have it.
    pub marked: bool,
}

/// Why options that the kernel reported can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// An attribute of another length: its number, how long it should be, and how long it is.
    #[error("attribute {0}: {2} bytes instead of {1}")]
    Length(u16, usize, usize),
    /// A struct that ends too early: its name, how long it should be, and how long it is.
    #[error("{0}: {2} bytes instead of {1}")]
    Cut(&'static str, usize, usize),
    /// An attribute that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// Takes attributes apart: their numbers and payloads.
pub type Split<'a> = &'a dyn Fn(&'a [u8]) -> Vec<(u16, &'a [u8])>;

/// What the kernel has in `TCA_OPTIONS`.
pub struct Reported<'a> {
    pub payload: &'a [u8],
    /// The queue's own handle.
    pub handle: Handle,
    split: Split<'a>,
    attrs: OnceCell<Vec<(u16, &'a [u8])>>,
}

impl<'a> Reported<'a> {
    /// Options of the queue with this handle. `split` is asked only where there are attributes.
    pub fn new(handle: Handle, payload: &'a [u8], split: Split<'a>) -> Self {
        Reported { payload, handle, split, attrs: OnceCell::new() }
    }

    /// The struct of this many bytes that comes first, and the attributes behind it.
    pub(crate) fn behind(&self, what: &'static str, length: usize) -> Result<Self, OptionError> {
        let rest = self.payload.get(length..);
        let rest = rest.ok_or(OptionError::Cut(what, length, self.payload.len()))?;
        Ok(Reported::new(self.handle, rest, self.split))
    }

    pub(crate) fn find(&self, attr: u16) -> Option<&'a [u8]> {
        let attrs = self.attrs.get_or_init(|| (self.split)(self.payload));
        attrs.iter().find(|(number, _)| *number == attr).map(|(_, payload)| *payload)
    }

    /// The attributes inside an attribute; none where that is not there.
    pub(crate) fn list(&self, attr: u16) -> Vec<(u16, &'a [u8])> {
        self.find(attr).map(self.split).unwrap_or_default()
    }

    pub(crate) fn u32(&self, attr: u16) -> Result<Option<u32>, OptionError> {
        self.find(attr).map(|payload| array(attr, payload).map(u32::from_ne_bytes)).transpose()
    }

    pub(crate) fn u64(&self, attr: u16) -> Result<Option<u64>, OptionError> {
        self.find(attr).map(|payload| array(attr, payload).map(u64::from_ne_bytes)).transpose()
    }

    /// A struct that must be there.
    pub(crate) fn parms<const N: usize>(
        &self,
        attr: u16,
        what: &'static str,
    ) -> Result<[u8; N], OptionError> {
        array(attr, self.find(attr).ok_or(OptionError::Missing(what))?)
    }
}

/// A payload of just this length.
pub(crate) fn array<const N: usize>(attr: u16, payload: &[u8]) -> Result<[u8; N], OptionError> {
    payload.try_into().map_err(|_| OptionError::Length(attr, N, payload.len()))
}

/// The `index`th 32-bit word of a C struct.
pub(crate) fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index * 4;
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Words of a C struct, one after the other.
pub(crate) fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// An attribute of some words.
pub(crate) fn attr(number: u16, values: &[u32]) -> (u16, Payload) {
    (number, words(values).into())
}

/// An attribute of 64 bits.
pub(crate) fn wide(number: u16, value: u64) -> (u16, Payload) {
    (number, value.to_ne_bytes().to_vec().into())
}

/// A kind's options by their table; made by [`options!`].
pub(crate) trait Table: Sized + Clone + Default + Serialize + DeserializeOwned {
    /// As the kernel spells it.
    const NAME: &'static str;
    /// Attributes in the order in which `tc` sends them, if it is not the table's.
    const SENT: &'static [u16];
    const FIELDS: &'static [Field];

    fn cells(&self) -> Vec<&dyn Cell>;
    fn cells_mut(&mut self) -> Vec<&mut dyn Cell>;

    fn each(&self) -> impl Iterator<Item = (&'static Field, &dyn Cell)> {
        Self::FIELDS.iter().zip(self.cells())
    }

    /// Those with an attribute of their own that are given, as `tc` orders them.
    fn attrs(&self) -> Attrs {
        let mut attrs: Attrs = self
            .each()
            .filter_map(|(field, cell)| {
                let At::Attr(attr) = field.at else { return None };
                let bytes = cell.number(field.unit)?.to_ne_bytes();
                let width = field.unit.width();
                // The low end of the number, wherever this machine has it.
                let low = if cfg!(target_endian = "big") { 8 - width..8 } else { 0..width };
                Some((attr, bytes[low].to_vec().into()))
            })
            .collect();
        attrs.sort_by_key(|(attr, _)| Self::SENT.iter().position(|other| other == attr));
        attrs
    }

    /// The words of the first struct; none where nothing in it is given.
    fn head(&self) -> Vec<u32> {
        let mut head = Vec::new();
        let mut given = false;
        for (field, cell) in self.each() {
            let At::Head(index) = field.at else { continue };
            let number = cell.number(field.unit);
            given |= number.is_some();
            head.resize(head.len().max(index + 1), 0);
            head[index] = number.unwrap_or(0) as u32;
        }
        if given { head } else { Vec::new() }
    }

    /// What the struct's words and the attributes say; the rest is not given.
    fn read(head: &[u8], from: &Reported<'_>) -> Result<Self, OptionError> {
        let mut all = Self::default();
        for (field, cell) in Self::FIELDS.iter().zip(all.cells_mut()) {
            let number = match field.at {
                At::Attr(number) => match field.unit.width() {
                    1 => {
                        from.find(number).map(|p| array(number, p)).transpose()?.map(|[b]| b.into())
                    }
                    8 => from.u64(number)?,
                    _ => from.u32(number)?.map(u64::from),
                },
                At::Head(index) => word(head, index).map(u64::from),
                At::Part(_) | At::Derived => None,
            };
            if let Some(number) = number {
                cell.set(number, field.unit);
            }
        }
        Ok(all)
    }
}

/// A kind of queue or class. All follows from the table; what a kind has of its own takes its place.
pub(crate) trait Kind: Table {
    /// Whether packets go into classes that a person makes or fills.
    const CLASSFUL: bool = false;
    /// Whether a packet that matches none of the attached filters is lost.
    const DROPS_UNMATCHED: bool = false;

    /// What is wrong with the options, and what would be right.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Minors that exist without being written: bands, and the flow queues inside classless queues.
    fn classes(&self) -> Option<RangeInclusive<u16>> {
        None
    }

    /// The options of which `tc` is given the words.
    fn worded(&self) -> Self {
        self.clone()
    }

    /// What goes into `TCA_OPTIONS`, as `tc` sends it; nothing for kinds and calls without options. An error says which
    /// of the options can't be met.
    fn encode(&self) -> Result<Option<Encoded>, String> {
        let (head, attrs) = (self.head(), self.attrs());
        let empty = !Self::FIELDS.iter().any(|field| matches!(field.at, At::Attr(_)));
        let nothing = empty && head.is_empty();
        Ok((!nothing).then(|| Encoded { head: words(&head), attrs, marked: false }))
    }

    /// Reads `TCA_OPTIONS`.
    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        Self::read(from.payload, from)
    }

    /// As the kernel shows it where it holds.
    fn expected(&self) -> Self {
        self.clone()
    }

    /// What of it can be changed in place; `None` where nothing can.
    fn changeable(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// The words of all options that are given.
pub(crate) fn put_words<T: Kind>(options: &T, mut put: impl FnMut(&str)) {
    for (field, cell) in options.worded().each() {
        match field.word {
            Word::Flag(on, off) => match cell.number(Unit::Count) {
                Some(0) if !off.is_empty() => put(off),
                Some(1) => put(on),
                _ => {}
            },
            Word::Name(name) => {
                if let Some(text) = cell.text(field.unit) {
                    put(name);
                    put(&text);
                }
            }
            Word::Bare => {
                if let Some(text) = cell.text(field.unit) {
                    put(&text);
                }
            }
        }
    }
}

/// The struct of a kind's options and their table. A line: the option's type, `tc`'s word, the place, the unit, and
/// `unreported` if the kernel never shows it.
macro_rules! options {
    ($(#[$meta:meta])* $name:ident $kind:literal $(sent [$($sent:literal),*])? {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $word:expr, $at:expr, $unit:ident $($hidden:ident)?;)*
    }) => {
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $(#[$meta])*
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type,)* }

        impl crate::table::Table for $name {
            const NAME: &'static str = $kind;
            const SENT: &'static [u16] = &[$($($sent),*)?];
            const FIELDS: &'static [crate::table::Field] = {
                #[allow(unused_imports, reason = "not every kind has every sort of place")]
                use crate::table::{At::*, Word::*};
                &[$(crate::table::Field {
                    name: stringify!($field),
                    doc: concat!($($doc),+),
                    word: $word,
                    at: $at,
                    unit: crate::table::Unit::$unit,
                    reported: true $(&& crate::table::$hidden)?,
                }),*]
            };

            fn cells(&self) -> Vec<&dyn crate::table::Cell> { vec![$(&self.$field),*] }

            fn cells_mut(&mut self) -> Vec<&mut dyn crate::table::Cell> { vec![$(&mut self.$field),*] }
        }
    };
}

/// What [`options!`] calls an option that the kernel takes and never shows again.
#[allow(non_upper_case_globals, reason = "a word of the table")]
pub(crate) const unreported: bool = false;

/// One of several words: in a file as serde has it, in the kernel as its number, for `tc` as the text.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident $(& $mask:literal)? {
        $($(#[doc = $doc:literal])+ $variant:ident $word:literal,)*
    }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub enum $name { $($(#[doc = $doc])+ $variant,)* }

        impl crate::table::Value for $name {
            fn number(&self, _: crate::table::Unit) -> u64 { *self as u64 }

            fn of(number: u64, _: crate::table::Unit) -> Option<Self> {
                [$($name::$variant),*].get((number $(& $mask)?) as usize).copied()
            }

            fn text(&self, _: crate::table::Unit) -> String {
                match self { $($name::$variant => $word,)* }.to_owned()
            }
        }
    };
}

pub(crate) use {choice, options};
