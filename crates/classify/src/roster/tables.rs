//! The tables of the roster's programs in the kernel: found again by a program's number, written, read, listened to.

use super::Roster;
use crate::error::ClassifyError;
use crate::tables::{now, table};
use aya::Ebpf;
use aya::maps::lpm_trie::Key as TrieKey;
use aya::maps::{Array, LpmTrie, Map, MapData, MapError, MapInfo, RingBuf};
use aya::programs::loaded_programs;
use quell_tc::{Prefix, Side};
use quell_units::Span;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// `struct state` of `../bpf/roster.c`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RawState {
    last: u64,
    told: u64,
    since: u64,
    got: u64,
}

const HAS_CLASS: u64 = u64::MAX;

/// `struct roster` of `../bpf/roster.c`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RawRoster {
    print: u64,
    got_counts: u32,
    reserved: u32,
}

// SAFETY: plain numbers of one size, without padding.
unsafe impl aya::Pod for RawState {}
// SAFETY: plain numbers, the last one in the place of padding.
unsafe impl aya::Pod for RawRoster {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberState {
    /// When something was last heard of it, in ns of the kernel's coarse monotonic clock, to within a second; none if never.
    pub last: Option<u64>,
    /// Whether it was marked as one that has its class.
    pub has_class: bool,
    /// Whether user space was told that it is there without one.
    pub told: bool,
}

/// The tables of the roster's programs.
pub struct RosterTables {
    prefixes: LpmTrie<MapData, [u32; 5], u32>,
    states: Array<MapData, RawState>,
    roster: Array<MapData, RawRoster>,
    arrivals: Option<Map>,
}

/// The name of a side's program, in the object and in the kernel.
pub(super) fn program_of(side: Side) -> &'static str {
    match side {
        Side::From => "quell_from",
        Side::To => "quell_to",
    }
}

/// `FAMILY_BITS` of `../bpf/roster.c`.
const FAMILY_BITS: u32 = 32;

/// `struct prefix` of `../bpf/roster.c`: its words are in their order on the wire.
fn key_of(prefix: Prefix) -> TrieKey<[u32; 5]> {
    let (family, bits) = match prefix.address {
        IpAddr::V4(v4) => (4u32, u128::from(v4.to_bits()) << 96),
        IpAddr::V6(v6) => (6, v6.to_bits()),
    };
    let [a, b, c, d] = [96, 64, 32, 0].map(|shift| ((bits >> shift) as u32).to_be());
    TrieKey::new(FAMILY_BITS + u32::from(prefix.length), [(family << 24).to_be(), a, b, c, d])
}

/// None where it is no key of ours.
fn prefix_of(key: &TrieKey<[u32; 5]>) -> Option<Prefix> {
    let [family, rest @ ..] = key.data().map(u32::from_be);
    let bits = rest.into_iter().fold(0, |bits, word| (bits << 32) | u128::from(word));
    let address: IpAddr = match family >> 24 {
        4 => Ipv4Addr::from_bits((bits >> 96) as u32).into(),
        6 => Ipv6Addr::from_bits(bits).into(),
        _ => return None,
    };
    Prefix::new(address, u8::try_from(key.prefix_len().checked_sub(FAMILY_BITS)?).ok()?)
}

/// What is in the tables belongs to another version.
fn other_version(what: &str) -> ClassifyError {
    ClassifyError::Table {
        tried: "use the tables of subscribers".into(),
        answer: format!("{what}: they are of another version of Quell; apply it again"),
    }
}

impl RosterTables {
    fn new(mut take: impl FnMut(&str) -> Option<Map>) -> Result<Self, ClassifyError> {
        let mut find = |name: &str| take(name).ok_or_else(|| other_version(&format!("no {name}")));
        let wrong = |error: MapError| other_version(&error.to_string());
        Ok(RosterTables {
            prefixes: LpmTrie::try_from(find("PREFIXES")?).map_err(wrong)?,
            states: Array::try_from(find("STATES")?).map_err(wrong)?,
            roster: Array::try_from(find("ROSTER")?).map_err(wrong)?,
            arrivals: Some(find("ARRIVALS")?),
        })
    }

