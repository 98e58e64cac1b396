//! The files of lines that change: read once before a run, kept in its manifest, and put into the topology.
//!
//! ```text
//!   line = "line.toml" ──read──► what line.toml says of both directions ──fill──┐
//!   up = { series = "lte.csv" } ──read──► what lte.csv says ──fill──► the line, with its mean as `rate`
//!                                              │ manifest.series
//!   quell run RUN ◄────────────────────────────┘
//! ```

use crate::measured_link;
use crate::spec::Experiment;
use quell_lab::topology::{Line, LineFiles, Topology};
use quell_series::{MeasuredLine, SeriesFile};
use quell_sys::input::Input;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// By their names, as the experiment has them.
pub type LineFilesRead = BTreeMap<String, LineFile>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineFile {
    /// Of the file's bytes, in hexadecimal.
    pub sha256: String,
    #[serde(flatten)]
    pub says: SeriesFile,
    /// Of a `line.toml`, which says nothing as a series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<MeasuredLine>,
}

/// A file of gigabytes that is hashed as it is read.
struct Hashed {
    from: Input,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(to)?;
        self.hash.update(&to[..count]);
        Ok(count)
    }
}

/// The values of a sweep of fields that end so.
fn swept<'a>(experiment: &'a Experiment, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let swept = experiment.sweep.iter().filter(move |(path, _)| path.ends_with(key));
    swept.flat_map(|(_, values)| values).filter_map(|v| v.as_str().map(String::from))
}

/// Reads the files that an experiment names, in the folder of its own file: of lines that were measured, and of those that change.
pub fn read(experiment: &Experiment, folder: &Path) -> Result<LineFilesRead, String> {
    let [lines, series] = [".line", ".series"].map(|key| swept(experiment, key));
    read_all(experiment.topology.clone(), lines, series, folder)
}

/// Puts what the files say that a topology names by itself into its lines.
pub fn read_into(topology: &mut Topology, folder: &Path) -> Result<(), String> {
    let none = std::iter::empty;
    let files = read_all(topology.clone(), none(), none(), folder)?;
    fill(topology, &files)
}

fn read_all(
    mut topology: Topology,
    lines: impl Iterator<Item = String>,
    series: impl Iterator<Item = String>,
    folder: &Path,
) -> Result<LineFilesRead, String> {
    let mut all = LineFilesRead::new();
    let links = topology.link.iter().filter_map(|link| link.line.clone());
    for name in links.chain(lines).collect::<BTreeSet<_>>() {
        let file = read_file(&folder.join(&name), "the measured line", |from| {
            let mut text = String::new();
            from.by_ref()
                .take(MeasuredLine::LONGEST)
                .read_to_string(&mut text)
                .map_err(|e| e.to_string())?;
            let line = MeasuredLine::parse(&text).map_err(|e| e.to_string())?;
            Ok((SeriesFile::default(), Some(line)))
        })?;
        all.insert(name, file);
    }
    measured_links(&mut topology, &all)?;
    let lines = topology.link.iter().flat_map(|link| [&link.both, &link.up, &link.down]).flatten();
    let files = lines.filter_map(|line| line.series.as_ref()).flat_map(LineFiles::names).cloned();
    for name in files.chain(series).collect::<BTreeSet<_>>() {
        let file = read_file(&folder.join(&name), "the series", |from| {
            let says = SeriesFile::read(BufReader::with_capacity(1 << 16, from), None);
            Ok((says.map_err(|e| e.to_string())?, None))
        })?;
        all.insert(name, file);
    }
    Ok(all)
}

fn read_file(
    path: &Path,
    what: &str,
    parse: impl FnOnce(&mut Hashed) -> Result<(SeriesFile, Option<MeasuredLine>), String>,
) -> Result<LineFile, String> {
    let tried = |why: String| format!("{what} {}: {why}", path.display());
    let from = Input::open(path).map_err(|e| tried(e.to_string()))?;
    let mut from = Hashed { from, hash: Sha256::new() };
    let (says, line) = parse(&mut from).map_err(tried)?;
    std::io::copy(&mut from, &mut std::io::sink()).map_err(|e| tried(e.to_string()))?;
    let sha256 = from.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(LineFile { sha256, says, line })
}

