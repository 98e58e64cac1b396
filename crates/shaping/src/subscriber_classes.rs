//! Subscribers of whom only those who are there have classes: what is to be known of all of them.
//!
//! ```text
//!   LinePolicy ─┬─ up:   LineDirection { DEV,   by source,      OnDemand, Roster }
//!             └─ down: LineDirection { i-DEV, by destination, OnDemand, Roster }
//! ```

use crate::kernel::{self, LeafLack};
use crate::{CommandError, ifb_of};
use quell_act::DynamicClasses;
use quell_classify::roster::{Roster, RosterProgram};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::{Stack, tc};
use quell_policy::{DeviceTraits, LAZY_IDLE, LAZY_MOST, LinePolicy, OnDemand, Tell};
use quell_tc::observed::ObservedFilter;
use quell_tc::{Filter, FilterKind, Handle, Place, Side, Thing, Tree};
use quell_units::{Rate, Span};
use std::cell::OnceCell;

pub struct LineDirection {
    pub device: String,
    /// By which address packets' subscribers are found.
    pub side: Side,
    /// Whether packets to somebody say that he is there: only where no queue sees those from him.
    pub got_counts: bool,
    pub all: OnDemand,
    /// Whose packets are whose, once somebody asked.
    roster: OnceCell<Roster>,
    /// What the kernel lacks of what they are to have.
    lacks: LeafLack,
}

/// Both ways, and how long and how many are there.
pub struct SubscriberClasses {
    pub directions: Vec<LineDirection>,
    /// Who is silent for so long goes.
    pub idle: Span,
    /// More are never there.
    pub most: usize,
}

impl LineDirection {
    fn new(
        device: String,
        side: Side,
        got_counts: bool,
        mut all: OnDemand,
        lacks: &mut Option<LeafLack>,
    ) -> Result<Self, String> {
        if let Some(root) = &mut all.tree.queue {
            root.filters.push(Filter::new(side, None));
        }
        let known = match *lacks {
            Some(known) => known,
            None => kernel::lacking(&mut [&mut all.tree.clone()])?,
        };
        *lacks = Some(known);
        Ok(LineDirection { device, side, got_counts, all, roster: OnceCell::new(), lacks: known })
    }

    pub fn roster(&self) -> &Roster {
        self.roster.get_or_init(|| self.all.prefixes().collect())
    }

    /// The tree with the classes of those who are there, of what this kernel has.
    pub fn tree(&self, there: impl IntoIterator<Item = u16>) -> Tree {
        let mut tree = self.all.with(there);
        self.lacks.stand_in(&mut tree);
        tree
    }

    pub fn things(&self, there: impl IntoIterator<Item = u16>) -> Result<Vec<Thing>, String> {
        let plan = self.tree(there).plan().map_err(|e| format!("{}: {e}", self.device))?;
        Ok(plan.things())
    }

    /// Classes with what is in them, and nothing else.
    pub fn classes(&self, of: impl IntoIterator<Item = u16>) -> Result<Vec<Thing>, String> {
        let mut things = self.things(of)?;
        things.retain(|thing| self.dynamic_class(thing.place()).is_some());
        Ok(things)
    }

    /// The number of the class in which a place is, if it is one that comes and goes.
    pub fn dynamic_class(&self, place: Place) -> Option<u16> {
        let class = match place {
            Place::Class { id, .. } => id,
            Place::Qdisc { parent, .. } | Place::Filter { parent, .. } => parent,
        };
        let (from, to) = OnDemand::minors();
        let may = class.major == 1 && (from..=to).contains(&class.minor);
        (may && !self.all.is_group(class)).then_some(class.minor)
    }

    /// The place of its filter's queue.
    pub const ROOT: Handle = Handle::qdisc(1);
}

impl SubscriberClasses {
    /// What is to be known of the subscribers of an interface; none where their classes are made at once.
    pub fn of(all: &LinePolicy, device: &str, traits: DeviceTraits) -> Result<Self, CommandError> {
        let (up, down) = all.rates();
        let mut lacks = known_lacks(device);
        let mut way = |device: String, side: Side, rate: Option<Rate>, got_counts| {
            let tell = if side == Side::From { Tell::Source } else { Tell::Destination };
            let made = rate.map(|rate| all.on_demand(tell, rate, traits)).transpose();
            let made = made.map_err(CommandError::unusable)?;
            let made =
                made.map(|made| LineDirection::new(device, side, got_counts, made, &mut lacks));
            made.transpose().map_err(CommandError::system)
        };
        let own = way(device.to_owned(), Side::From, up, false)?;
        let beyond = way(ifb_of(device), Side::To, down, up.is_none())?;
        let ways = own.into_iter().chain(beyond).collect();
        let idle = all.lazy_idle.unwrap_or(LAZY_IDLE);
        let most = usize::from(all.lazy_most.unwrap_or(LAZY_MOST));
        Ok(SubscriberClasses { directions: ways, idle, most })
    }

    pub fn len(&self) -> usize {
        self.directions.first().map_or(0, |way| way.all.count())
    }

    /// What the kernel lacks of what they are to have, in words.
    pub fn remarks(&self) -> Vec<String> {
        let Some(way) = self.directions.first() else { return Vec::new() };
        let mut tree = way.all.with(way.all.likely().into_iter().take(1));
        way.lacks.stand_in(&mut tree).into_iter().map(str::to_owned).collect()
    }

    /// What comes and goes, for a goal.
    pub fn dynamic(&self) -> Vec<DynamicClasses> {
        let (from, to) = OnDemand::minors();
        let of =
            |way: &LineDirection| DynamicClasses { device: way.device.clone(), queue: 1, from, to };
        self.directions.iter().map(of).collect()
    }

    /// A class of each sort on each way, to be tried beforehand.
    pub fn likely(&self) -> Result<Vec<(String, Vec<Thing>)>, CommandError> {
        let of = |way: &LineDirection| Ok((way.device.clone(), way.classes(way.all.likely())?));
        self.directions.iter().map(of).collect::<Result<_, String>>().map_err(CommandError::usage)
    }
}

/// What this kernel lacks, by what stands there already; none where nothing of it is in force.
fn known_lacks(device: &str) -> Option<LeafLack> {
    let mut socket = Socket::open(Protocol::Route).ok()?;
    let mut stack = Stack::open().ok()?;
    let beyond = ifb_of(device);
    let mut of = |device: &str| {
        let index = stack.index_of(&device.parse().ok()?).ok()?;
        let filters = tc::dump_filters(&mut socket, index, LineDirection::ROOT).ok()?;
        let ours = |filter: &ObservedFilter| {
            matches!(filter.filter.as_ref().map(|f| &f.kind), Some(FilterKind::Roster(_)))
        };
        filters.iter().find(|filter| ours(filter))?;
        let leaf = tc::queue_in(&mut socket, index, OnDemand::OTHERS).ok()??;
        match leaf.kind.as_str() {
            "fq_codel" => Some(LeafLack::default()),
            "sfq" => Some(LeafLack { fq_codel: true, sfq: false }),
            "pfifo" => Some(LeafLack { fq_codel: true, sfq: true }),
            _ => None,
        }
    };
    of(device).or_else(|| of(&beyond))
}

/// Why this kernel can't find subscribers by a table; none where it can, or does already.
pub fn why_not(device: &str) -> Option<String> {
    if known_lacks(device).is_some() {
        return None;
    }
    let may = RosterProgram::load(Side::From).and_then(|_| kernel::may_filter_by_program());
    may.err().map(|error| error.to_string())
}
