//! Options that several commands have.

use crate::completion;
use crate::failure::Failure;
use crate::host::{self, Found, Usual};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use quell_metrics::MetricsEndpoint;
use quell_units::{Ecn, Span};
use quell_wire::auth::Secret;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The lab's guest kernel, in virtual time; needs no rights
    Guest,
    /// Namespaces on the running kernel, in real time; needs root or user namespaces
    Host,
}

#[derive(Debug, Clone, Args)]
pub struct Guest {
    /// A ready guest kernel instead of the built one
    #[arg(long, value_name = "FILE")]
    pub kernel_file: Option<PathBuf>,
    /// Memory of each guest in MiB, beside what its hosts take
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub memory: u32,
    /// Most wall time of one measurement or command
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<Span>,
}

#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the runs
    #[arg(long = "out", value_name = "FOLDER", default_value = "runs")]
    pub base: PathBuf,
}

impl Place {
    /// Told before anything runs, which may take long: its results need a place.
    pub fn can_be_written(&self) -> Result<(), Failure> {
        let runs = &self.base;
        let there = runs.ancestors().find(|p| p.exists() || p.as_os_str().is_empty());
        let there = match there {
            Some(path) if !path.as_os_str().is_empty() => path,
            _ => Path::new("."),
        };
        if !there.is_dir() {
            let why = format!("{} is a file, not a folder", there.display());
            return Err(refused(runs, "--out", &why));
        }
        let may = nix::unistd::access(there, nix::unistd::AccessFlags::W_OK);
        may.map_err(|e| refused(runs, "--out", e.desc()))
    }
}

/// That this can't be written, which an option names.
pub fn refused(path: &Path, option: &str, why: &str) -> Failure {
    Failure::system(format!(
        "could not write to {}: {why}; choose another with {option}",
        path.display()
    ))
}

#[derive(Debug, Args)]
pub struct Metrics {
    /// Answer GET /metrics at this address, for Prometheus: 127.0.0.1:9599, or a port of this machine alone
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    pub metrics: Option<SocketAddr>,
}

impl Metrics {
    /// Listens there, and says where that is.
    pub fn endpoint(&self) -> Result<Option<MetricsEndpoint>, Failure> {
        self.metrics.map(|at| endpoint("--metrics", "metrics", at)).transpose()
    }
}

/// Listens there, and says where that is.
pub fn endpoint(option: &str, what: &str, at: SocketAddr) -> Result<MetricsEndpoint, Failure> {
    let endpoint = MetricsEndpoint::bind(at)
        .map_err(|error| Failure::system(format!("{option} {at}: {error}")))?;
    eprintln!(
        "{what} at http://{}/{}",
        endpoint.local(),
        if what == "metrics" { what } else { "" }
    );
    Ok(endpoint)
}

pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let own = text.parse::<u16>().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    own.or_else(|_| text.parse()).map_err(|_| {
        format!("`{text}` has no port or no address; write 9599 for this machine alone, or 192.0.2.7:9599")
    })
}

#[derive(Debug, Args)]
pub struct RunName {
    /// The run: its name or folder; by default the latest
    #[arg(add = completion::runs())]
    pub run: Option<String>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct RunNames {
    /// The runs: names or folders; by default the latest
    #[arg(value_name = "RUN", add = completion::runs())]
    pub runs: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which version of IP; both where neither is asked for.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Family {
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub ipv6: bool,
}

impl Family {
    /// What was asked for, or else the version of one's own address.
    pub fn or_that_of(self, own: Option<IpAddr>) -> host::Family {
        match (self.ipv4, self.ipv6, own) {
            (true, ..) => host::Family::V4,
            (_, true, _) => host::Family::V6,
            (.., Some(IpAddr::V4(_))) => host::Family::V4,
            (.., Some(IpAddr::V6(_))) => host::Family::V6,
            (.., None) => host::Family::Any,
        }
    }

    /// Where a server is, at this port where it names none.
    pub fn server(self, name: &str, port: u16) -> Result<Found, Failure> {
        let family = self.or_that_of(None);
        let usual = Usual { family, own: None, port: Some(port), device: None };
        host::resolve(name, usual).map_err(Failure::usage)
    }
}

/// Names the file of a secret where no option does.
const VARIABLE: &str = "QUELL_SECRET_FILE";

/// Where the secret is that a client and a server share: a file, since every user of the host could read the command line.
#[derive(Debug, Clone, Args)]
pub struct SecretFile {
    /// File with the secret that client and server share [default: $QUELL_SECRET_FILE, else none]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

impl SecretFile {
    /// The secret, where there is to be one. Errors when the file can't be read, is readable by all, or holds too little.
    pub fn read(&self) -> Result<Option<Secret>, Failure> {
        let variable = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
        let file = self.secret_file.as_deref().or(variable.as_deref().map(Path::new));
        file.map(quell_sys::secret::read).transpose().map_err(Failure::usage)
    }
}

/// The words of a command that an option takes as one text, quoted as POSIX has it for a shell, which is not asked. `option` is how a refusal names it.
pub fn words(option: &str, text: &str) -> Result<Vec<String>, Failure> {
    let words = shlex::split(text)
        .ok_or_else(|| Failure::usage(format!("{option}: a quote is open at its end")))?;
    if words.is_empty() {
        return Err(Failure::usage(format!("{option} names no program")));
    }
    Ok(words)
}

/// One of a few words, each with its meaning and what it stands for.
pub fn choice<T: Clone + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let values = words.clone().map(|(word, meaning, _)| PossibleValue::new(word).help(meaning));
    PossibleValuesParser::new(values).map(move |typed| {
        let known = words.iter().find(|(word, ..)| *word == typed);
        known.expect("the parser takes only these words").2.clone()
    })
}

/// Reads `--ecn`: every codepoint but the one that says "no ECN".
pub fn ecn() -> impl TypedValueParser<Value = Ecn> {
    choice([
        ("ect0", "ECT(0)", Ecn::Ect0),
        ("ect1", "ECT(1)", Ecn::Ect1),
        ("ce", "Congestion experienced", Ecn::Ce),
    ])
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::{command, commands};

    #[test]
    fn quotes_keep_blanks_together() {
        let read = |text| words("--during", text).ok();
        let wanted = ["sh", "-c", "one two; three", "it's"].map(str::to_owned).to_vec();
        assert_eq!(read(r#"sh  -c 'one two; three' "it's""#), Some(wanted));
        assert_eq!(read("sh -c 'one"), None);
        assert_eq!(read("  "), None);
    }

    #[test]
    fn ping_and_flow_take_the_same_marks_and_refuse_the_same() {
        for command in [&["quell", "ping", "host"][..], &["quell", "flow", "host", "--udp"]] {
            let with = |mark| {
                let typed = command.iter().copied().chain(["--ecn", mark]);
                command::parser(commands::COMMANDS).try_get_matches_from(typed)
            };
            for mark in ["ect0", "ect1", "ce"] {
                assert!(with(mark).is_ok(), "{command:?} {mark}");
            }
            let said = with("not-ect").expect_err("that is no mark").to_string();
            assert!(said.contains("[possible values: ect0, ect1, ce]"), "{said}");
        }
    }
}