/// Puts measured lines into the links that name them; tells what was chosen where they are unknown.
pub fn measured_links(
    topology: &mut Topology,
    files: &LineFilesRead,
) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for link in &mut topology.link {
        let Some(name) = link.line.take() else { continue };
        let line = files.get(&name).and_then(|file| file.line.as_ref());
        let line = line.ok_or_else(|| format!("the measured line {name} was not read"))?;
        notes.extend(measured_link::put(link, &name, line)?);
    }
    Ok(notes)
}

/// As a manifest keeps them: each as JSON.
pub fn kept(files: &LineFilesRead) -> BTreeMap<String, String> {
    let text = |file: &LineFile| serde_json::to_string(file).unwrap_or_default();
    files.iter().map(|(name, file)| (name.clone(), text(file))).collect()
}

/// What a manifest keeps.
pub fn of_kept(kept: &BTreeMap<String, String>) -> Result<LineFilesRead, String> {
    let read = |(name, text): (&String, &String)| {
        let file = serde_json::from_str(text).map_err(|e| format!("the series {name}: {e}"))?;
        Ok((name.clone(), file))
    };
    kept.iter().map(read).collect()
}

/// Puts what the files say into the lines that name them.
pub fn fill(topology: &mut Topology, files: &LineFilesRead) -> Result<(), String> {
    measured_links(topology, files)?;
    for link in &mut topology.link {
        if link.both.as_ref().is_some_and(|both| both.series.is_some()) {
            link.up = link.both.take();
            link.down = link.up.clone();
        }
        for (way, line) in [("up", &mut link.up), ("down", &mut link.down)] {
            let Some(line) = line else { continue };
            fill_line(line, way, files)
                .map_err(|why| format!("link `{}`, {way}: {why}", link.name))?;
        }
    }
    Ok(())
}

/// A file that has one direction alone is good for both.
fn fill_line(line: &mut Line, way: &str, files: &LineFilesRead) -> Result<(), String> {
    let names = line.series.as_ref().map(LineFiles::names).unwrap_or_default().to_vec();
    let mut all = SeriesFile::default();
    for name in &names {
        let file = files.get(name).ok_or_else(|| format!("the series {name} was not read"))?;
        all.join(file.says.clone());
    }
    let series = match way {
        "up" => all.up.or(all.down),
        _ => all.down.or(all.up),
    };
    let Some(mut series) = series else { return Ok(()) };
    series.trains.clear();
    let given = [
        ("rate", line.rate.is_some() && series.rate.is_some()),
        ("delay", line.delay.is_some() && series.delay.is_some()),
        ("loss", line.loss.is_some() && series.loss.is_some()),
    ];
    if let Some((key, _)) = given.iter().find(|(_, twice)| *twice) {
        return Err(format!("`{key}` is in {} already; leave one out", names.join(", ")));
    }
    if let Some(rate) = &series.rate {
        let mean = rate.mean();
        if mean.bps() == 0 {
            return Err(format!("{} carries nothing", names.join(", ")));
        }
        line.rate = Some(mean);
    }
    line.series = Some(LineFiles::Read(Arc::new(series)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_by_itself_has_the_lines_whose_files_it_names() {
        let template = std::env::temp_dir().join("quell-lines-XXXXXX");
        let folder = nix::unistd::mkdtemp(&template).expect("a folder");
        let line = "version = 1\n[up]\nrate = { value = \"2 Mbit/s\" }\n[down]\nrate = { value = \"8 Mbit/s\" }\n";
        std::fs::write(folder.join("line.toml"), line).expect("it is written");
        let of = |file: &str| -> Topology {
            let text = format!(
                "hosts = [\"a\", \"b\"]\n[[link]]\nname = \"wan\"\nends = [\"a\", \"b\"]\nline = \"{file}\"\n"
            );
            toml::from_str(&text).expect("a topology")
        };
        let mut topology = of("line.toml");
        read_into(&mut topology, &folder).expect("it is there");
        let up = topology.link[0].up.as_ref().and_then(|up| up.rate);
        assert_eq!(up.map(|rate| rate.bps()), Some(2_000_000));
        let why = read_into(&mut of("none.toml"), &folder).expect_err("no such file");
        assert!(why.contains("none.toml"), "{why}");
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
