//! Queueing disciplines: every kind with the options that people use.
//!
//! An option that is not given is not sent, and the kernel's default holds. Names are `tc`'s, with
//! underscores where `tc` has none. A kind is one table of its options (see `table.rs`) and what is its own.

mod cake;
mod fq_codel;
mod netem;
mod pie;
mod plain;
mod red;
mod round_robin;
mod sfq;
pub(crate) mod shaping;

use std::ops::RangeInclusive;

use quell_units::Rate;
use serde_json::{Map, Value};

pub use cake::{AckFilter, Cake, Diffserv, FlowIsolation, Framing};
pub use fq_codel::{Codel, FqCodel};
pub use netem::{GilbertElliott, Netem, Slot};
pub use pie::{FqPie, Pie};
pub use plain::{Bfifo, Mq, Noqueue, Pfifo, PfifoFast, Prio};
pub use red::Red;
pub use round_robin::{Drr, Ets, Fq};
pub use sfq::Sfq;
pub use shaping::{Hfsc, Htb, LinkLayer, Tbf};

use crate::fields;
pub(crate) use crate::table::Kind;
use crate::table::{Encoded, Field, OptionError, Reported, Table, put_words};

/// One line a kind, with what it is.
macro_rules! kinds {
    ($($variant:ident $doc:literal),+ $(,)?) => {
        /// A queueing discipline with its options.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Qdisc {
            $(#[doc = $doc] $variant($variant),)+
        }

        /// The same expression for the options of whichever kind.
        macro_rules! each {
            ($qdisc:expr, $options:ident => $what:expr) => {
                match $qdisc { $(Qdisc::$variant($options) => $what,)+ }
            };
        }

        impl Qdisc {
            /// Every kind's name, as the kernel spells it.
            pub const KINDS: &'static [&'static str] = &[$($variant::NAME),+];

            /// The kind with no option given: the kernel's defaults. Some kinds need options all the same, which
            /// [`Tree::plan`](crate::Tree::plan) says.
            pub fn from_kind(kind: &str) -> Option<Qdisc> {
                $(if kind == $variant::NAME { return Some($variant::default().into()); })+
                None
            }

            pub(crate) fn from_fields(kind: &str, fields: Map<String, Value>) -> Result<Self, String> {
                $(if kind == $variant::NAME { return fields::parse(kind, fields).map(Qdisc::$variant); })+
                Err(fields::unknown_kind("queue", kind, Self::KINDS))
            }

            /// Reads `TCA_OPTIONS` of this kind; `None` for kinds that we do not know.
            pub fn decode(kind: &str, from: &Reported<'_>) -> Result<Option<Qdisc>, OptionError> {
                $(if kind == $variant::NAME { return $variant::decode(from).map(|q| Some(q.into())); })+
                Ok(None)
            }

            /// What of it can be changed in place; `None` where nothing can.
            pub fn changeable(&self) -> Option<Qdisc> {
                match self { $(Qdisc::$variant(options) => options.changeable().map(Qdisc::$variant),)+ }
            }
        }

        $(impl From<$variant> for Qdisc {
            fn from(options: $variant) -> Self { Qdisc::$variant(options) }
        })+
    };
}

kinds! {
    FqCodel "Flow queues with CoDel: fair between flows, short queues.",
    Cake "Shaper, host and flow fairness, DiffServ tins and AQM in one.",
    Htb "Hierarchical token buckets: classes with a rate and a ceiling.",
    Tbf "One token bucket: a shaper without classes.",
    Sfq "Stochastic fairness: round robin over hashed flows.",
    Prio "Bands served in strict order.",
    Drr "Deficit round robin over classes.",
    Ets "Strict bands, then bands sharing by quanta.",
    Pfifo "A FIFO bounded in packets.",
    Bfifo "A FIFO bounded in bytes.",
    PfifoFast "The kernel's three-band FIFO.",
    Netem "Delay, loss, duplication, reordering, rate.",
    Fq "Flow queues with pacing, for hosts.",
    Red "Random early detection.",
    Pie "Proportional integral AQM (RFC 8033).",
    FqPie "Flow queues with PIE.",
    Codel "Controlled delay AQM (RFC 8289).",
    Hfsc "Hierarchical fair service curves.",
    Noqueue "No queue: packets go straight to the device.",
    Mq "One child per hardware queue.",
}

