//! Running `quell` in a folder of its own.

use crate::left_out;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program under test.
pub const QUELL: &str = env!("CARGO_BIN_EXE_quell");

/// A PATH in which `quell` is found, for guests that look for it as everywhere.
pub fn path() -> String {
    let own = Path::new(QUELL).parent().expect("the program is in a folder");
    format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default())
}

/// Runs a script on home-link's router; `$Q` is quell. Its output, where it went well.
pub fn on_the_router(script: &str) -> String {
    on_the_router_of(&TestFolder::new(), "home-link", &[], script)
}

/// The same on the router of another network, while programs run on its hosts: `HOST: COMMAND`, where `$Q` is quell too.
pub fn on_the_router_of(folder: &TestFolder, network: &str, with: &[&str], script: &str) -> String {
    let script = format!("set -e; Q={QUELL}; {script}");
    let with: Vec<String> = with.iter().map(|words| words.replace("$Q", QUELL)).collect();
    let mut all = vec!["lab", "exec", network, "router"];
    with.iter().for_each(|words| all.extend(["--with", words.as_str()]));
    all.extend(["--", "sh", "-c", &script]);
    let output = folder.quell(&all);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Whether there is no iperf3 here to talk to; says so.
pub fn lacks_iperf3() -> bool {
    let lacks = Command::new("iperf3").arg("--version").output().is_err();
    if lacks {
        left_out::for_want_of("there is no iperf3 on this machine (package iperf3)");
    }
    lacks
}

/// Whether there is no Chromium here to load pages with; says so.
pub fn lacks_chromium() -> bool {
    let lacks = quell_page::browser::find(None).err();
    if let Some(error) = &lacks {
        left_out::for_want_of(error);
    }
    lacks.is_some()
}

/// A folder for one story, gone afterwards.
pub struct TestFolder {
    folder: tempfile::TempDir,
}

impl TestFolder {
    pub fn new() -> Self {
        TestFolder { folder: tempfile::tempdir().expect("a folder for the test") }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the test's folder can be written");
        path
    }

    /// `quell` with these arguments, in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(QUELL);
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    pub fn quell(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("quell can be started")
    }

    /// Runs an experiment that must be carried out whole, with nothing missing and its expectations held; gives `show --json`.
    pub fn run(&self, text: &str, options: &[&str]) -> Results {
        self.run_to(0, text, options).0
    }

    /// Runs an experiment whose every cell must be carried out, to this exit code; gives `show --json` and what was said on standard
    /// error.
    pub fn run_to(&self, wanted: i32, text: &str, options: &[&str]) -> (Results, String) {
        let file = self.file("experiment.toml", text);
        let name = file.to_string_lossy().into_owned();
        let mut arguments = vec!["run", &name, "--json"];
        arguments.extend(options);
        let output = self.quell(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(wanted), "{said}");
        let json = serde_json::from_slice(&output.stdout).expect("the results are JSON");
        let results = Results { json };
        assert_eq!(results.json["complete"], true, "{:#}", results.json);
        (results, said)
    }

    /// The folder of the only run.
    pub fn only_run(&self) -> PathBuf {
        let mut runs: Vec<PathBuf> = std::fs::read_dir(self.path().join("runs"))
            .expect("there are runs")
            .map(|e| e.expect("an entry").path())
            .filter(|p| p.is_dir())
            .collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }
}

/// The results of a run.
pub struct Results {
    pub json: Value,
}

impl Results {
    /// The row of a stream; with several repeats, the first.
    pub fn row(&self, scenario: &str, stream: &str) -> &Value {
        self.json["results"]
            .as_array()
            .expect("a list of results")
            .iter()
            .find(|r| r["scenario"] == scenario && r["stream"] == stream)
            .unwrap_or_else(|| panic!("no row {scenario} {stream} in {:#}", self.json))
    }

    /// A number of a row, as `rtt_ms.p50`.
    pub fn number(&self, scenario: &str, stream: &str, path: &str) -> f64 {
        let mut value = self.row(scenario, stream);
        for part in path.split('.') {
            value = &value[part];
        }
        value.as_f64().unwrap_or_else(|| panic!("{scenario} {stream} {path} is {value}"))
    }
}

/// Fails unless a value is within a tolerance of what it must be.
#[track_caller]
pub fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found - wanted).abs() <= tolerance, "{found} is not {wanted} ± {tolerance}");
}

/// Two hosts and a line between them.
pub fn two_hosts(line: &str, rest: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"20s\"\nprobes-run = \"together\"\n{}\n\
         [topology]\nhosts = [\"a\", \"b\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"a\", \"b\"]\n{line}\n{}",
        top(rest),
        tables(rest)
    )
}

/// A home: hosts `a` and `b`, a router whose `wan` leads to a modem, beyond whose line `dsl` is `server`. Where it says so the router translates
/// addresses.
pub fn home(nat: bool, line: &str, rest: &str) -> String {
    let nat = if nat { "nat = [\"router:wan\"]" } else { "" };
    format!(
        "name = \"home\"\nduration = \"15s\"\nwarm-up = \"5s\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"a\", \"b\", \"server\"]\nrouters = [\"router\", \"modem\"]\n{nat}\n\
         [[topology.link]]\nname = \"lan-a\"\nends = [\"a\", \"router\"]\n\
         [[topology.link]]\nname = \"lan-b\"\nends = [\"b\", \"router\"]\n\
         [[topology.link]]\nname = \"wan\"\nends = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"dsl\"\nends = [\"modem\", \"server\"]\n\
         {line}\n{rest}"
    )
}

/// Top-level keys must come before the first table.
fn top(rest: &str) -> String {
    rest.lines().take_while(|l| !l.starts_with('[')).collect::<Vec<_>>().join("\n")
}

fn tables(rest: &str) -> String {
    rest.lines().skip_while(|l| !l.starts_with('[')).collect::<Vec<_>>().join("\n")
}

pub const PING: &str =
    "[[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"50ms\"\n";

pub const UDP: &str = "[[probe]]\nname = \"udp\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\n\
                       rate = \"200kbit\"\nsize = \"500B\"\n";

pub const QUIET: &str = "[[scenario]]\nname = \"s\"\n";
