//! Reading a mesh's folder, also while a collector writes it: what is still in the journal counts, and no row counts twice.

use super::journal::{self, Batch};
use super::tables::{self, Bucketed, FolderTable, MINUTE_NS, MeshRow};
use super::{FolderError, day_and_file, file_of};
use quell_model::Sketch;
use quell_model::rows::EchoSample;
use quell_store::StoreError;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who measured whom, in which class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub agent: Arc<str>,
    pub peer: Arc<str>,
    pub class: Arc<str>,
}

/// What is wanted: of one agent, peer or class, or of all.
#[derive(Debug, Clone, Copy)]
pub struct Select<'a> {
    pub agent: Option<&'a str>,
    pub peer: Option<&'a str>,
    pub class: Option<&'a str>,
    /// Wall time in nanoseconds since 1970; the first that counts.
    pub from_ns: i64,
    /// The first that no longer counts.
    pub until_ns: i64,
}

impl<'a> Select<'a> {
    pub fn times(from_ns: i64, until_ns: i64) -> Self {
        Self { agent: None, peer: None, class: None, from_ns, until_ns }
    }

    pub fn pair(pair: &'a Pair, from_ns: i64, until_ns: i64) -> Self {
        let (agent, peer, class) = (Some(&*pair.agent), Some(&*pair.peer), Some(&*pair.class));
        Self { agent, peer, class, from_ns, until_ns }
    }

    fn is_of<T>(&self, row: &MeshRow<T>) -> bool {
        (self.from_ns..self.until_ns).contains(&row.wall_ns)
            && self.peer.is_none_or(|peer| *row.peer == *peer)
            && self.class.is_none_or(|class| *row.class == *class)
    }
}

/// Something of a pair at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRow<T> {
    pub pair: Pair,
    /// By the agent's clock; of dropped records by the collector's.
    pub wall_ns: i64,
    pub what: T,
}

/// Rows by the file to which they will go, each with its part of the journal.
type Unsealed<T> = BTreeMap<PathBuf, Vec<(u64, MeshRow<T>)>>;

/// A mesh's folder for those who read it.
#[derive(Debug, Clone)]
pub struct MeshReader {
    folder: PathBuf,
}