/// What is so for all queues of a kind: its name, its table, whether it is classful, whether it drops what is unmatched.
fn of_kind<T: Kind>(_: &T) -> (&'static str, &'static [Field], bool, bool) {
    (T::NAME, T::FIELDS, T::CLASSFUL, T::DROPS_UNMATCHED)
}

impl Qdisc {
    /// The kind's name, as the kernel spells it.
    pub fn kind(&self) -> &'static str {
        each!(self, options => of_kind(options).0)
    }

    /// All options of the kind: names, `tc`'s words, attributes.
    pub fn table(&self) -> &'static [Field] {
        each!(self, options => of_kind(options).1)
    }

    /// The options that were given, by name.
    pub fn fields(&self) -> Map<String, Value> {
        each!(self, options => fields::of(options))
    }

    /// The same as the kernel shows them where they hold.
    pub(crate) fn expected(&self) -> Map<String, Value> {
        each!(self, options => fields::of(&options.expected()))
    }

    /// The options in `tc`'s words, one after the other.
    pub(crate) fn words(&self, put: impl FnMut(&str)) {
        each!(self, options => put_words(options, put));
    }

    /// What goes into `TCA_OPTIONS`, as `tc` sends it; nothing for kinds and calls without options.
    pub fn encode(&self) -> Result<Option<Encoded>, String> {
        each!(self, options => options.encode())
    }

    /// What is wrong with the options, and what would be right.
    pub(crate) fn check(&self) -> Result<(), String> {
        each!(self, options => options.check())
    }

    /// Minors that exist without being written: bands, and the flow queues inside classless queues.
    pub(crate) fn implicit_classes(&self) -> Option<RangeInclusive<u16>> {
        each!(self, options => options.classes())
    }

    /// True where packets go into classes that a person makes or fills.
    pub fn is_classful(&self) -> bool {
        each!(self, options => of_kind(options).2)
    }

    /// True where a packet that matches none of the attached filters is lost.
    ///
    /// `fq_codel_classify`, `fq_pie_classify`, `sfq_classify` and `drr_classify` return no queue then
    /// (`net/sched/sch_*.c`).
    pub fn drops_unmatched(&self) -> bool {
        each!(self, options => of_kind(options).3)
    }
}

pub(crate) fn need(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

pub(crate) fn nonzero(rate: Option<Rate>, what: &str) -> Result<(), String> {
    // Below 8 bit/s the kernel, which counts bytes, sees zero.
    need(rate.is_none_or(|rate| rate.bytes_per_second() > 0), &format!("`{what}` is zero"))
}

/// Minors from 1 to this.
fn up_to(count: u32) -> RangeInclusive<u16> {
    1..=u16::try_from(count).unwrap_or(u16::MAX)
}

fn check_priomap(map: &[u8], bands: u8) -> Result<(), String> {
    let whole = map.is_empty() || map.len() == 16;
    need(whole, "`priomap` must name a band for each of 16 priorities")?;
    let last = bands.saturating_sub(1);
    need(
        map.iter().all(|band| *band < bands),
        &format!("`priomap` names a band beyond the last, {last}: bands count from 0"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::At;

    fn sent_of<T: Kind>(_: &T) -> &'static [u16] {
        T::SENT
    }

    #[test]
    fn the_order_of_sending_names_every_attribute_once() {
        for kind in Qdisc::KINDS {
            let qdisc = Qdisc::from_kind(kind).expect("it is one of ours");
            let mut sent = each!(&qdisc, options => sent_of(options)).to_vec();
            if sent.is_empty() {
                continue;
            }
            let attrs = qdisc.table().iter().filter_map(|field| match field.at {
                At::Attr(number) => Some(number),
                _ => None,
            });
            let mut attrs: Vec<u16> = attrs.collect();
            sent.sort_unstable();
            attrs.sort_unstable();
            assert_eq!(sent, attrs, "{kind}");
        }
    }
}
