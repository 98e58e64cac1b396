//! Makes a run folder of invented measurements and everything that is shown of it: to look at figures and page without measuring anything.
//!
//! ```text
//! cargo run -p quell-report --example sample_run -- FOLDER [REPEATS]
//! ```

mod invented;

use quell_report::{Results, figures, html, json, table};
use quell_store::Run;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let repeats: u32 = arguments.next().map_or(Ok(3), |r| r.parse())?;
    let folder = invented::write(&base, repeats, 1.0)?;
    let run = Run::read(&folder)?;
    let results = Results::from(&run);
    let published = invented::published();
    print!("{}", table::render(&run.manifest, &results, &published));
    fs::write(folder.join("results.json"), json::render(&run.manifest, &results)?)?;
    fs::write(folder.join("report.html"), html::render(&run, &results, &published))?;
    for name in figures::NAMES {
        let figure = figures::figure(&run, name.name)?;
        fs::write(folder.join(format!("{}.png", name.name)), figure.png(1.0)?)?;
    }
    println!("{}", folder.display());
    Ok(())
}
