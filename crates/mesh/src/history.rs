//! What a pair met in a stretch of time, small enough that thousands of pairs fit in memory.
//!
//! ```text
//!   sketches of minutes, in any order ──► PairHistory ──┬─ minutes   for changes
//!                                                       ├─ columns   for the smoke figure
//!                                                       └─ usual, last hour
//! ```

use crate::common_cause::Topology;
use crate::folder::{
    BulkResult, FolderError, HOUR_NS, MINUTE_NS, MeshReader, Pair, PairRow, Select,
};
use crate::record::PathHop;
use quell_model::sketch::{self, Sketch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Shares of the answered packets of which a [`Bin`] knows the round-trip time.
pub const SHARES: [f64; 8] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0];
pub const MEDIAN: usize = 3;
pub const P99: usize = 6;

/// A smoke figure has at most so many columns.
const MOST_COLUMNS: i64 = 240;

/// Packets of a stretch of time: their counts, and buckets of their round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    pub from_ns: i64,
    pub length_ns: u64,
    pub sent: u32,
    pub lost_up: u32,
    pub lost_down: u32,
    pub lost_somewhere: u32,
    /// By [`SHARES`]; none where nothing was answered.
    pub buckets: Option<[u16; SHARES.len()]>,
}

impl Bin {
    pub fn of(sketch: &Sketch) -> Self {
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let buckets = SHARES.map(|share| sketch.quantile(share).map(|v| sketch::bucket(v as u64)));
        Self {
            from_ns: sketch.from_ns,
            length_ns: sketch.length_ns,
            sent: small(sketch.sent),
            lost_up: small(sketch.lost_up),
            lost_down: small(sketch.lost_down),
            lost_somewhere: small(sketch.lost_somewhere),
            buckets: buckets[0].is_some().then(|| buckets.map(Option::unwrap_or_default)),
        }
    }

    pub fn lost(&self) -> u32 {
        self.lost_up.saturating_add(self.lost_down).saturating_add(self.lost_somewhere)
    }

    /// A round-trip time in nanoseconds, by its place in [`SHARES`].
    pub fn rtt_ns(&self, share: usize) -> Option<f64> {
        self.buckets.map(|buckets| sketch::value(buckets[share]))
    }
}

/// A path as it was from a time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathSeen {
    pub from_ns: i64,
    /// Addresses; `*` where nobody answered.
    pub hops: Vec<String>,
}

/// What a page or a bulk test met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BulkSeen {
    pub wall_ns: i64,
    pub class: String,
    #[serde(flatten)]
    pub what: BulkResult,
}

#[derive(Debug, Clone, Default)]
pub struct PairHistory {
    /// Ascending.
    pub minutes: Vec<Bin>,
    /// All of the time in at most 240 bins.
    pub columns: Vec<Bin>,
    pub last_hour: Sketch,
    /// All before the last hour.
    pub usual: Sketch,
    /// Ascending; the next where another was seen.
    pub paths: Vec<PathSeen>,
    /// Ascending.
    pub bulk: Vec<BulkSeen>,
}

/// The site of an agent: those whose names differ in a number at their end are at one, as `fra-1` and `fra-2`.
pub fn site(agent: &str) -> Option<&str> {
    let name = agent.trim_end_matches(|c: char| c.is_ascii_digit());
    let site = name.trim_end_matches(['-', '_']);
    (name != agent && !site.is_empty()).then_some(site)
}

/// Pairs between two times: wall time in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct MeshHistory {
    pub from_ns: i64,
    pub to_ns: i64,
    pub pairs: BTreeMap<Pair, PairHistory>,
    /// The sites of agents, where the mesh's file is known; by their names otherwise.
    pub sites: Option<BTreeMap<String, String>>,
}

impl MeshHistory {
    pub fn new(from_ns: i64, to_ns: i64) -> Self {
        Self { from_ns, to_ns, ..Self::default() }
    }

    /// What a folder holds of so long before something came last; none where that is nothing.
    pub fn latest(folder: &Path, length_ns: i64) -> Result<Option<Self>, FolderError> {
        let reader = MeshReader::open(folder)?;
        let Some(end_ns) = reader.end_ns()? else { return Ok(None) };
        Self::read(&reader, length_ns, end_ns).map(Some)
    }

    /// What a folder holds of the time before this one; a path that was there when it began counts too.
    pub fn read(folder: &MeshReader, length_ns: i64, to_ns: i64) -> Result<Self, FolderError> {
        let mut mesh = Self::new(to_ns.saturating_sub(length_ns), to_ns);
        let select = Select::times(mesh.from_ns, mesh.to_ns);
        for (pair, minutes) in folder.sketches::<MINUTE_NS>(&select)? {
            mesh.add(pair, &minutes);
        }
        for row in by_time(folder.rows::<Vec<PathHop>>(&select)?) {
            let hop = |hop: &PathHop| hop.address.map_or("*".to_owned(), |a| a.to_string());
            mesh.add_path(row.pair, row.wall_ns, row.what.iter().map(hop).collect());
        }
        for PairRow { pair, wall_ns, what } in by_time(folder.rows::<BulkResult>(&select)?) {
            let seen = BulkSeen { wall_ns, class: pair.class.to_string(), what };
            mesh.all_classes(pair).for_each(|history| history.bulk.push(seen.clone()));
        }
        Ok(mesh)
    }

