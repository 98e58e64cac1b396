//! The tables of a classifier in the kernel: its configuration, who has which class, whose address is whose.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::ProgramError;
use nix::time::{ClockId, clock_gettime};
use quell_units::Span;

use crate::config::Config;
use crate::error::ClassifyError;
use crate::raw::RawConfig;

/// The number that stands for strangers in `bpf/whose.h`.
const STRANGER: u64 = u64::MAX;

/// `struct slot` of `bpf/hosts.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Slot {
    high: u64,
    low: u64,
    last: u64,
    since: u64,
}

/// `struct search` of `bpf/hosts.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Search {
    none_before: u64,
    sharing: u64,
}

// SAFETY: plain numbers of one size, without padding.
unsafe impl aya::Pod for Slot {}
// SAFETY: the same.
unsafe impl aya::Pod for Search {}

/// A host, as the classifier tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostId {
    /// An address, or the first of a prefix that is one host.
    Address(IpAddr),
    /// The number of a neighbour, as the kernel knows them or user space entered it; see [`HostId::mac`].
    Neighbour(u64),
    /// All addresses that no machine on the link has.
    Strangers,
    Mark(u32),
    Vlan(u16),
}

impl HostId {
    /// The hardware address of a neighbour that the kernel knows.
    pub fn mac(self) -> Option<[u8; 6]> {
        match self {
            HostId::Neighbour(number) => {
                let [_, _, mac @ ..] = number.to_be_bytes();
                (mac != [0; 6]).then_some(mac)
            }
            _ => None,
        }
    }

    fn of(high: u64, low: u64) -> Self {
        match high {
            u64::MAX if low == STRANGER => HostId::Strangers,
            u64::MAX => HostId::Neighbour(low),
            high if high == u64::MAX - 1 => HostId::Vlan(low as u16),
            high if high == u64::MAX - 2 => HostId::Mark(low as u32),
            high => {
                let v6 = Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low));
                HostId::Address(v6.to_ipv4_mapped().map_or(v6.into(), IpAddr::V4))
            }
        }
    }
}

/// A host that holds a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRow {
    /// Which of the host classes, from 0.
    pub class: u16,
    pub host: HostId,
    /// How long nothing was heard of it, to within the kernel's tick.
    pub idle: Span,
    /// How long it has the class.
    pub held: Span,
}

/// The tables of a classifier, this process's or that of a filter. Their kinds and sizes were looked at when they were opened.
pub struct Tables {
    config: Map,
    slots: Map,
    hosts: Map,
    search: Map,
    neighbours: Map,
}

const CHECKED: &str = "looked at when it was opened";

/// A table of the kind that each view below wants; `$map` is its field.
macro_rules! view {
    ($get:ident, $change:ident, $map:ident: $kind:ident<$($of:ty),+>) => {
        fn $get(&self) -> $kind<&MapData, $($of),+> {
            $kind::try_from(&self.$map).expect(CHECKED)
        }
        fn $change(&mut self) -> $kind<&mut MapData, $($of),+> {
            $kind::try_from(&mut self.$map).expect(CHECKED)
        }
    };
}

impl Tables {
    view!(config, config_mut, config: Array<RawConfig>);
    view!(slots, slots_mut, slots: Array<Slot>);
    view!(holders, holders_mut, hosts: HashMap<[u64; 2], u32>);
    view!(searches, searches_mut, search: Array<Search>);
    view!(neighbours, neighbours_mut, neighbours: HashMap<[u64; 2], [u64; 2]>);

    /// The table of whose address is whose. For tests, which have no neighbours.
    #[doc(hidden)]
    pub fn owners(&mut self) -> HashMap<&mut MapData, [u64; 2], [u64; 2]> {
        self.neighbours_mut()
    }

    pub(crate) fn of(ebpf: &mut Ebpf) -> Result<Self, ClassifyError> {
        let mut take = |name| ebpf.take_map(name).expect("the object has this table");
        Tables {
            config: take("CONFIG"),
            slots: take("SLOTS"),
            hosts: take("HOSTS"),
            search: take("SEARCH"),
            neighbours: take("NEIGHBOURS"),
        }
        .checked()
    }

