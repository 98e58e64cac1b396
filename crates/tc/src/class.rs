//! What a class may be told, by the queue it is in.

use quell_units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::qdisc::shaping::rate_at;
use crate::qdisc::{LinkLayer, need, nonzero};
use crate::rates::{RateSpec, bytes_in, transmit_ticks};
use crate::table::{
    self, Attrs, Encoded, Field, Kind, OptionError, Reported, Table, attr, options, put_words,
    wide, word, words,
};
use crate::value::{rate, saturate, size, time};
use crate::{Qdisc, fields};

/// A class's options, by the queue it is in.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassKind {
    Htb(HtbClass),
    Hfsc(HfscClass),
    Drr(RoundRobinClass),
    /// A band of prio or ets, or the one place inside tbf, netem or red: nothing to choose but the queue.
    Band,
}

options! {
    /// A class of HTB.
    HtbClass "htb" {
        /// What it gets for sure; must be given.
        rate: Option<Rate> = Name("rate"), Part(1), Rate64;
        /// What it may have if others leave it; default `rate`.
        ceil: Option<Rate> = Name("ceil"), Part(1), Rate64;
        /// Bytes that may pass at once at `rate`'s expense; default rate / HZ and a packet of 1600.
        burst: Option<Bytes> = Name("burst"), Part(1), Count;
        /// The same for `ceil`.
        cburst: Option<Bytes> = Name("cburst"), Part(1), Count;
        /// Who gets what others leave, 0 first, 7 last; default 0.
        prio: Option<u8> = Name("prio"), Part(1), Count;
        /// Bytes in its turn among classes of one priority; default rate / r2q.
        quantum: Option<Bytes> = Name("quantum"), Part(1), Count;
        /// Bytes added to each packet.
        overhead: Option<u16> = Name("overhead"), Part(1), Count;
        /// The least that a packet counts as.
        mpu: Option<u16> = Name("mpu"), Part(1), Count;
        /// Largest packet for the rate table; default 1600.
        mtu: Option<Bytes> = Name("mtu"), Part(4), Count unreported;
        /// Framing of the link.
        linklayer: Option<LinkLayer> = Name("linklayer"), Part(1), Count;
    }
}

options! {
    /// A class of HFSC: at least one of `rt` and `ls`.
    HfscClass "hfsc" {
        /// Guaranteed service.
        rt: Option<Curve> = Name("rt"), Part(1), Rate32;
        /// Share of what is left.
        ls: Option<Curve> = Name("ls"), Part(2), Rate32;
        /// Upper limit of the share.
        ul: Option<Curve> = Name("ul"), Part(3), Rate32;
    }
}

/// A service curve: `m1` for the first `d`, `m2` from then on. A bare rate is a straight line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Slope at first; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub m1: Option<Rate>,
    /// How long `m1` holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d: Option<Span>,
    pub m2: Rate,
}

options! {
    /// A class of DRR.
    RoundRobinClass "drr" {
        /// Bytes in a turn; default the device's MTU with its header.
        quantum: Option<Bytes> = Name("quantum"), Attr(1), Count;
    }
}

/// The same expression for the options of whichever kind; a band has none.
macro_rules! each {
    ($class:expr, $options:ident => $what:expr, else $band:expr) => {
        match $class {
            ClassKind::Htb($options) => $what,
            ClassKind::Hfsc($options) => $what,
            ClassKind::Drr($options) => $what,
            ClassKind::Band => $band,
        }
    };
}

impl ClassKind {
    /// The kind that a class has under this queue, without options; `None` under a classless one.
    pub fn under(qdisc: &Qdisc) -> Option<ClassKind> {
        Some(match qdisc {
            Qdisc::Htb(_) => ClassKind::Htb(HtbClass::default()),
            Qdisc::Hfsc(_) => ClassKind::Hfsc(HfscClass::default()),
            Qdisc::Drr(_) => ClassKind::Drr(RoundRobinClass::default()),
            other if other.is_classful() => ClassKind::Band,
            _ => return None,
        })
    }

