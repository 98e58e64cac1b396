//! `quell tree`: the queues, classes and filters of devices, here or as `tc` told of them elsewhere.

mod args;
mod source;
mod watch;

use crate::failure::Failure;
use crate::results;
pub use args::TreeArgs;
use quell_chart::Theme;
use quell_hierarchy::{Hierarchy, ReadError, read};
use quell_sys::input::Input;
use quell_treeview::{dot, picture, text};
use source::{TreeSource, here, look, print_json};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Most that is read of a file.
const MOST: u64 = 64 << 20;
/// PNG pixels for each CSS pixel.
const SCALE: f32 = 2.0;

/// `quell tree`.
pub fn tree(args: &TreeArgs) -> Result<ExitCode, Failure> {
    if let Some(every) = args.watch {
        return watch::watch(args, every);
    }
    let found = match (&args.from, args.over) {
        (Some(file), _) => from_file(file, args.device.as_deref())?,
        (None, Some(over)) => watch::over(args, over)?,
        (None, None) => here(args)?,
    };
    let view = found.view(args);
    let mut written = false;
    if let Some(file) = &args.svg {
        let svg = picture(&view, args.width, Theme::Adaptive).svg;
        written |= write(file, svg.as_bytes())?;
    }
    if let Some(file) = &args.png {
        let png = picture(&view, args.width, Theme::Light).png(SCALE);
        let png =
            png.map_err(|e| Failure::usage(format!("{e}; leave --all away, or take --svg")))?;
        written |= write(file, &png)?;
    }
    if let Some(file) = &args.dot {
        written |= write(file, dot(&view).as_bytes())?;
    }
    if written {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json.json {
        print_json(&view)?;
    } else {
        text(&view, &look()).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file, or to standard output.
fn write(file: &Path, bytes: &[u8]) -> Result<bool, Failure> {
    if file == Path::new("-") {
        crate::text::hand_out(bytes)?;
        return Ok(true);
    }
    quell_store::write_output(file, bytes)
        .map_err(|e| Failure::system(format!("writing {}: {e}", file.display())))?;
    println!("{}", results::shown(file));
    Ok(true)
}

fn from_file(file: &Path, device: Option<&str>) -> Result<TreeSource, Failure> {
    let name = if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let unreadable = |e: std::io::Error| Failure::usage(format!("cannot read {name}: {e}"));
    let mut bytes = Vec::new();
    let read_all =
        |from: &mut dyn Read, bytes: &mut Vec<u8>| from.take(MOST + 1).read_to_end(bytes).map(drop);
    if file == Path::new("-") {
        read_all(&mut std::io::stdin().lock(), &mut bytes).map_err(unreadable)?;
    } else {
        read_all(&mut Input::open(file).map_err(unreadable)?, &mut bytes).map_err(unreadable)?;
    }
    if bytes.len() as u64 > MOST {
        return Err(Failure::usage(format!(
            "{name} is longer than {} MiB: what tc prints is shorter",
            MOST >> 20
        )));
    }
    let reading = read(&String::from_utf8_lossy(&bytes), device).map_err(|error| {
        Failure::usage(match error {
            ReadError::Line { line, why } => format!("{name}:{line}: {why}"),
            ReadError::Nothing => format!("{name}: {error}"),
        })
    })?;
    if let Some((count, line, first)) = &reading.passed_over {
        let lines = if *count == 1 {
            "1 line that tc does not print was".to_owned()
        } else {
            format!("{count} lines that tc does not print were")
        };
        eprintln!("{name}:{line}: {lines} passed over, as here: {first}");
    }
    if !reading.repeated.is_empty() {
        let devices = reading.repeated.join(", ");
        eprintln!("{name}: read several times, of which the last is shown: {devices}");
    }
    let hierarchy = reading.hierarchy;
    let only = device.map(|device| named(&hierarchy, device, &name)).transpose()?;
    Ok(TreeSource { hierarchy, only, rates: None })
}

fn named(hierarchy: &Hierarchy, device: &str, name: &str) -> Result<usize, Failure> {
    hierarchy.device(device).ok_or_else(|| {
        let known: Vec<&str> =
            hierarchy.devices.iter().take(12).map(|device| device.name.as_str()).collect();
        Failure::usage(format!(
            "{name} tells nothing of {device}; it tells of {}",
            if known.is_empty() { "no device".to_owned() } else { known.join(", ") }
        ))
    })
}
