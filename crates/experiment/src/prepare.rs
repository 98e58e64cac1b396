//! An experiment as a person asks for it, ready to run: found, changed as asked, checked, planned.
//!
//! ```text
//!   name or file ─► text ──--set──► text ──parse──► Experiment ──spread, check──► plans, of which --only keeps some
//! ```

use crate::plan::{NotBelow, not_below};
use crate::spec::check::CheckError;
use crate::spec::load_file::ReadError;
use crate::spec::machines::LeftOut;
use crate::spec::{Experiment, error_line, load_file, set};
use crate::sweep::{self, Places, SweepError};
use crate::{builtin, line_files, machines, nearest};
use quell_lab::cell::CellPlan;
use quell_model::Manifest;
use quell_series::MeasuredLine;
use std::collections::BTreeSet;
use std::path::Path;

/// Why an experiment can't be run as it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PrepareError(String);

impl PrepareError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The manifest of the run in this folder; none where it is no run's.
pub fn run_to_repeat(folder: &Path) -> Result<Option<Manifest>, PrepareError> {
    if !folder.join("manifest.json").exists() {
        return Ok(None);
    }
    let manifest = quell_store::manifest(folder).map_err(PrepareError::of)?;
    if !holds_experiment(&manifest.experiment_text) {
        return Err(PrepareError::of(format!(
            "{} holds no experiment to run again: a command or another program measured it",
            folder.display()
        )));
    }
    Ok(Some(manifest))
}