    /// The kind's name, as the kernel spells it; a band has none of its own.
    pub fn name(&self) -> &'static str {
        match self {
            ClassKind::Htb(_) => "htb",
            ClassKind::Hfsc(_) => "hfsc",
            ClassKind::Drr(_) => "drr",
            ClassKind::Band => "band",
        }
    }

    /// True where classes may hold classes.
    pub fn nests(&self) -> bool {
        matches!(self, ClassKind::Htb(_) | ClassKind::Hfsc(_))
    }

    /// The options that were given, by name.
    pub fn fields(&self) -> Map<String, Value> {
        each!(self, options => fields::of(options), else Map::new())
    }

    /// All options of the kind: names, `tc`'s words, attributes.
    pub fn table(&self) -> &'static [Field] {
        each!(self, options => table_of(options), else &[])
    }

    /// The options in `tc`'s words, one after the other.
    pub(crate) fn words(&self, put: impl FnMut(&str)) {
        each!(self, options => put_words(options, put), else ());
    }

    /// What is wrong with the options, and what would be right.
    pub(crate) fn check(&self) -> Result<(), String> {
        each!(self, options => options.check(), else Ok(()))
    }

    /// What goes into `TCA_OPTIONS`, as `tc` sends it; nothing for a band.
    pub fn encode(&self) -> Result<Option<Encoded>, String> {
        each!(self, options => options.encode(), else Ok(None))
    }

    /// Reads a class's `TCA_OPTIONS`; `None` for kinds whose classes we do not know.
    pub fn decode(kind: &str, from: &Reported<'_>) -> Result<Option<ClassKind>, OptionError> {
        let Some(known) = Qdisc::from_kind(kind).as_ref().and_then(ClassKind::under) else {
            return Ok(None);
        };
        Ok(match known {
            // It reports itself as its own class, which has no rate.
            ClassKind::Htb(_) if from.find(1).is_none() => None,
            ClassKind::Htb(_) => Some(ClassKind::Htb(HtbClass::decode(from)?)),
            ClassKind::Hfsc(_) => Some(ClassKind::Hfsc(HfscClass::decode(from)?)),
            ClassKind::Drr(_) => Some(ClassKind::Drr(RoundRobinClass::decode(from)?)),
            ClassKind::Band => Some(ClassKind::Band),
        })
    }

    pub(super) fn with_fields(
        &self,
        what: &str,
        map: Map<String, Value>,
    ) -> Result<ClassKind, String> {
        Ok(match self {
            ClassKind::Htb(_) => ClassKind::Htb(fields::parse(what, map)?),
            ClassKind::Hfsc(_) => ClassKind::Hfsc(fields::parse(what, curves(map)?)?),
            ClassKind::Drr(_) => ClassKind::Drr(fields::parse(what, map)?),
            ClassKind::Band => match map.keys().next() {
                None => ClassKind::Band,
                Some(key) => {
                    return Err(format!(
                        "{what}: unknown field `{key}`: a band has only `id`, `queue` and `filter`"
                    ));
                }
            },
        })
    }
}

/// Writes a bare rate out as a curve.
fn curves(mut map: Map<String, Value>) -> Result<Map<String, Value>, String> {
    for key in ["rt", "ls", "ul"] {
        if let Some(rate) = map.get(key).filter(|value| !value.is_object()).cloned() {
            map.insert(key.into(), Value::Object(Map::from_iter([("m2".to_owned(), rate)])));
        }
    }
    Ok(map)
}

/// Lets options stand for their class, each in its queue's words.
macro_rules! class_kinds {
    ($($variant:ident $options:ident),+) => {$(
        impl From<$options> for ClassKind {
            fn from(options: $options) -> Self { ClassKind::$variant(options) }
        }
    )+};
}

class_kinds!(Htb HtbClass, Hfsc HfscClass, Drr RoundRobinClass);