    pub(super) fn of_object(ebpf: &mut Ebpf) -> Result<Self, ClassifyError> {
        RosterTables::new(|name| ebpf.take_map(name))
    }

    /// Those of a program that somebody has loaded, by the kernel's number for it; none where there is no such program.
    ///
    /// # Errors
    /// The kernel lets only CAP_SYS_ADMIN do that, or they are of another version.
    pub fn of_program(id: u32) -> Result<Option<Self>, ClassifyError> {
        let failed = |e: &dyn std::fmt::Display| ClassifyError::Table {
            tried: format!("find the tables of BPF program {id}"),
            answer: e.to_string(),
        };
        for program in loaded_programs() {
            let program = program.map_err(|e| failed(&e))?;
            if program.id() != id {
                continue;
            }
            // Its name is no help: on a kernel without tracepoints the loader gives none.
            let ids = program.map_ids().map_err(|e| failed(&e))?.unwrap_or_default();
            let mut maps = Vec::new();
            for id in ids {
                let info = MapInfo::from_id(id).map_err(|e| failed(&e))?;
                let name = info.name_as_str().unwrap_or_default().to_owned();
                let data = MapData::from_id(id).map_err(|e| failed(&e))?;
                maps.push((name, Map::from_map_data(data).map_err(|e| failed(&e))?));
            }
            let take = |name: &str| {
                let at = maps.iter().position(|(known, _)| known == name)?;
                Some(maps.swap_remove(at).1)
            };
            return RosterTables::new(take).map(Some);
        }
        Ok(None)
    }

    /// Leads what is in the kernel's table to this, with only what differs, so that packets of all others find theirs all the time. How
    /// many prefixes were entered and taken out. `got_counts` says whether packets to somebody say that he is there; those from him always do.
    ///
    /// # Errors
    /// The kernel refused: the table is between both then, and a second call leads on.
    pub fn lead_to(
        &mut self,
        wanted: &Roster,
        got_counts: bool,
    ) -> Result<(usize, usize), ClassifyError> {
        let raw = RawRoster { print: wanted.print(), got_counts: got_counts.into(), reserved: 0 };
        let there = self.roster.get(&0, 0).map_err(|e| table("read the table's number", &e))?;
        if there == raw {
            return Ok((0, 0));
        }
        let number = |e: MapError| table("write the table's number", &e);
        self.roster.set(0, RawRoster { print: 0, ..raw }, 0).map_err(number)?;
        let there = self.read()?;
        let (new, old) = (wanted.beyond(&there), there.beyond(wanted));
        for (key, id) in &new {
            let tried = || format!("enter the prefix {key}");
            self.prefixes.insert(&key_of(*key), *id, 0).map_err(|e| table(&tried(), &e))?;
        }
        let old: Vec<_> = old.iter().filter(|(key, _)| !wanted.entries.contains_key(key)).collect();
        for (key, _) in &old {
            let tried = || format!("take the prefix {key} out");
            self.prefixes.remove(&key_of(*key)).map_err(|e| table(&tried(), &e))?;
        }
        self.roster.set(0, raw, 0).map_err(|e| table("write the table's number", &e))?;
        Ok((new.len(), old.len()))
    }

    /// How many prefixes would be entered and taken out on the way to this.
    pub fn differs_by(&self, wanted: &Roster) -> Result<(usize, usize), ClassifyError> {
        if self.is(wanted)? {
            return Ok((0, 0));
        }
        let there = self.read()?;
        let old = there.beyond(wanted);
        let gone = old.iter().filter(|(key, _)| !wanted.entries.contains_key(key)).count();
        Ok((wanted.beyond(&there).len(), gone))
    }

    /// Whether the kernel's table is this.
    pub fn is(&self, wanted: &Roster) -> Result<bool, ClassifyError> {
        let there = self.roster.get(&0, 0).map_err(|e| table("read the table's number", &e))?;
        Ok(there.print == wanted.print())
    }