    /// Those of a classifier that is a filter, by the kernel's number for its program.
    ///
    /// # Errors
    /// There is no such program, it is another one, or the kernel does not let us look (`CAP_SYS_ADMIN`).
    pub fn of_program(id: u32) -> Result<Self, ClassifyError> {
        let failed = |answer: String| ClassifyError::Table {
            tried: format!("look at the tables of BPF program {id}"),
            answer,
        };
        let program = aya::programs::loaded_programs()
            .find(|program| !matches!(program, Ok(other) if other.id() != id))
            .ok_or_else(|| failed("there is no such program".into()))?
            .map_err(|why| failed(program_answer(&why)))?;
        let ids = program.map_ids().map_err(|why| failed(program_answer(&why)))?;
        let mut found = BTreeMap::new();
        for id in ids.unwrap_or_default() {
            let data = MapData::from_id(id).map_err(|e| failed(answer_of(&e)))?;
            let info = data.info().map_err(|e| failed(answer_of(&e)))?;
            found.insert(info.name_as_str().unwrap_or_default().to_owned(), data);
        }
        let mut take = |name: &str| {
            found.remove(name).ok_or_else(|| failed(format!("it has no table {name}")))
        };
        Tables {
            config: Map::Array(take("CONFIG")?),
            slots: Map::Array(take("SLOTS")?),
            hosts: Map::HashMap(take("HOSTS")?),
            search: Map::Array(take("SEARCH")?),
            neighbours: Map::HashMap(take("NEIGHBOURS")?),
        }
        .checked()
    }

    /// Whether each table is what the views take it for: a filter's may be of another version.
    fn checked(self) -> Result<Self, ClassifyError> {
        let views = [
            Array::<_, RawConfig>::try_from(&self.config).err(),
            Array::<_, Slot>::try_from(&self.slots).err(),
            HashMap::<_, [u64; 2], u32>::try_from(&self.hosts).err(),
            Array::<_, Search>::try_from(&self.search).err(),
            HashMap::<_, [u64; 2], [u64; 2]>::try_from(&self.neighbours).err(),
        ];
        match views.into_iter().flatten().next() {
            None => Ok(self),
            Some(error) => Err(ClassifyError::Table {
                tried: "use the classifier's tables".into(),
                answer: format!("{error}: they are of another version of Quell; apply it again"),
            }),
        }
    }

    /// Tells the program what to do from now on. Hosts keep their classes, unless they are told or counted in another way: then all begin anew.
    ///
    /// # Errors
    /// More host classes than it was loaded with, or the kernel refused.
    pub fn configure(&mut self, config: &Config) -> Result<(), ClassifyError> {
        let next = RawConfig::from(config);
        if next.hosts > self.slots().len() {
            return Err(ClassifyError::Table {
                tried: format!("configure the classifier for {} host classes", next.hosts),
                answer: format!("it was loaded with {}: load another one", self.slots().len()),
            });
        }
        let before = self.config().get(&0, 0).map_err(|e| table("read the configuration", &e))?;
        self.config_mut().set(0, next, 0).map_err(|e| table("configure the classifier", &e))?;
        if !next.has_hosts_of(&before) {
            self.forget_hosts()?;
        }
        // A shorter idle time may free a class now.
        let mut search = self.search()?;
        search.none_before = 0;
        self.searches_mut().set(0, search, 0).map_err(|e| table("configure the classifier", &e))
    }

    /// Takes all hosts their classes.
    pub fn forget_hosts(&mut self) -> Result<(), ClassifyError> {
        let failed = |e: MapError| table("forget hosts", &e);
        let free = Slot { high: 0, low: 0, last: 0, since: 0 };
        for at in 0..self.slots().len() {
            self.slots_mut().set(at, free, 0).map_err(failed)?;
        }
        let hosts: Vec<[u64; 2]> =
            self.holders().keys().collect::<Result<_, _>>().map_err(failed)?;
        for host in hosts {
            gone(self.holders_mut().remove(&host)).map_err(failed)?;
        }
        self.searches_mut().set(0, Search { none_before: 0, sharing: 0 }, 0).map_err(failed)
    }

    /// Who holds a class, in the order of the classes; those who were silent for so long that a new host would take their class too.
    pub fn hosts(&self) -> Result<Vec<HostRow>, ClassifyError> {
        let now = now();
        let span = |from: u64| since(from, now);
        let mut rows = Vec::new();
        for (class, slot) in self.slots().iter().enumerate() {
            let slot = slot.map_err(|e| table("read who has which class", &e))?;
            if slot.last != 0 {
                let host = HostId::of(slot.high, slot.low);
                let class = class as u16;
                rows.push(HostRow { class, host, idle: span(slot.last), held: span(slot.since) });
            }
        }
        Ok(rows)
    }

