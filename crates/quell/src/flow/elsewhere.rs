//! Options of iperf3 that are another thing here: what to type instead.

use crate::failure::Failure;
use clap::Args;

#[derive(Debug, Args)]
pub struct Elsewhere {
    #[arg(short = 's', long = "server", hide = true)]
    server: bool,
    #[arg(short = 'D', long = "daemon", hide = true)]
    daemon: bool,
    #[arg(long, hide = true, num_args = 0..=1)]
    idle_timeout: Option<String>,
    #[arg(long, hide = true)]
    sctp: bool,
    #[arg(short = 'X', long = "xbind", hide = true, value_name = "NAME")]
    xbind: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    nstreams: Option<String>,
    #[arg(short = 'L', long = "flowlabel", hide = true, value_name = "N")]
    flowlabel: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1)]
    server_bitrate_limit: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1)]
    username: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1)]
    rsa_public_key_path: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1)]
    pacing_timer: Option<String>,
    #[arg(short = 'F', long, hide = true, value_name = "FILE")]
    file: Option<String>,
    #[arg(long, hide = true)]
    forceflush: bool,
}

type Answer = (&'static str, fn(&Elsewhere) -> bool, &'static str);

const ANSWERS: [Answer; 11] = [
    (
        "-s",
        |e| e.server,
        "to serve, type `quell serve`, for other machines `quell serve --bind 0.0.0.0`",
    ),
    (
        "-D",
        |e| e.daemon,
        "a server in the background is the service quell-serve (systemctl enable --now quell-serve)",
    ),
    (
        "--idle-timeout",
        |e| e.idle_timeout.is_some(),
        "that is a server's, and needless there: in `quell serve` tests that stand still give way to others, and `quell serve --for TIME` \
         ends by itself",
    ),
    ("--sctp", |e| e.sctp, "SCTP is not spoken here; TCP is the default, UDP is -u"),
    ("-X", |e| e.xbind.is_some(), "SCTP is not spoken here; -B ADDRESS sets the own address"),
    ("--nstreams", |e| e.nstreams.is_some(), "SCTP is not spoken here; -P N makes several streams"),
    (
        "-L",
        |e| e.flowlabel.is_some(),
        "flow labels of IPv6 can't be set; without it the kernel chooses one for each stream",
    ),
    (
        "--server-bitrate-limit",
        |e| e.server_bitrate_limit.is_some(),
        "that is a server's: `quell serve --max-rate RATE`, for each client --max-rate-per-client",
    ),
    (
        "--username, --rsa-public-key-path",
        |e| e.username.is_some() || e.rsa_public_key_path.is_some(),
        "client and server share a secret here: --secret-file FILE at both ends",
    ),
    (
        "-F",
        |e| e.file.is_some(),
        "files are not carried here: a flow measures the network without a disk",
    ),
    (
        "--pacing-timer",
        |e| e.pacing_timer.is_some(),
        "a rate (-b) is kept packet by packet, by no timer",
    ),
];

impl Elsewhere {
    /// Refuses what was typed of them, with what to type instead. (That each line is printed at once needs no asking: `--forceflush` is taken.)
    pub fn answer(&self) -> Result<(), Failure> {
        match ANSWERS.iter().find(|(_, typed, _)| typed(self)) {
            Some((option, _, answer)) => Err(Failure::usage(format!("{option}: {answer}"))),
            None => Ok(()),
        }
    }
}