    /// What is in the kernel's table.
    pub fn read(&self) -> Result<Roster, ClassifyError> {
        let mut roster = Roster::default();
        for entry in self.prefixes.iter() {
            let (key, id) = entry.map_err(|e| table("read the prefixes of subscribers", &e))?;
            let prefix = prefix_of(&key).ok_or_else(|| other_version("a prefix of no family"))?;
            roster.entries.insert(prefix, id);
        }
        Ok(roster)
    }

    /// How it is with the subscriber whose class has this minor.
    pub fn state(&self, minor: u16) -> Result<SubscriberState, ClassifyError> {
        let raw = self.raw(minor)?;
        let has_class = raw.told == HAS_CLASS;
        let last = Some(raw.last).filter(|last| *last != 0);
        Ok(SubscriberState { last, has_class, told: raw.told != 0 && !has_class })
    }

    fn raw(&self, minor: u16) -> Result<RawState, ClassifyError> {
        self.states.get(&minor.into(), 0).map_err(|e| table("read who is there", &e))
    }

    /// Notes that a subscriber has its class now, and is heard of just now if it never was; or that it has none any more: then its next packet
    /// is told.
    pub fn mark(&mut self, minor: u16, has_class: bool) -> Result<(), ClassifyError> {
        let raw = self.raw(minor)?;
        let told = if has_class { HAS_CLASS } else { 0 };
        let last = if raw.last == 0 && has_class { now() } else { raw.last };
        let raw = RawState { told, last, ..raw };
        self.states.set(minor.into(), raw, 0).map_err(|e| table("note who has a class", &e))
    }

    /// Where it is told who is there without a class. Once: a second one would take the first one's.
    ///
    /// # Errors
    /// It was taken already, or can't be mapped into memory.
    pub fn arrivals(&mut self) -> Result<NewcomerRing, ClassifyError> {
        let tried = "listen to who is there";
        let map = self.arrivals.take().ok_or_else(|| ClassifyError::Table {
            tried: tried.into(),
            answer: "somebody listens already".into(),
        })?;
        RingBuf::try_from(map).map(NewcomerRing).map_err(|e| table(tried, &e))
    }

    /// The clock that says when a subscriber was last heard, in ns.
    pub fn now() -> u64 {
        now()
    }

    /// Makes a subscriber look as if nothing had been heard of it for `longer`. For tests, which don't wait.
    #[doc(hidden)]
    pub fn age(&mut self, minor: u16, longer: Span) -> Result<(), ClassifyError> {
        let mut raw = self.raw(minor)?;
        for time in [&mut raw.last, &mut raw.since] {
            *time = time.wrapping_sub(longer.nanos()).max(1);
        }
        if raw.told != 0 && raw.told != HAS_CLASS {
            raw.told = raw.told.wrapping_sub(longer.nanos()).max(1);
        }
        self.states.set(minor.into(), raw, 0).map_err(|e| table("age a subscriber", &e))
    }
}

/// Who is there without a class, by the minors of their classes. Readable, for poll(2), when somebody is.
pub struct NewcomerRing(RingBuf<MapData>);

impl NewcomerRing {
    /// The next one; none where all were told.
    pub fn next_arrival(&mut self) -> Option<u16> {
        let item = self.0.next()?;
        let number = item.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        Some(number as u16)
    }
}

impl AsFd for NewcomerRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_comes_back_from_its_key() {
        for text in ["0.0.0.0/0", "10.1.2.0/24", "10.1.2.3/32", "::/0", "2001:db8::/33", "::1/128"]
        {
            let prefix: Prefix = text.parse().expect("a prefix");
            assert_eq!(prefix_of(&key_of(prefix)), Some(prefix), "{text}");
        }
        let words = key_of("10.1.2.0/24".parse().expect("a prefix")).data();
        assert_eq!(words.map(u32::to_ne_bytes)[..2], [[4, 0, 0, 0], [10, 1, 2, 0]]);
        assert_eq!(prefix_of(&TrieKey::new(40, [0; 5])), None);
    }
}