impl Kind for HtbClass {
    fn check(&self) -> Result<(), String> {
        need(self.rate.is_some(), "an htb class needs `rate`")?;
        nonzero(self.rate, "rate")?;
        nonzero(self.ceil, "ceil")?;
        need(self.ceil.is_none_or(|ceil| Some(ceil) >= self.rate), "`ceil` is below `rate`")?;
        need(self.prio.is_none_or(|prio| prio <= 7), "`prio` is from 0 to 7")
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let rate = self.rate.map_or(0, Rate::bytes_per_second);
        let ceil = self.ceil.map_or(rate, Rate::bytes_per_second);
        let mtu = self.mtu.map_or(1600, |mtu| size(Some(mtu)));
        let spec = |bytes_per_second| RateSpec {
            bytes_per_second,
            overhead: self.overhead.unwrap_or(0),
            mpu: self.mpu.unwrap_or(0),
            link_layer: self.linklayer.unwrap_or(LinkLayer::Ethernet),
            mtu,
        };
        // With high-resolution timers the kernel's HZ is 10^9 here: at usual rates the default is one packet.
        let bucket = |given: Option<Bytes>, rate: u64| {
            let bytes = given.map_or(rate / 1_000_000_000 + u64::from(mtu), Bytes::get);
            transmit_ticks(rate, bytes)
        };
        let (main, top) = (spec(rate), spec(ceil));
        let fast = [(6, main.rate64()), (7, top.rate64())];
        let mut attrs: Attrs =
            fast.into_iter().filter_map(|(attr, rate)| Some(wide(attr, rate?))).collect();
        let mut parms = [main.to_bytes(), top.to_bytes()].concat();
        parms.extend(words(&[
            bucket(self.burst, rate),
            bucket(self.cburst, ceil),
            size(self.quantum),
            0,
            self.prio.unwrap_or(0).into(),
        ]));
        attrs.extend([(1, parms.into()), (4, main.table().into()), (3, top.table().into())]);
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let parms: [u8; 44] = from.parms(1, "TCA_HTB_PARMS")?;
        let (main, ceil) = (rate_at(&parms, 0, from.u64(6)?), rate_at(&parms, 12, from.u64(7)?));
        let at = |index| word(&parms, index).unwrap_or(0);
        Ok(HtbClass {
            rate: Some(rate(main.bytes_per_second)),
            ceil: Some(rate(ceil.bytes_per_second)),
            burst: Some(Bytes::new(bytes_in(main.bytes_per_second, at(6)))),
            cburst: Some(Bytes::new(bytes_in(ceil.bytes_per_second, at(7)))),
            quantum: Some(Bytes::new(at(8).into())),
            prio: u8::try_from(at(10)).ok(),
            overhead: Some(main.overhead),
            mpu: Some(main.mpu),
            mtu: None,
            linklayer: main.link_layer,
        })
    }
}

impl Kind for HfscClass {
    fn check(&self) -> Result<(), String> {
        need(self.rt.is_some() || self.ls.is_some(), "an hfsc class needs `rt` or `ls`")?;
        need(self.ul.is_none() || self.ls.is_some(), "`ul` needs `ls`")
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let curves = [(1, self.rt), (2, self.ls), (3, self.ul)];
        let given = curves.into_iter().filter_map(|(number, curve)| Some((number, curve?)));
        let attrs = given.map(|(number, curve)| attr(number, &curve.encode())).collect();
        Ok(Some(Encoded { attrs, ..Encoded::default() }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        let curve = |number| from.find(number).and_then(Curve::decode);
        Ok(HfscClass { rt: curve(1), ls: curve(2), ul: curve(3) })
    }
}

impl Kind for RoundRobinClass {
    fn check(&self) -> Result<(), String> {
        need(self.quantum.is_none_or(|quantum| quantum.get() > 0), "`quantum` is zero")
    }
}

impl Curve {
    /// `struct tc_service_curve`.
    fn encode(self) -> [u32; 3] {
        let d = self.d.map_or(0, |span| saturate(span.nanos() / 1000));
        let slope = |rate: Rate| saturate(rate.bytes_per_second());
        [self.m1.map_or(0, slope), d, slope(self.m2)]
    }

    fn decode(payload: &[u8]) -> Option<Curve> {
        let (m1, d, m2) = (word(payload, 0)?, word(payload, 1)?, word(payload, 2)?);
        Some(Curve {
            m1: (m1 != 0).then(|| rate(m1.into())),
            d: (d != 0).then(|| Span::from_micros(d.into())),
            m2: rate(m2.into()),
        })
    }
}

impl table::Value for Curve {
    fn text(&self, _: table::Unit) -> String {
        match (self.m1, self.d) {
            (None, None) => format!("rate {}", self.m2),
            (m1, d) => {
                let m1 = m1.map_or_else(|| "0bit".to_owned(), |rate| rate.to_string());
                let d = d.map_or_else(|| "0us".to_owned(), time);
                format!("m1 {m1} d {d} m2 {}", self.m2)
            }
        }
    }
}

fn table_of<T: Table>(_: &T) -> &'static [Field] {
    T::FIELDS
}
