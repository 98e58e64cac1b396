//! What is asked of a bench on the command line.

use std::path::PathBuf;

pub const USAGE: &str = "usage: quell-bench classify|shape|peers|flow|lab|arena|twin|choose|all [--quell PROGRAM] [--rounds N] \
                     [--seconds N] [--packets N] [--interval-ms N] [--subscribers N] [--only A,B] [--before PROGRAM] \
                     [--rival FOLDER] [--qosmate FOLDER] [--first N] [--draw FILE]";

/// What is asked of a bench; each takes what concerns it.
pub struct BenchOptions {
    pub quell: PathBuf,
    /// Another `quell`, with which `lab` compares.
    pub before: Option<PathBuf>,
    /// A checkout of cake-autorate, beside which `arena` runs.
    pub rival: Option<PathBuf>,
    /// One of QoSmate.
    pub qosmate: Option<PathBuf>,
    /// The first line of `arena`, and a picture of it.
    pub first: u64,
    pub draw: Option<PathBuf>,
    pub rounds: usize,
    /// Seconds of each transfer.
    pub seconds: Option<u64>,
    /// Packets of each round of `peers`, and milliseconds between them.
    pub packets: usize,
    pub interval_ms: u64,
    pub subscribers: u32,
    /// The parts of the bench that are run; all if empty.
    pub only: Vec<String>,
}

impl BenchOptions {
    pub fn parse(arguments: &[String], rounds: usize) -> Result<Self, String> {
        let mut options = BenchOptions {
            quell: "target/release/quell".into(),
            before: None,
            rival: None,
            qosmate: None,
            first: 1,
            draw: None,
            rounds,
            seconds: None,
            packets: 400,
            interval_ms: 4,
            subscribers: 10_000,
            only: Vec::new(),
        };
        for option in arguments.chunks(2) {
            let [name, value] = option else { return Err(format!("{} needs a value", option[0])) };
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{name} {value}: not a number above 0")),
            };
            match name.as_str() {
                "--quell" => options.quell = value.into(),
                "--before" => options.before = Some(value.into()),
                "--rival" => options.rival = Some(value.into()),
                "--qosmate" => options.qosmate = Some(value.into()),
                "--first" => options.first = number()?.into(),
                "--draw" => options.draw = Some(value.into()),
                "--rounds" => options.rounds = number()? as usize,
                "--seconds" => options.seconds = Some(number()?.into()),
                "--packets" => options.packets = number()? as usize,
                "--interval-ms" => options.interval_ms = number()?.into(),
                "--subscribers" => options.subscribers = number()?,
                "--only" => options.only = value.split(',').map(str::to_owned).collect(),
                _ => return Err(format!("unknown option {name}\n{USAGE}")),
            }
        }
        options.quell = std::path::absolute(&options.quell)
            .map_err(|e| format!("{}: {e}", options.quell.display()))?;
        Ok(options)
    }

    /// Whether a part of a bench is run.
    pub fn has(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == part)
    }
}
