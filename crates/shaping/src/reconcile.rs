//! Tables and classes of those who are there, led to what is in force: by whoever changed that, and by whoever makes classes as they come.
//!
//! ```text
//!   SubscriberClasses (in force) ─┐
//!                       ├─ lead() ─► the kernel's table: what differs;  classes that are there: their rates, or gone
//!   what is there ──────┘
//! ```
//!
//! No list of what was done is needed: it is the difference to what is there, whatever that is, and a second time nothing.

use crate::subscriber_classes::{LineDirection, SubscriberClasses};
use quell_classify::roster::RosterTables;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::{Stack, tc};
use quell_tc::observed::{ObservedClass, ObservedFilter, Snapshot};
use quell_tc::{Change, FilterKind, Handle, Place, Places, changes};
use std::collections::BTreeSet;

pub struct DirectionTables {
    index: u32,
    pub tables: RosterTables,
}

pub struct Reconciler {
    socket: Socket,
    pub open: Vec<DirectionTables>,
}

/// What each way has, and which of that comes and goes.
fn dynamic_classes(way: &LineDirection, snapshot: &Snapshot) -> BTreeSet<u16> {
    snapshot.classes.iter().filter_map(|class| way.dynamic_class(class.place())).collect()
}

fn staying(way: &LineDirection, snapshot: &Snapshot) -> BTreeSet<u16> {
    let stays = |class: &ObservedClass| match class.place() {
        Place::Class { parent, id } => {
            way.dynamic_class(class.place()).is_some() && way.all.can_stay(id.minor, parent)
        }
        _ => false,
    };
    snapshot.classes.iter().filter(|class| stays(class)).map(|class| class.id.minor).collect()
}

/// The program by which packets find their subscribers on an interface.
fn program(way: &LineDirection, snapshot: &Snapshot) -> Option<u32> {
    let is = |filter: &&ObservedFilter| {
        let kind = filter.filter.as_ref().map(|filter| &filter.kind);
        filter.parent == LineDirection::ROOT && kind == Some(&FilterKind::Roster(way.side))
    };
    snapshot.filters.iter().find(is)?.program
}

impl Reconciler {
    /// Finds the tables of what is in force.
    pub fn open(standby: &SubscriberClasses) -> Result<Self, String> {
        let mut leader =
            Reconciler { socket: Socket::open(Protocol::Route).map_err(said)?, open: Vec::new() };
        let mut stack = Stack::open().map_err(said)?;
        for way in &standby.directions {
            let index = stack.index_of(&way.device.parse().map_err(said)?).map_err(said)?;
            let filters =
                tc::dump_filters(&mut leader.socket, index, LineDirection::ROOT).map_err(said)?;
            let snapshot = Snapshot { filters, ..Snapshot::default() };
            let gone = || format!("{}: the filter that finds subscribers is not there", way.device);
            let program = program(way, &snapshot).ok_or_else(gone)?;
            let tables = RosterTables::of_program(program).map_err(said)?.ok_or_else(gone)?;
            leader.open.push(DirectionTables { index, tables });
        }
        Ok(leader)
    }

    /// Leads all to what is in force. `also` are there too, and get classes. Who is there.
    pub fn lead(
        &mut self,
        standby: &SubscriberClasses,
        also: &BTreeSet<u16>,
    ) -> Result<BTreeSet<u16>, String> {
        let mut there = also.clone();
        let mut found = Vec::new();
        for (way, open) in standby.directions.iter().zip(&mut self.open) {
            open.tables.lead_to(way.roster(), way.got_counts).map_err(said)?;
            let snapshot = tc::snapshot(&mut self.socket, open.index).map_err(said)?;
            there.extend(dynamic_classes(way, &snapshot));
            found.push(snapshot);
        }
        there.retain(|minor| standby.directions.iter().all(|way| way.all.name(*minor).is_some()));
        for ((way, open), snapshot) in standby.directions.iter().zip(&mut self.open).zip(found) {
            let stay = staying(way, &snapshot);
            // Who is in another group now goes first, and comes again.
            let mut todo = changes_of(way, &stay, &snapshot)?;
            let come: Vec<u16> = there.difference(&stay).copied().collect();
            todo.extend(way.classes(come)?.into_iter().map(Change::Make));
            tc::carry_all_out(&mut self.socket, open.index, &todo)
                .map_err(|(number, error)| format!("{}: {}: {error}", way.device, todo[number]))?;
        }
        Ok(there)
    }

