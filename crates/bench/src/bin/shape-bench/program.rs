//! Programs at the near end, with the time and the memory that they took.

use crate::Asked;
use crate::place::{End, Place};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How a program went.
pub struct Went {
    /// Where what it printed stands, if that was asked for.
    pub out: String,
    /// From start to end.
    pub seconds: f64,
    /// Most memory that it had, in bytes.
    pub memory: u64,
}

/// `quell shape`, with its logs in this folder.
pub fn shape(
    asked: &Asked,
    place: &Place,
    folder: &Path,
    arguments: &[&str],
) -> Result<Went, String> {
    run(place, &mut command(asked, folder, arguments), folder)
}

pub fn command(asked: &Asked, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&asked.quell);
    command.arg("shape").args(arguments).arg("--state").arg(folder.join("state"));
    command
}

/// What `quell shape apply` is called with.
pub fn apply<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["apply", "--dev", "near0", "--confirm-within", "never"], more].concat()
}

/// Runs a program at the near end until it ends well. What it prints goes through a file: this program stays small, since a child begins with
/// what its parent has.
pub fn run(place: &Place, command: &mut Command, folder: &Path) -> Result<Went, String> {
    let shown = format!("{command:?}");
    let path = folder.join("out");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    command.stdout(File::create(&path).map_err(failed)?).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = place.start(End::Near, command)?;
    let mut error = String::new();
    let errors = child.stderr.take().ok_or("no output")?;
    // A watchdog that stays has no such output.
    errors.take(1 << 16).read_to_string(&mut error).map_err(|e| e.to_string())?;
    let (good, memory) = end(child)?;
    let seconds = begun.elapsed().as_secs_f64();
    if !good {
        return Err(format!("{error:.500}\n{shown}"));
    }
    let small = std::fs::metadata(&path).map_err(failed)?.len() < 1 << 16;
    let out = if small { std::fs::read_to_string(&path).map_err(failed)? } else { String::new() };
    Ok(Went { out, seconds, memory })
}

/// Whether a program ended well, and the most memory that it had, in bytes.
fn end(child: Child) -> Result<(bool, u64), String> {
    let mut status = 0;
    // SAFETY: all zeros are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both live through the call; nobody else waits for this child.
    let done = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    if done < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    Ok((libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, usage.ru_maxrss as u64 * 1024))
}