    /// Paths and bulk tests are of both ends, whatever the class; where nothing else is known of these, of their own.
    fn all_classes(&mut self, key: Pair) -> impl Iterator<Item = &mut PairHistory> {
        let first = Pair { class: "".into(), ..key.clone() };
        let (agent, peer) = (key.agent.clone(), key.peer.clone());
        let is_of = move |pair: &Pair| (&pair.agent, &pair.peer) == (&agent, &peer);
        if !self.pairs.range(&first..).next().is_some_and(|(pair, _)| is_of(pair)) {
            self.pairs.insert(key, PairHistory::default());
        }
        let all = self.pairs.range_mut(first..).take_while(move |(pair, _)| is_of(pair));
        all.map(|(_, history)| history)
    }

    fn column_ns(&self) -> i64 {
        let columns = (self.to_ns - self.from_ns) as u64 / MOST_COLUMNS as u64;
        columns.next_multiple_of(MINUTE_NS as u64).max(MINUTE_NS as u64) as i64
    }

    /// All minutes of a pair, in their order; what lies outside the time is left out.
    pub fn add(&mut self, key: Pair, sketches: &[Sketch]) {
        let (from, to, width) = (self.from_ns, self.to_ns, self.column_ns());
        let pair = self.pairs.entry(key).or_default();
        let mut column = Sketch::default();
        let mut keep = |column: &Sketch| {
            if column.sent > 0 {
                pair.columns.push(Bin::of(column));
            }
        };
        for sketch in sketches.iter().filter(|s| (from..to).contains(&s.from_ns)) {
            let begin = sketch.from_ns - (sketch.from_ns - from) % width;
            if begin != column.from_ns || column.length_ns == 0 {
                keep(&column);
                column = Sketch::new(begin, width as u64);
            }
            column.merge(sketch);
            pair.minutes.push(Bin::of(sketch));
            let part = match sketch.from_ns >= to - HOUR_NS {
                true => &mut pair.last_hour,
                false => &mut pair.usual,
            };
            part.merge(sketch);
        }
        keep(&column);
    }

    /// Where agents are, and which paths were there within a time.
    pub fn topology(&self, (from_ns, to_ns): (i64, i64)) -> Topology {
        let mut paths: BTreeMap<_, Vec<Vec<String>>> = BTreeMap::new();
        for (key, pair) in &self.pairs {
            let begin = pair.paths.partition_point(|path| path.from_ns < from_ns).saturating_sub(1);
            let there =
                pair.paths[begin.min(pair.paths.len())..].iter().take_while(|p| p.from_ns < to_ns);
            let hops = there.map(|path| path.hops.iter().filter(|h| *h != "*").cloned().collect());
            let of_pair: &mut Vec<_> =
                paths.entry((key.agent.to_string(), key.peer.to_string())).or_default();
            of_pair.extend(hops);
        }
        let agents = self.pairs.keys().flat_map(|key| [&key.agent, &key.peer]);
        let by_name = agents.filter_map(|agent| Some((agent.to_string(), site(agent)?.to_owned())));
        Topology { sites: self.sites.clone().unwrap_or_else(|| by_name.collect()), paths }
    }

    /// A path that was seen at a time; those of a pair in their order.
    pub fn add_path(&mut self, key: Pair, from_ns: i64, hops: Vec<String>) {
        for history in self.all_classes(key) {
            history.add_path(from_ns, hops.clone());
        }
    }
}

fn by_time<T>(mut rows: Vec<PairRow<T>>) -> Vec<PairRow<T>> {
    rows.sort_by_key(|row| row.wall_ns);
    rows
}

impl PairHistory {
    fn add_path(&mut self, from_ns: i64, hops: Vec<String>) {
        let paths = &mut self.paths;
        // A hop that is silent now and then is no other path.
        let is_same = |last: &[String]| {
            let mut both = last.iter().zip(&hops);
            last.len() == hops.len() && both.all(|(a, b)| a == b || a == "*" || b == "*")
        };
        match paths.last_mut().filter(|last| is_same(&last.hops)) {
            Some(last) => {
                for (known, hop) in
                    last.hops.iter_mut().zip(hops).filter(|(known, _)| *known == "*")
                {
                    *known = hop;
                }
            }
            None => paths.push(PathSeen { from_ns, hops }),
        }
    }
}