    /// Packets of hosts that had to share a class, since all were taken.
    pub fn sharing(&self) -> Result<u64, ClassifyError> {
        Ok(self.search()?.sharing)
    }

    /// The addresses of each neighbour that were looked at lately, by its number.
    pub fn addresses(&self) -> Result<BTreeMap<u64, Vec<IpAddr>>, ClassifyError> {
        let mut all: BTreeMap<u64, Vec<IpAddr>> = BTreeMap::new();
        for row in self.neighbours().iter() {
            // It may go while it is read.
            let Ok(([high, low], [number, _])) = row else { continue };
            let is_machine = !matches!(number, 0 | STRANGER);
            if let (true, HostId::Address(address)) = (is_machine, HostId::of(high, low)) {
                all.entry(number).or_default().push(address);
            }
        }
        all.values_mut().for_each(|addresses| addresses.sort_unstable());
        Ok(all)
    }

    /// How many addresses strangers had within `lately`, of the 2048 addresses that are remembered.
    pub fn strangers(&self, lately: Span) -> Result<usize, ClassifyError> {
        let now = now();
        let owners = self.neighbours();
        let strangers = owners.iter().flatten().filter(|(_, [number, until])| {
            *number == STRANGER && since(*until, now).nanos() <= lately.nanos()
        });
        Ok(strangers.count())
    }

    /// Makes all hosts look as if nothing had been heard of them, and no address been looked at, for `longer`, which may be more than the kernel is up. For tests, which
    /// don't wait.
    #[doc(hidden)]
    pub fn age(&mut self, longer: Span) -> Result<(), ClassifyError> {
        let failed = |e: MapError| table("age hosts", &e);
        for at in 0..self.slots().len() {
            let mut slot = self.slots().get(&at, 0).map_err(failed)?;
            if slot.last != 0 {
                slot.last = earlier(slot.last, longer);
                self.slots_mut().set(at, slot, 0).map_err(failed)?;
            }
        }
        let known: Vec<_> = self.neighbours().iter().flatten().collect();
        for (address, [number, until]) in known {
            // What user space has entered holds for ever.
            if until != u64::MAX {
                let until = until.saturating_sub(longer.nanos());
                self.neighbours_mut().insert(address, [number, until], 0).map_err(failed)?;
            }
        }
        let mut search = self.search()?;
        // Before the kernel was up is no time at which nobody may look: 0 says that one may.
        search.none_before = search.none_before.saturating_sub(longer.nanos());
        self.searches_mut().set(0, search, 0).map_err(failed)
    }

    fn search(&self) -> Result<Search, ClassifyError> {
        self.searches().get(&0, 0).map_err(|e| table("read the classifier's counters", &e))
    }
}

/// What was not there any more is as gone.
fn gone(removed: Result<(), MapError>) -> Result<(), MapError> {
    match removed {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// The program's own clock.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).expect("every kernel has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// How long ago `from` was. A time before the kernel was up has wrapped around, as in the program, which subtracts in 64 bits too; a packet
/// that came after `now` was read came just now.
fn since(from: u64, now: u64) -> Span {
    Span::from_nanos((now.wrapping_sub(from) as i64).max(0) as u64)
}

/// The time `longer` before `last`; never 0, which is a free place.
fn earlier(last: u64, longer: Span) -> u64 {
    last.wrapping_sub(longer.nanos()).max(1)
}

pub(crate) fn table(tried: &str, error: &MapError) -> ClassifyError {
    ClassifyError::Table { tried: tried.into(), answer: answer_of(error) }
}

fn answer_of(error: &MapError) -> String {
    match error {
        MapError::SyscallError(error) => error.io_error.to_string(),
        other => other.to_string(),
    }
}

fn program_answer(error: &ProgramError) -> String {
    match error {
        ProgramError::SyscallError(error) => error.io_error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_host_may_have_been_silent_since_before_the_kernel_was_up() {
        let minute = Span::from_secs(60);
        for up in [1, 7 * SECOND, 60 * SECOND, 90 * SECOND] {
            let heard = earlier(up, minute);
            assert_ne!(heard, 0, "that would be a free place");
            let idle = since(heard, up).nanos();
            assert!(minute.nanos().abs_diff(idle) <= 1, "up for {up} ns: {idle}");
        }
        assert_eq!(since(earlier(minute.nanos(), minute), minute.nanos()).nanos(), 60 * SECOND - 1);
        assert_eq!(since(8 * SECOND, 7 * SECOND), Span::ZERO, "heard after the clock was read");
    }
}