/// The text of what was imported has remarks alone, that of a command is empty.
fn holds_experiment(text: &str) -> bool {
    text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// The text of an experiment, by name or path or as a run keeps it, and what to call it in errors. Of a measured line it is the line's twin.
pub fn text_of(experiment: &str) -> Result<(String, String), PrepareError> {
    if let Some(text) = builtin::find(experiment) {
        return Ok((experiment.into(), text.into()));
    }
    let path = Path::new(experiment);
    if let Some(manifest) = run_to_repeat(path)? {
        return Ok((experiment.into(), manifest.experiment_text));
    }
    if !path.exists() && !experiment.contains(['/', '.']) {
        let names = builtin::ALL.map(|(name, _)| name);
        return Err(PrepareError::of(format!(
            "there is no experiment `{experiment}`, built in or as a file{}",
            nearest::hint(experiment, &names)
        )));
    }
    let text = load_file::read_file(path).map_err(PrepareError::of)?;
    let is_line = MeasuredLine::parse(&text).is_ok();
    Ok((experiment.into(), if is_line { twin(path) } else { text }))
}

/// Two hosts with a measured line between them, and a ping.
fn twin(line: &Path) -> String {
    let file = line.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!(
        "name = \"twin\"\nduration = \"10s\"\n[topology]\nhosts = [\"a\", \"b\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"a\", \"b\"]\nline = {}\n\
         [[scenario]]\nname = \"idle\"\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n",
        toml::Value::from(file)
    )
}

/// An experiment that was read, changed as asked and checked.
pub struct Ready {
    /// Its text, changes made.
    pub text: String,
    pub experiment: Experiment,
    pub plans: Vec<CellPlan>,
    /// What a person should know before it runs, each a sentence.
    pub warnings: Vec<String>,
}

/// Reads, changes and checks an experiment; `only` names the scenarios that are wanted, `on` the file of the machines behind its hosts.
pub fn prepare(
    name: &str,
    changes: &[String],
    only: &[String],
    on: Option<&Path>,
) -> Result<Ready, PrepareError> {
    let (name, original) = text_of(name)?;
    // Errors in the file itself are told with its own lines, before any change.
    let unchanged = load_file::parse(&name, &original).map_err(PrepareError::of)?;
    let mut text = set::apply(&original, changes).map_err(PrepareError::of)?;
    let mut warnings = Vec::new();
    if let Some(file) = on {
        let (with, said) = machines::put(&text, &unchanged, file).map_err(PrepareError::of)?;
        text = with;
        warnings.extend(said);
    }
    let mut read = load_file::parse(&name, &text)
        .map_err(|e| PrepareError::of(misread(&name, &original, changes, &e)))?;
    if let Some(machines) = &read.machines {
        text = machines::with_addresses(&text, machines).map_err(PrepareError::of)?;
        read = load_file::parse(&name, &text).map_err(PrepareError::of)?;
        warnings.extend(without_own_network(&name, &original, &read, only, on.is_some())?);
    }
    let (without, left_out) = of_another_network(&unchanged, &read);
    if !without.is_empty() {
        text = set::apply(&text, &without).map_err(PrepareError::of)?;
        read = load_file::parse(&name, &text).map_err(PrepareError::of)?;
        warnings.extend(left_out.into_iter().map(|what| {
            format!("{what} are left out: they belong to the network as the file has it")
        }));
    }
    let files = match run_to_repeat(Path::new(&name))? {
        Some(first) => line_files::of_kept(&first.series),
        None => line_files::read(&read, Path::new(&name).parent().unwrap_or(Path::new("."))),
    };
    let told = |why: String| PrepareError::of(format!("{name}: {why}"));
    let files = files.map_err(told)?;
    warnings.extend(line_files::measured_links(&mut read.topology.clone(), &files).map_err(told)?);
    let read = read.with_line_files(&files).map_err(told)?;
    let (mut experiment, mut plans) = sweep::spread(&text, &read).map_err(|e| match e {
        SweepError::Check(e) => PrepareError::of(misfit(&name, &original, changes, &e)),
        other => PrepareError::of(format!("{name}: {other}")),
    })?;
    // A swept scenario goes by the name that it has in the file, too: all of its values.
    let places = Places::of(&read);
    let base = |scenario: &str| places.get(scenario).map(|(base, _)| base);
    let is_wanted = |scenario: &str| {
        only.iter().any(|o| o == scenario || base(scenario).is_some_and(|base| base == o))
    };
    let names = read.scenario.iter().chain(&experiment.scenario).map(|s| s.name.as_str());
    let mut names: Vec<&str> = names.collect();
    let mut told = BTreeSet::new();
    names.retain(|name| told.insert(*name));
    if let Some(wanted) = only.iter().find(|w| !names.contains(&w.as_str())) {
        let hint = nearest::hint(wanted, &names);
        return Err(PrepareError::of(format!("{name} has no scenario `{wanted}`{hint}")));
    }
    if !only.is_empty() {
        plans.retain(|p| is_wanted(&p.id.scenario));
        experiment.scenario.retain(|s| is_wanted(&s.name));
        // A change without scenarios is one in all: those of other scenarios go.
        let other = |s: &[String]| !s.is_empty() && !s.iter().any(|s| only.contains(s));
        experiment.timeline.retain(|change| !other(&change.scenarios));
        for change in &mut experiment.timeline {
            change.scenarios.retain(|s| only.contains(s));
        }
    }
    warnings.extend(not_below(&plans).iter().map(NotBelow::to_string));
    Ok(Ready { text, experiment, plans, warnings })
}

/// What is to be said of the scenarios that real hosts can't have. They are refused where the file itself names its machines, or no other
/// scenario is left.
fn without_own_network(
    name: &str,
    original: &str,
    read: &Experiment,
    only: &[String],
    others_may_go: bool,
) -> Result<Vec<String>, PrepareError> {
    let asked = |out: &&LeftOut| only.is_empty() || only.contains(&out.scenario);
    let out = read.machines.iter().flat_map(|machines| &machines.left_out);
    let out: Vec<&LeftOut> = out.filter(asked).collect();
    let is_refused = read.scenario.is_empty() || !others_may_go || !only.is_empty();
    let told = out.iter().map(|out| {
        let text = format!("scenario `{}`: {}", out.scenario, out.why);
        let line = error_line::of_problem(original, &text, None);
        let line = line.filter(|_| is_refused).map(|line| format!(", line {line}"));
        format!("{name}{}: {text}", line.unwrap_or_default())
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() || !is_refused {
        let names: Vec<&str> = out.iter().map(|out| out.scenario.as_str()).collect();
        let said = (!names.is_empty()).then(|| {
            format!("{} left out: real hosts keep their own network and settings", names.join(", "))
        });
        return Ok(said.into_iter().collect());
    }
    Err(PrepareError::of(format!("{}\nreal hosts keep their own network", told.join("\n"))))
}

/// The changes that take out what the file has of another network than this one, and what that is: published figures, and claims that nobody changed.
fn of_another_network(original: &Experiment, read: &Experiment) -> (Vec<String>, Vec<String>) {
    if original.topology == read.topology && original.timeline == read.timeline {
        return (Vec::new(), Vec::new());
    }
    let published = read.scenario.iter().filter(|s| !s.published.is_empty());
    let mut without: Vec<String> =
        published.map(|s| format!("scenario.{}.published={{}}", s.name)).collect();
    let mut what = Vec::new();
    if !without.is_empty() {
        what.push("published figures".to_owned());
    }
    if !read.expect.is_empty() && original.expect == read.expect {
        without.push("expect=[]".to_owned());
        what.push(format!("{} expectations", read.expect.len()));
    }
    (without, what)
}

/// The change that made an error, or all of them where no single one did: the person knows neither the changed text nor its lines.
/// `same` tells whether a text gets the same error.
fn blamed(original: &str, changes: &[String], same: impl Fn(&str) -> bool) -> String {
    let made_it = |count: &usize| set::apply(original, &changes[..*count]).is_ok_and(|t| same(&t));
    match (1..=changes.len()).find(made_it) {
        Some(count) => changes[count - 1].clone(),
        None => changes.join(", "),
    }
}

/// An error of reading, told of the change that made it.
fn misread(name: &str, original: &str, changes: &[String], error: &ReadError) -> String {
    let ReadError::Text { why, .. } = error else { return error.to_string() };
    let same = |text: &str| {
        let error = load_file::parse(name, text).err();
        matches!(error, Some(ReadError::Text { why: again, .. }) if again == *why)
    };
    format!("{name} with {}: {why}", blamed(original, changes, same))
}

/// What does not fit together: told with the file's lines where the file itself is wrong, else of the change that made it so.
fn misfit(name: &str, original: &str, changes: &[String], error: &CheckError) -> String {
    let of = |text: &str| {
        let read = load_file::parse(name, text);
        match read.map(|e| sweep::spread(text, &e)) {
            Ok(Err(SweepError::Check(e))) => e.problems,
            _ => Vec::new(),
        }
    };
    let problems = of(original);
    if !problems.is_empty() {
        return CheckError { problems }.told(name, original);
    }
    let told = error.problems.iter().map(|problem| {
        let change = blamed(original, changes, |text| of(text).contains(problem));
        format!("{name} with {change}: {}", problem.text)
    });
    told.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_imported_run_holds_no_experiment() {
        assert!(!holds_experiment("# imported from a file of mtr: a.txt\n# host: a\n"));
        assert!(!holds_experiment(""));
        assert!(holds_experiment("# A line\nname = \"a\"\n"));
    }
}
