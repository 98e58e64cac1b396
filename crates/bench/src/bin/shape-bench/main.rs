//! What `quell shape` costs: traffic through it beside none, and thousands of subscribers beside one `tc -batch`.
//!
//! ```text
//!   shape-bench QUELL [--rounds 5] [--seconds 3] [--subscribers 10000]
//!
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far       two namespaces that end with this program
//!     quell flow ──── host-fair, far above ────► quell serve
//!     quell shape apply | tc -batch                   the same steps: those that `quell shape plan` prints
//!   30 hosts ═══ router ═══ 10 Mbit/s, host-fair      in the lab, as is `quell shape try`
//! ```
//!
//! Rounds alternate. Times are of the whole program, memory the most that it had.

mod hosts;
#[path = "../../machine.rs"]
mod machine;
#[path = "../flow-bench/place.rs"]
#[allow(dead_code)]
mod place;
mod program;
mod subscribers;
mod traffic;

use place::Place;
use std::path::PathBuf;
use std::process::ExitCode;

/// What was asked for.
struct Asked {
    quell: PathBuf,
    rounds: usize,
    seconds: u64,
    subscribers: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match ask(&arguments).and_then(|asked| bench(&asked)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shape-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ask(arguments: &[String]) -> Result<Asked, String> {
    let (quell, rest) = arguments.split_first().ok_or("usage: shape-bench QUELL [--rounds N] …")?;
    let quell = std::path::absolute(quell).map_err(|e| format!("{quell}: {e}"))?;
    let mut asked = Asked { quell, rounds: 5, seconds: 3, subscribers: 10_000 };
    for option in rest.chunks(2) {
        let [name, value] = option else { return Err(format!("{} needs a value", option[0])) };
        let number = match value.parse::<u32>() {
            Ok(number) if number > 0 => number,
            _ => return Err(format!("{name} {value}: not a number above 0")),
        };
        match name.as_str() {
            "--rounds" => asked.rounds = number as usize,
            "--seconds" => asked.seconds = number.into(),
            "--subscribers" => asked.subscribers = number,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(asked)
}

fn bench(asked: &Asked) -> Result<(), String> {
    println!("{}", machine::described());
    let place = Place::new().map_err(|e| e.to_string())?;
    let folder = Folder::new()?;
    traffic::measure(asked, &place, &folder.0)?;
    subscribers::measure(asked, &place, &folder.0)?;
    hosts::measure(asked, &folder.0)
}

/// A folder that ends with this program.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("shape-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
