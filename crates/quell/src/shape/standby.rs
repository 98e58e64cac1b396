//! Subscribers of whom only those who are there have classes: what is to be known of all of them.
//!
//! ```text
//!   BothWays ─┬─ up:   Way { DEV,   by source,      OnDemand, Roster }
//!             └─ down: Way { i-DEV, by destination, OnDemand, Roster }
//! ```

use super::ifb::ifb_of;
use super::kinds;
use crate::failure::Failure;
use quell_act::Guests;
use quell_classify::roster::{Roster, RosterProgram};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::{Stack, tc};
use quell_shaper::{BothWays, DeviceTraits, LAZY_IDLE, LAZY_MOST, Lack, OnDemand, Tell, instead};
use quell_tc::observed::ObservedFilter;
use quell_tc::{Filter, FilterKind, Handle, Place, Side, Thing, Tree};
use quell_units::{Rate, Span};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// One way of a line.
pub struct Way {
    /// The interface with the queue.
    pub device: String,
    /// By which address packets' subscribers are found.
    pub side: Side,
    /// Whether packets to somebody say that he is there: only where no queue sees those from him.
    pub got_counts: bool,
    /// What is made when.
    pub all: OnDemand,
    /// Whose packets are whose, once somebody asked.
    roster: OnceCell<Roster>,
    /// What the kernel lacks of what they are to have.
    lacks: Vec<Lack>,
}

/// Both ways, and how long and how many are there.
pub struct Standby {
    /// Up, down, or both.
    pub ways: Vec<Way>,
    /// Who is silent for so long goes.
    pub idle: Span,
    /// More are never there.
    pub most: usize,
}

impl Way {
    fn new(
        device: String,
        side: Side,
        got_counts: bool,
        mut all: OnDemand,
        lacks: &mut Option<Vec<Lack>>,
    ) -> Self {
        if let Some(root) = &mut all.tree.queue {
            root.filters.push(Filter::new(side, None));
        }
        let lacks = lacks.get_or_insert_with(|| kinds::lacking(&mut [&mut all.tree.clone()]));
        let (roster, lacks) = (OnceCell::new(), lacks.clone());
        Way { device, side, got_counts, all, roster, lacks }
    }

    /// Whose packets are whose.
    pub fn roster(&self) -> &Roster {
        self.roster.get_or_init(|| self.all.prefixes().collect())
    }

    /// The tree with the classes of those who are there, of what this kernel has.
    pub fn tree(&self, there: impl IntoIterator<Item = u16>) -> Tree {
        let mut tree = self.all.with(there);
        instead(&mut tree, &self.lacks);
        tree
    }

    /// The same in steps.
    pub fn things(&self, there: impl IntoIterator<Item = u16>) -> Result<Vec<Thing>, String> {
        let plan = self.tree(there).plan().map_err(|e| format!("{}: {e}", self.device))?;
        Ok(plan.things())
    }

    /// Classes with what is in them, and nothing else.
    pub fn classes(&self, of: impl IntoIterator<Item = u16>) -> Result<Vec<Thing>, String> {
        let mut things = self.things(of)?;
        things.retain(|thing| self.guest(thing.place()).is_some());
        Ok(things)
    }

    /// The number of the class in which a place is, if it is one that comes and goes.
    pub fn guest(&self, place: Place) -> Option<u16> {
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

impl Standby {
    /// What is to be known of the subscribers of an interface; none where their classes are made at once.
    ///
    /// # Errors
    /// What is said of them does not fit together.
    pub fn of(all: &BothWays, device: &str, traits: DeviceTraits) -> Result<Self, Failure> {
        let (up, down) = all.rates();
        let mut lacks = known_lacks(device);
        let mut way = |device: String, side: Side, rate: Option<Rate>, got_counts| {
            let tell = if side == Side::From { Tell::Source } else { Tell::Destination };
            let made = rate.map(|rate| all.on_demand(tell, rate, traits)).transpose();
            let made = made.map_err(Failure::unusable)?;
            Ok(made.map(|made| Way::new(device, side, got_counts, made, &mut lacks)))
        };
        let own = way(device.to_owned(), Side::From, up, false)?;
        let beyond = way(ifb_of(device), Side::To, down, up.is_none())?;
        let ways = own.into_iter().chain(beyond).collect();
        let idle = all.lazy_idle.unwrap_or(LAZY_IDLE);
        let most = usize::from(all.lazy_most.unwrap_or(LAZY_MOST));
        Ok(Standby { ways, idle, most })
    }

    /// Whose rates are others in `other`, by their classes' numbers, where nothing else is.
    pub fn other_rates(&self, other: &Standby) -> Option<BTreeSet<u16>> {
        let same = |one: &Way, way: &Way| {
            (&one.device, one.side, one.got_counts) == (&way.device, way.side, way.got_counts)
        };
        let beside = (self.idle, self.most, self.ways.len());
        if beside != (other.idle, other.most, other.ways.len()) {
            return None;
        }
        let mut differ = BTreeSet::new();
        for (one, now) in self.ways.iter().zip(&other.ways) {
            differ.extend(one.all.other_rates(&now.all).filter(|_| same(one, now))?);
        }
        Some(differ)
    }

    /// A number for each way's table.
    pub fn prints(&self) -> Vec<u64> {
        self.ways.iter().map(|way| way.roster().print()).collect()
    }

    /// How many subscribers there are.
    pub fn len(&self) -> usize {
        self.ways.first().map_or(0, |way| way.all.len())
    }

    /// What the kernel lacks of what they are to have, in words.
    pub fn remarks(&self) -> Vec<String> {
        let Some(way) = self.ways.first() else { return Vec::new() };
        let mut tree = way.all.with(way.all.likely().into_iter().take(1));
        instead(&mut tree, &way.lacks).into_iter().map(str::to_owned).collect()
    }

    /// What comes and goes, for a goal.
    pub fn guests(&self) -> Vec<Guests> {
        let (from, to) = OnDemand::minors();
        let of = |way: &Way| Guests { device: way.device.clone(), queue: 1, from, to };
        self.ways.iter().map(of).collect()
    }

    /// A class of each sort on each way, to be tried beforehand.
    pub fn likely(&self) -> Result<Vec<(String, Vec<Thing>)>, Failure> {
        let of = |way: &Way| Ok((way.device.clone(), way.classes(way.all.likely())?));
        self.ways.iter().map(of).collect::<Result<_, String>>().map_err(Failure::usage)
    }
}

/// What this kernel lacks, by what stands there already; none where nothing of it is in force.
fn known_lacks(device: &str) -> Option<Vec<Lack>> {
    let mut socket = Socket::open(Protocol::Route).ok()?;
    let mut stack = Stack::open().ok()?;
    let beyond = ifb_of(device);
    let mut of = |device: &str| {
        let index = stack.index_of(&device.parse().ok()?).ok()?;
        let filters = tc::dump_filters(&mut socket, index, Way::ROOT).ok()?;
        let ours = |filter: &ObservedFilter| {
            matches!(filter.filter.as_ref().map(|f| &f.kind), Some(FilterKind::Roster(_)))
        };
        filters.iter().find(|filter| ours(filter))?;
        let leaf = tc::queue_in(&mut socket, index, OnDemand::OTHERS).ok()??;
        match leaf.kind.as_str() {
            "fq_codel" => Some(Vec::new()),
            "sfq" => Some(vec![Lack::FqCodel]),
            "pfifo" => Some(vec![Lack::FqCodel, Lack::Sfq]),
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
    let may = RosterProgram::load(Side::From).and_then(|_| kinds::may_filter_by_program());
    may.err().map(|error| error.to_string())
}
