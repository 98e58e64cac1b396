//! Queueing disciplines: every kind with the options that people use.
//!
//! An option that is not given is not sent, and the kernel's default holds. Names are `tc`'s, with
//! underscores where `tc` has none.

mod aqm;
mod cake;
mod fair;
mod netem;
mod plain;
mod shaping;

use serde_json::{Map, Value};

pub use aqm::{Codel, FqCodel, FqPie, Pie, Red};
pub use cake::{AckFilter, Cake, Diffserv, FlowIsolation, Framing};
pub use fair::{Drr, Ets, Fq, Sfq};
pub use netem::{GilbertElliott, Netem, Slot};
pub use plain::{Bfifo, Mq, Noqueue, Pfifo, PfifoFast, Prio};
pub use shaping::{Hfsc, Htb, LinkLayer, Tbf};

use crate::fields;

/// One line a kind: the variant and the name that the kernel knows it by.
macro_rules! kinds {
    ($($variant:ident $name:literal $doc:literal),+ $(,)?) => {
        /// A queueing discipline with its options.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Qdisc {
            $(#[doc = $doc] $variant($variant),)+
        }

        impl Qdisc {
            /// Every kind's name, as the kernel spells it.
            pub const KINDS: &'static [&'static str] = &[$($name),+];

            /// The kind's name, as the kernel spells it.
            pub fn kind(&self) -> &'static str {
                match self { $(Qdisc::$variant(_) => $name,)+ }
            }

            /// The kind with no option given: the kernel's defaults. Some kinds need options all the same, which
            /// [`Tree::plan`](crate::Tree::plan) says.
            pub fn from_kind(kind: &str) -> Option<Qdisc> {
                match kind { $($name => Some(Qdisc::$variant($variant::default())),)+ _ => None }
            }

            pub(crate) fn from_fields(kind: &str, fields: Map<String, Value>) -> Result<Self, String> {
                match kind {
                    $($name => fields::parse(kind, fields).map(Qdisc::$variant),)+
                    other => Err(fields::unknown_kind("queue", other, Self::KINDS)),
                }
            }

            /// The options that were given, by name.
            pub fn fields(&self) -> Map<String, Value> {
                match self { $(Qdisc::$variant(options) => fields::of(options),)+ }
            }
        }

        $(impl From<$variant> for Qdisc {
            fn from(options: $variant) -> Self { Qdisc::$variant(options) }
        })+
    };
}

kinds! {
    FqCodel "fq_codel" "Flow queues with CoDel: fair between flows, short queues.",
    Cake "cake" "Shaper, host and flow fairness, DiffServ tins and AQM in one.",
    Htb "htb" "Hierarchical token buckets: classes with a rate and a ceiling.",
    Tbf "tbf" "One token bucket: a shaper without classes.",
    Sfq "sfq" "Stochastic fairness: round robin over hashed flows.",
    Prio "prio" "Bands served in strict order.",
    Drr "drr" "Deficit round robin over classes.",
    Ets "ets" "Strict bands, then bands sharing by quanta.",
    Pfifo "pfifo" "A FIFO bounded in packets.",
    Bfifo "bfifo" "A FIFO bounded in bytes.",
    PfifoFast "pfifo_fast" "The kernel's three-band FIFO.",
    Netem "netem" "Delay, loss, duplication, reordering, rate.",
    Fq "fq" "Flow queues with pacing, for hosts.",
    Red "red" "Random early detection.",
    Pie "pie" "Proportional integral AQM (RFC 8033).",
    FqPie "fq_pie" "Flow queues with PIE.",
    Codel "codel" "Controlled delay AQM (RFC 8289).",
    Hfsc "hfsc" "Hierarchical fair service curves.",
    Noqueue "noqueue" "No queue: packets go straight to the device.",
    Mq "mq" "One child per hardware queue.",
}

impl Qdisc {
    /// True where packets go into classes that a person makes or fills.
    pub fn is_classful(&self) -> bool {
        use Qdisc::*;
        matches!(self, Htb(_) | Hfsc(_) | Drr(_) | Prio(_) | Ets(_) | Tbf(_) | Netem(_) | Red(_))
    }

    /// True where a packet that matches none of the attached filters is lost.
    ///
    /// `fq_codel_classify`, `fq_pie_classify`, `sfq_classify` and `drr_classify` return no queue then
    /// (`net/sched/sch_*.c`).
    pub fn drops_unmatched(&self) -> bool {
        matches!(self, Qdisc::FqCodel(_) | Qdisc::FqPie(_) | Qdisc::Sfq(_) | Qdisc::Drr(_))
    }
}
