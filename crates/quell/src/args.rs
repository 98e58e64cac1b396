//! The command line: one table of commands and options, from which parsing and help come.

use clap::{Args, Parser, Subcommand, ValueEnum};
use quell_units::Span;
use std::path::PathBuf;

/// Quell makes a Linux network fast under load, and proves it.
#[derive(Debug, Parser)]
#[command(
    name = "quell",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Start with `quell run home-link`: what a full uplink does to calls and transfers, and what good \
                  queues do about it.\n\nExit codes: 0 fine, 1 a check failed, 2 wrong usage, 3 the system would not let us."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment: built in by name, or a file
    #[command(after_help = "Examples:
  quell run home-link
  quell run home-link --duration 5s --seed 2
  quell run home-link --set topology.link.dsl.up.rate=1Mbit --set expect=[]
  quell run mine.toml --repeat 5 --out runs
  sudo quell run home-link --kernel host      (this kernel, in real time)")]
    Run(Run),
    /// Name the built-in experiments
    List(Json),
    /// Print a built-in experiment's file, to copy and change
    #[command(after_help = "Example:\n  quell show-experiment home-link > mine.toml")]
    ShowExperiment {
        /// Its name
        name: String,
    },
    /// Check an experiment file without running it
    #[command(
        after_help = "Examples:\n  quell check my.toml\n  quell check home-link --tc --set topology.link.dsl.up.rate=5Mbit"
    )]
    Check(Check),
    /// List the runs in a folder
    Runs {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        json: Json,
    },
    /// Show a run's results as tables
    #[command(
        after_help = "Examples:\n  quell show                    the latest run\n  quell show 20261121T101503-home-link --json"
    )]
    Show {
        #[command(flatten)]
        run: RunName,
        #[command(flatten)]
        json: Json,
    },
    /// Draw a figure of a run
    #[command(
        after_help = "Examples:\n  quell plot                    names the figures\n  quell plot --figure rtt-cdf -o cdf.png\n  quell plot ping --figure rtt-scatter --stream voip -o voip.svg"
    )]
    Plot {
        #[command(flatten)]
        run: RunName,
        /// Which figure; without it, they are listed
        #[arg(long)]
        figure: Option<String>,
        /// Only this stream (repeatable: all that are named are shown)
        #[arg(long = "stream", value_name = "STREAM")]
        streams: Vec<String>,
        /// File to write: .png or .svg
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Write a run's report: one HTML file with figures and tables
    Report {
        #[command(flatten)]
        run: RunName,
        /// File to write; report.html in the run's folder where absent
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Build or find the lab's guest kernel
    #[command(subcommand)]
    Kernel(Kernel),
    /// Run any program in a network of the lab
    #[command(subcommand)]
    Lab(Lab),
    /// Tell from captured packets who waited, for what, and what to change
    #[command(after_help = "Examples:
  sudo tcpdump -i eth0 -s 128 -w slow.pcap tcp port 7890
  quell trace slow.pcap
  quell trace slow.pcap --connection 3
  zcat old.pcap.gz | quell trace - --json

Packets are numbered as `tcpdump --number -r FILE` does. Capture at the end that sends, if you can: there the times \
between an ACK and what follows it are the sender's own. Exits with 1 if the capture breaks off; what was read until \
then is told.")]
    Trace(Trace),
    /// Ping one or several hosts: loss, delay and jitter, watched as they come
    #[command(after_help = "Examples:
  quell ping example.org
  quell ping -c 400 -t voip,192.0.2.7,EF,160 -t bulk,192.0.2.7,CS1,1400
  quell ping --method udp 192.0.2.7           (`quell serve` runs there)
  quell ping --method tcp 192.0.2.7:22
  quell ping -d 10min -w evening 192.0.2.7    (kept; then: quell show)
  quell ping -r evening -o evening.png        (what was kept, drawn)
  quell ping -c 10 example.org --json | jq .streams[0].rtt_ms.p50

On a terminal a view is drawn in place; in a pipe each packet is a line. Ctrl-C ends it and sums up, a second \
Ctrl-C ends it at once. Exits with 1 when a stream got no reply at all.")]
    Ping(crate::ping::PingArgs),
    /// Time calls over TCP, by size; tell who waited, for what, and what to change
    #[command(after_help = "Examples:
  quell serve --bind 192.0.2.7                (at the other end)
  quell rr 192.0.2.7
  quell rr 192.0.2.7 --pattern write-write-read --sizes 1440..1450
  quell rr 192.0.2.7 --pattern write-write-read --fix nodelay

A call without a reply within 5 s is lost, and makes the exit code 1.")]
    Rr(crate::rr::RrArgs),
    /// Measure throughput to quell serve or iperf3 -s, and what it does to a ping
    #[command(after_help = "Examples:
  quell flow 192.0.2.7                  (TCP from here, 10 s)
  quell flow 192.0.2.7 -R --bdp         (from there; does the window suffice?)
  quell flow 192.0.2.7 --bidir -t 30 -O 3
  quell flow 192.0.2.7 -u -b 20M --dscp EF
  quell flow 192.0.2.7 -P 2 -C cubic,bbr
  quell flow 192.0.2.7 --save           (then: quell show, quell plot)
  quell flow 192.0.2.7 --json=iperf3    (as iperf3 -J prints it)

There runs quell serve or iperf3 -s. Options that iperf3 has too mean the same. Ctrl-C ends it and sums up, a second one ends at once. Exits with 1 when the \
test broke off; what was measured until then is shown.")]
    Flow(Box<crate::flow::FlowArgs>),
    /// Serve quell flow, rr and ping --method udp, iperf3 clients and STAMP senders
    #[command(after_help = "Examples:
  quell serve --bind 0.0.0.0            (loopback only without --bind)
  quell serve --bind 192.0.2.7 --secret-file key
  quell serve --bind :: --max-rate-per-client 100Mbit --max-time 60s --json
  quell serve -1                        (ends after one test)
  iperf3 -c 192.0.2.7                   (at a client; also -u, -R, --bidir, -P)

TCP and UDP of one port. Started as root, it opens the port and becomes another user without any rights. With a secret, \
iperf3 clients are refused, since they can't know it; STAMP packets are still reflected, never larger than they came. Clients give \
the same --secret-file.

A secret: head -c 32 /dev/urandom | base64 >key; chmod 600 key")]
    Serve(crate::serve::ServeArgs),
    /// Make a run of what another program measured
    #[command(subcommand)]
    Import(crate::import::Import),
    /// Look into a run: one zoomable page, every packet in it
    #[command(after_help = "Examples:
  quell view                              the latest run
  quell view 20261121T101503-ping -o ping.html --no-open

Wheel, pinch or + and - zoom, dragging or the arrow keys move, Shift and dragging zooms to a box, 0 shows \
everything; 1 to 9 hide and show streams. The page needs no network and can be sent to others.")]
    View(crate::view::ViewArgs),
    /// Carry out tasks that come on standard input (used by Quell itself)
    #[command(hide = true)]
    Agent,
    /// Outer process of a cell on the host (used by Quell itself)
    #[command(hide = true)]
    HostCell {
        /// The cell's desk
        desk: PathBuf,
    },
    /// Tell what the running kernel lacks for plans that come on standard input (used by Quell itself)
    #[command(hide = true)]
    HostLacks,
    /// First process of a cell on the host (used by Quell itself)
    #[command(hide = true)]
    HostInit {
        /// The cell's desk
        desk: PathBuf,
    },
}

/// Options of `quell run`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Run {
    /// Name of a built-in experiment, or a file
    pub experiment: String,
    /// Change any field, as topology.link.dsl.up.rate=1Mbit (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub changes: Vec<String>,
    /// How long each cell is measured
    #[arg(long)]
    pub duration: Option<Span>,
    /// How often each cell is run, each time with another seed
    #[arg(long)]
    pub repeat: Option<u32>,
    /// From this comes all randomness
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Cells side by side; as many as CPUs where absent (one on the host's kernel)
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Only these scenarios (repeatable)
    #[arg(long = "only", value_name = "SCENARIO")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// What carries the traffic: the guest kernel (virtual time) or this machine's (real time)
    #[arg(long, value_enum, default_value_t = Backend::Guest)]
    pub kernel: Backend,
    #[command(flatten)]
    pub guest: Guest,
    /// Also write the report here
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell trace`.
#[derive(Debug, Args)]
pub struct Trace {
    /// A capture: pcap or pcapng; `-` for standard input
    pub file: PathBuf,
    /// All there is to tell about one connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub connection: Option<u64>,
    #[command(flatten)]
    pub json: Json,
}

/// What carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The lab's guest kernel, in virtual time; needs no rights
    Guest,
    /// Namespaces on the running kernel, in real time; needs root or user namespaces
    Host,
}

/// Options of guests.
#[derive(Debug, Clone, Args)]
pub struct Guest {
    /// A ready guest kernel instead of the built one
    #[arg(long, value_name = "FILE")]
    pub kernel_file: Option<PathBuf>,
    /// Memory of each guest in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub memory: u32,
    /// Most wall time of one cell or command
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<Span>,
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the runs
    #[arg(long = "out", value_name = "FOLDER", default_value = "runs")]
    pub base: PathBuf,
}

/// Which run.
#[derive(Debug, Args)]
pub struct RunName {
    /// The run: its name or folder; the latest where absent
    pub run: Option<String>,
    #[command(flatten)]
    pub place: Place,
}

/// Machine-readable output.
#[derive(Debug, Clone, Copy, Args)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `quell kernel`.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Build it, unless it is there already
    Build {
        #[command(flatten)]
        source: Source,
        /// Build it again even if it is there
        #[arg(long)]
        force: bool,
    },
    /// Tell about it: version, options, size, when it was built
    Info {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        json: Json,
    },
    /// Print its path; exits 1 if there is none
    Path {
        #[command(flatten)]
        source: Source,
    },
}

/// Where the kernel comes from.
#[derive(Debug, Clone, Args)]
pub struct Source {
    /// Source of the kernel: a tree or a tarball; Debian's linux-source-6.1 where absent
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
    /// A ready kernel instead of one that Quell builds
    #[arg(long, value_name = "FILE")]
    pub kernel_file: Option<PathBuf>,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// What `quell check` checks.
#[derive(Debug, Args)]
pub struct Check {
    /// Name of a built-in experiment, or a file
    pub experiment: String,
    /// Print the queues as the tc commands that would make them
    #[arg(long)]
    pub tc: bool,
    /// Change a field first, as `quell run --set` does (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub changes: Vec<String>,
}

/// `quell lab`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// A shell on a host of the topology
    #[command(after_help = "Example:
  quell lab shell home-link b

It needs a terminal; for a script, quell lab exec. A guest's shell sees this machine's files; what it writes is lost \
or refused, and it is no sandbox: root in there can do to these files what you can (docs/lab.md).")]
    Shell {
        #[command(flatten)]
        lab: LabPlace,
        /// The host; the first one where absent
        host: Option<String>,
    },
    /// One program on a host of the topology, without input; its exit code becomes ours
    #[command(after_help = "Examples:
  quell lab exec home-link b -- ping -c 3 {server}
  quell lab exec home-link a --with 'server: iperf3 -s -1' -- iperf3 -c {server}
  quell lab exec home-link a --with 'server: python3 -m http.server' \\
      --after 1min -- \\
      curl -s -o /dev/null -w '%{time_total}' http://{server}:8000/

{NAME} stands for the IPv4 address of the host NAME, {NAME/6} for its IPv6 address.")]
    Exec {
        #[command(flatten)]
        lab: LabPlace,
        /// The host
        host: String,
        /// A program to run beside it, as 'HOST: COMMAND' (repeatable)
        #[arg(long = "with", value_name = "HOST: COMMAND")]
        with: Vec<String>,
        /// Show what the programs of --with print as they print it; else their last words, where something fails
        #[arg(long)]
        show_with: bool,
        /// How long after the programs of --with it starts
        #[arg(long, value_name = "TIME", default_value = "200ms")]
        after: Span,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// Which lab.
#[derive(Debug, Args)]
pub struct LabPlace {
    /// A built-in experiment, an experiment file or a topology file
    pub topology: String,
    /// Put the queues of this scenario in place
    #[arg(long)]
    pub scenario: Option<String>,
    /// What carries the traffic: the guest kernel or this machine's
    #[arg(long, value_enum, default_value_t = Backend::Guest)]
    pub kernel: Backend,
    /// Time as it passes here, not virtual time (always so in a shell)
    #[arg(long)]
    pub real_time: bool,
    /// Also pass on this variable of the environment (repeatable). Without it: PATH, HOME, USER, LOGNAME, SHELL, TERM,
    /// COLORTERM, LANG, LANGUAGE, LC_*, TZ
    #[arg(long = "env", value_name = "NAME")]
    pub environment: Vec<String>,
    #[command(flatten)]
    pub guest: Guest,
}