impl MeshReader {
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        journal::parts(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The sketches of each pair by minutes or hours, oldest first.
    pub fn sketches<const LENGTH_NS: i64>(
        &self,
        select: &Select<'_>,
    ) -> Result<BTreeMap<Pair, Vec<Sketch>>, FolderError> {
        Ok(by_pair(self.rows::<Bucketed<LENGTH_NS>>(select)?, |sketch| sketch.0))
    }

    /// The end of the minute in which something came last, by the collector's clock: an agent's may be wrong by years.
    pub fn end_ns(&self) -> Result<Option<i64>, FolderError> {
        let Some(last) = journal::parts(&self.folder)?.pop() else { return Ok(None) };
        let next = journal::walk(&journal::path(&self.folder, last), |_, _| Ok(()))?.next;
        let stored = next.get(journal::STORED);
        Ok(stored.map(|ns| ns.div_ceil(MINUTE_NS as u64).saturating_mul(MINUTE_NS as u64) as i64))
    }

    /// The packets of each pair, oldest first.
    pub fn packets(
        &self,
        select: &Select<'_>,
    ) -> Result<BTreeMap<Pair, Vec<EchoSample>>, FolderError> {
        Ok(by_pair(self.rows::<EchoSample>(select)?, |packet| packet))
    }

    /// Those of a table, by pair and time.
    ///
    /// What is in the journal first, then the files: whatever a collector brought from one to the other meanwhile is in the files, which say so.
    pub fn rows<T: FolderTable>(
        &self,
        select: &Select<'_>,
    ) -> Result<Vec<PairRow<T>>, FolderError> {
        let mut new = self.unsealed::<T>(select)?;
        let mut found = Vec::new();
        for (agent, file) in self.files::<T>(select)? {
            let Some(read) = tables::read::<T>(&self.folder.join(&file))? else { continue };
            let mut rows: Vec<_> = read.rows.into_iter().filter(|row| select.is_of(row)).collect();
            let later = new.remove(&file).unwrap_or_default();
            rows.extend(
                later.into_iter().filter(|(part, _)| *part > read.through).map(|(_, row)| row),
            );
            found.push((agent, rows));
        }
        for (file, rows) in new {
            if let Some(agent) = agent_of(&file) {
                found.push((agent, rows.into_iter().map(|(_, row)| row).collect()));
            }
        }
        let mut all = Vec::new();
        for (agent, rows) in found {
            let agent = Arc::<str>::from(agent);
            all.extend(tables::settle(rows).into_iter().map(|row| {
                let MeshRow { wall_ns, peer, class, what, .. } = row;
                PairRow { pair: Pair { agent: agent.clone(), peer, class }, wall_ns, what }
            }));
        }
        all.sort_by(|a, b| (&a.pair, a.wall_ns).cmp(&(&b.pair, b.wall_ns)));
        Ok(all)
    }

    /// What is in the journal.
    fn unsealed<T: FolderTable>(&self, select: &Select<'_>) -> Result<Unsealed<T>, FolderError> {
        let mut found = Unsealed::new();
        for part in journal::parts(&self.folder)? {
            let read = journal::walk(&journal::path(&self.folder, part), |_, batch| {
                let Batch { agent, received_ns, records } = batch;
                if select.agent.is_none_or(|wanted| *wanted == *agent) {
                    for row in tables::rows_of::<T>(&records, received_ns) {
                        if select.is_of(&row) {
                            let file = file_of::<T>(&agent, row.wall_ns);
                            found.entry(file).or_default().push((part, row));
                        }
                    }
                }
                Ok(())
            });
            match read {
                // By now it is in the tables.
                Err(FolderError::Store(StoreError::Io { source, .. }))
                    if source.kind() == io::ErrorKind::NotFound => {}
                other => drop(other?),
            }
        }
        Ok(found)
    }

    /// The files that may hold what is wanted, below the folder, with their agents.
    fn files<T: FolderTable>(
        &self,
        select: &Select<'_>,
    ) -> Result<Vec<(String, PathBuf)>, FolderError> {
        let first = day_and_file::<T>(select.from_ns);
        let last = day_and_file::<T>(select.until_ns.saturating_sub(1));
        let mut files = Vec::new();
        for folder in self.entries(Path::new(T::NAME))? {
            let Some(day) = folder.strip_prefix("date=") else { continue };
            if !(&*first.0..=&*last.0).contains(&day) {
                continue;
            }
            let folder = Path::new(T::NAME).join(&folder);
            let agents = match select.agent {
                Some(agent) => vec![format!("agent={agent}")],
                None => self.entries(&folder)?,
            };
            for agent in agents {
                let folder = folder.join(&agent);
                let Some(agent) = agent.strip_prefix("agent=") else { continue };
                for file in self.entries(&folder)? {
                    let key = (day.to_owned(), file);
                    if key.1.ends_with(".parquet") && (&first..=&last).contains(&&key) {
                        files.push((agent.to_owned(), folder.join(key.1)));
                    }
                }
            }
        }
        Ok(files)
    }

    fn entries(&self, folder: &Path) -> Result<Vec<String>, FolderError> {
        let folder = self.folder.join(folder);
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(StoreError::io("read", &folder))?,
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }
}

fn agent_of(file: &Path) -> Option<String> {
    let folder = file.parent()?.file_name()?.to_str()?;
    Some(folder.strip_prefix("agent=")?.to_owned())
}

fn by_pair<T, V>(rows: Vec<PairRow<T>>, of: fn(T) -> V) -> BTreeMap<Pair, Vec<V>> {
    let mut pairs: BTreeMap<Pair, Vec<V>> = BTreeMap::new();
    for row in rows {
        pairs.entry(row.pair).or_default().push(of(row.what));
    }
    pairs
}