    /// Leads the classes of some to what is in force, if they are there, and looks at nobody else's. What was done, in words.
    pub fn lead_some(
        &mut self,
        standby: &SubscriberClasses,
        who: &[u16],
    ) -> Result<Vec<String>, String> {
        let mut done = Vec::new();
        for (way, open) in standby.directions.iter().zip(&mut self.open) {
            for minor in who {
                let mut todo = of_one(way, &mut self.socket, open.index, *minor)?;
                tc::carry_all_out(&mut self.socket, open.index, &todo)
                    .map_err(|(number, e)| format!("{}: {}: {e}", way.device, todo[number]))?;
                done.extend(todo.drain(..).map(|change| format!("{}: {change}", way.device)));
                if let Some(left) = of_one(way, &mut self.socket, open.index, *minor)?.first() {
                    return Err(format!("{}: there is still to do: {left}", way.device));
                }
            }
        }
        Ok(done)
    }

    /// Whether some of these have a class.
    pub fn is_here(&mut self, who: &[u16]) -> Result<bool, String> {
        for (open, minor) in self.open.iter().flat_map(|o| who.iter().map(move |m| (o, m))) {
            let class = Handle::class(1, *minor);
            let there = tc::one_class(&mut self.socket, open.index, class).map_err(said)?;
            if !there.classes.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes classes for some who came, on all ways.
    pub fn make(&mut self, standby: &SubscriberClasses, who: &[u16]) -> Result<(), String> {
        for (way, open) in standby.directions.iter().zip(&mut self.open) {
            let things = way.classes(who.iter().copied())?;
            let todo: Vec<Change> = things.into_iter().map(Change::Make).collect();
            tc::carry_all_out(&mut self.socket, open.index, &todo)
                .map_err(|(number, error)| format!("{}: {}: {error}", way.device, todo[number]))?;
        }
        self.mark(who, true)
    }

    /// Takes off the classes of some who went.
    pub fn take_off(&mut self, standby: &SubscriberClasses, who: &[u16]) -> Result<(), String> {
        // Whose packet comes from now on is told of again.
        self.mark(who, false)?;
        for (way, open) in standby.directions.iter().zip(&mut self.open) {
            let place = |minor: &u16| {
                let (parent, class) = way.all.class(*minor)?;
                Some((Place::Class { parent, id: class.id? }, class.kind.name().to_owned()))
            };
            let all = who.iter().filter_map(place);
            let todo: Vec<Change> =
                all.map(|(place, kind)| Change::Remove { place, kind }).collect();
            tc::carry_all_out(&mut self.socket, open.index, &todo)
                .map_err(|(number, error)| format!("{}: {}: {error}", way.device, todo[number]))?;
        }
        Ok(())
    }

    pub fn mark(&mut self, who: &[u16], has_class: bool) -> Result<(), String> {
        for open in &mut self.open {
            who.iter().try_for_each(|minor| open.tables.mark(*minor, has_class)).map_err(said)?;
        }
        Ok(())
    }

    /// When somebody was last heard, either way; none if never.
    pub fn last(&self, who: u16) -> Result<Option<u64>, String> {
        let mut last = None;
        for open in &self.open {
            last = last.max(open.tables.state(who).map_err(said)?.last);
        }
        Ok(last)
    }

    /// Who was told to have no class although it is there, and who is marked and is not: of all whom the table knows.
    pub fn put_right(
        &mut self,
        standby: &SubscriberClasses,
        there: &BTreeSet<u16>,
    ) -> Result<Vec<u16>, String> {
        let Some(way) = standby.directions.first() else { return Ok(Vec::new()) };
        let mut waiting = BTreeSet::new();
        for minor in way.all.numbers() {
            let here = there.contains(&minor);
            for open in &mut self.open {
                let state = open.tables.state(minor).map_err(said)?;
                if state.has_class != here {
                    open.tables.mark(minor, here).map_err(said)?;
                }
                if state.told && !here {
                    waiting.insert(minor);
                }
            }
        }
        Ok(waiting.into_iter().collect())
    }
}

/// What the table of a way gets and loses, in words.
fn entering(way: &LineDirection, new: usize, old: usize) -> Option<String> {
    let device = &way.device;
    let prefixes = |count: usize| format!("{count} prefix{}", if count == 1 { "" } else { "es" });
    match (new, old) {
        (0, 0) => None,
        (new, 0) => Some(format!("{device}: enter {} of subscribers", prefixes(new))),
        (0, old) => Some(format!("{device}: take {} of subscribers out", prefixes(old))),
        (new, old) => {
            Some(format!("{device}: enter {} of subscribers, take {old} out", prefixes(new)))
        }
    }
}

/// What [`Reconciler::lead`] would do.
pub fn foreseen(standby: &SubscriberClasses) -> Result<Vec<String>, String> {
    let Ok(mut leader) = Reconciler::open(standby) else {
        // Nothing of it is in force yet.
        let all = |way: &LineDirection| entering(way, way.roster().len(), 0);
        return Ok(standby.directions.iter().filter_map(all).collect());
    };
    let mut steps = Vec::new();
    for (way, open) in standby.directions.iter().zip(&mut leader.open) {
        let (new, old) = open.tables.differs_by(way.roster()).map_err(said)?;
        steps.extend(entering(way, new, old));
        let snapshot = tc::snapshot(&mut leader.socket, open.index).map_err(said)?;
        let stay = staying(way, &snapshot);
        let todo = changes_of(way, &stay, &snapshot)?;
        steps.extend(todo.iter().map(|change| format!("{}: {change}", way.device)));
    }
    Ok(steps)
}

/// In what the tables of what is in force differ from it; none where they don't.
pub fn table_differs(standby: &SubscriberClasses) -> Option<String> {
    let leader = match Reconciler::open(standby) {
        Ok(leader) => leader,
        Err(why) => return Some(why),
    };
    standby.directions.iter().zip(&leader.open).find_map(|(way, open)| {
        match open.tables.is(way.roster()) {
            Ok(true) => None,
            Ok(false) => Some(format!("{}: others are in the table of subscribers", way.device)),
            Err(why) => Some(why.to_string()),
        }
    })
}

/// What leads the class of one to what it is to be; nothing where it is not there.
fn of_one(
    way: &LineDirection,
    socket: &mut Socket,
    index: u32,
    minor: u16,
) -> Result<Vec<Change>, String> {
    let mut snapshot = tc::one_class(socket, index, Handle::class(1, minor)).map_err(said)?;
    // Whether it is in its place shows by what is above it.
    let mut above = snapshot.classes.first().map(|class| class.parent);
    if above.is_none() {
        return Ok(Vec::new());
    }
    while let Some(parent) = above.filter(|p| !p.is_qdisc() && *p != Handle::ROOT) {
        let there = tc::one_class(socket, index, parent).map_err(said)?.classes;
        above = there.first().map(|class| class.parent);
        snapshot.classes.extend(there);
    }
    snapshot.qdiscs.extend(tc::queue_in(socket, index, Handle::ROOT).map_err(said)?);
    let mut todo = changes_of(way, &staying(way, &snapshot), &snapshot)?;
    if staying(way, &snapshot).is_empty() {
        todo.extend(way.classes([minor])?.into_iter().map(Change::Make));
    }
    Ok(todo)
}

/// What leads the classes that come and go to what they are to be, if these stay and all others go.
fn changes_of(
    way: &LineDirection,
    stay: &BTreeSet<u16>,
    snapshot: &Snapshot,
) -> Result<Vec<Change>, String> {
    let wanted = way.things(stay.iter().copied())?;
    let mut todo = changes(&wanted, Places { root: true, ingress: false }, snapshot);
    todo.retain(|change| way.dynamic_class(change.place()).is_some());
    Ok(todo)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
