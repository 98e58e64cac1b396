//! `quell shape persist`: what is in force comes back after a reboot, and when the interface does.
//!
//! ```text
//!   /etc/quell/shape/DEV.toml                                       what is wanted, a policy file
//!   /etc/quell/shape/DEV.csv                                        its subscribers, where they are hundreds
//!   /etc/systemd/system/quell-shape@.service                        applies it; for all interfaces
//!   /etc/systemd/system/quell-shape-hold@.service                   makes subscribers' classes as they come, where that is wanted
//!   /etc/systemd/system/quell-shape-follow@.service                 follows the rates of a line that varies, where that is wanted
//!   /etc/systemd/system/sys-…-DEV.device.wants/quell-shape@DEV.service   a link to it: systemd starts it when the interface is there
//! ```

use crate::{CommandError, UndoLogs, open, policy_of_log};
use quell_act::Standing;
use quell_policy::write_list;
use quell_store::write_output;
use quell_sys::trusted::{self, TrustedFolder};
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize)]
pub struct PersistReport {
    pub device: String,
    pub wanted: String,
    pub files: Vec<String>,
}

/// From so many subscribers on they are kept in a table beside the policy.
const TABLE_FROM: usize = 256;

struct Files {
    wanted: PathBuf,
    list: PathBuf,
    unit: PathBuf,
    hold: PathBuf,
    follow: PathBuf,
    link: PathBuf,
}

impl Files {
    fn of(root: &Path, device: &str) -> Self {
        let etc = root.join("etc");
        let (units, name) = (etc.join("systemd/system"), escaped(device));
        Files {
            wanted: etc.join("quell/shape").join(format!("{device}.toml")),
            list: etc.join("quell/shape").join(format!("{device}.csv")),
            unit: units.join("quell-shape@.service"),
            hold: units.join("quell-shape-hold@.service"),
            follow: units.join("quell-shape-follow@.service"),
            link: units
                .join(format!("sys-subsystem-net-devices-{name}.device.wants"))
                .join(format!("quell-shape@{name}.service")),
        }
    }
}

/// An interface's name as systemd writes it in units (systemd.unit(5), "String escaping").
pub fn escaped(device: &str) -> String {
    let one = |(at, byte): (usize, u8)| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' => char::from(byte).to_string(),
        b'.' if at > 0 => ".".to_owned(),
        _ => format!("\\x{byte:02x}"),
    };
    device.bytes().enumerate().map(one).collect()
}

fn unit(program: &Path) -> String {
    format!(
        "# Made by `quell shape persist`; `quell shape off` takes it away.\n\
         [Unit]\n\
         Description=Queues of %I\n\
         Documentation=man:quell-shape-persist(1)\n\
         BindsTo=sys-subsystem-net-devices-%i.device\n\
         After=sys-subsystem-net-devices-%i.device\n\
         Wants=quell-shape-hold@%i.service quell-shape-follow@%i.service\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={program} shape apply --dev %I --file /etc/quell/shape/%I.toml --confirm-within never\n\
         ExecStop={program} shape off --dev %I --for-now\n",
        program = program.display()
    )
}

/// The unit of `hold` or `follow`. `apply` starts one too: this one stands by and takes over when that one dies. It ends
/// well where it is not needed.
fn stand_by(program: &Path, command: &str, about: &str) -> String {
    format!(
        "# Made by `quell shape persist`; `quell shape off` takes it away.\n\
         [Unit]\n\
         Description={about} on %I\n\
         Documentation=man:quell-shape-{command}(1)\n\
         BindsTo=quell-shape@%i.service\n\
         After=quell-shape@%i.service\n\
         \n\
         [Service]\n\
         ExecStart={program} shape {command} --dev %I --stand-by\n\
         SuccessExitStatus=1\n\
         Restart=on-failure\n\
         RestartSec=1\n",
        program = program.display()
    )
}

/// Keeps what is in force on an interface. `root` is where a system's / is.
pub fn persist(logs: &UndoLogs, device: &str, root: &Path) -> Result<PersistReport, CommandError> {
    let log = logs.of(&mut open()?, device)?;
    if log.standing != Standing::Confirmed {
        return Err(CommandError::check(format!(
            "what is on {device} waits to be confirmed; first: quell shape confirm --dev {device}"
        )));
    }
    // Nothing is made where a slip of the pen leads.
    let etc = root.join("etc");
    if !etc.is_dir() {
        let (etc, root) = (etc.display(), root.display());
        return Err(CommandError::unusable(format!(
            "there is no folder {etc}; --root {root} is to be where a system's / is"
        )));
    }
    let files = Files::of(root, device);
    let program = std::env::current_exe().map_err(CommandError::system)?;
    let program = trusted::program(&program).map_err(|why| {
        CommandError::check(format!(
            "root would start this program at each boot, and {why}; install it first, as /usr/local/bin/quell"
        ))
    })?;
    let mut policy = policy_of_log(&log)?;
    let is_followed = policy.follow.is_some();
    let mut written = Vec::new();
    // The list first: what names it is never without it.
    if policy.subscribers.len() >= TABLE_FROM {
        written.push((&files.list, write_list(&policy.subscribers)));
        policy.list = Some(format!("{device}.csv"));
        policy.subscribers.clear();
    }
    let policy = toml::to_string(&policy).map_err(CommandError::system)?;
    let text = format!("# What `quell shape persist` keeps of {device}.\n{policy}");
    written.extend([(&files.wanted, text), (&files.unit, unit(&program))]);
    if !log.begun.before.our_dynamic.is_empty() {
        written.push((&files.hold, stand_by(&program, "hold", "Classes of those who come")));
    }
    if is_followed {
        written.push((&files.follow, stand_by(&program, "follow", "Rates of the line")));
    }
    let made = written.iter().try_for_each(|(path, text)| write(path, text));
    if let Err(error) = made.and_then(|()| link(&files.link)) {
        // Half of it would be nothing; what can't be taken away is told with what was refused.
        let left = forget(root, device).err();
        let left = left.map(|why| format!("; {why}")).unwrap_or_default();
        return Err(CommandError::system(format!("{error}{left}")));
    }
    let paths = written.iter().map(|(path, _)| *path).chain([&files.link]);
    let files = paths.map(|path| path.display().to_string()).collect();
    Ok(PersistReport { device: device.to_owned(), wanted: log.begun.wanted, files })
}

pub fn is_kept(root: &Path, device: &str) -> bool {
    Files::of(root, device).wanted.exists()
}

/// Takes away what keeps an interface's queues; says what that was.
pub fn forget(root: &Path, device: &str) -> Result<Vec<String>, CommandError> {
    let files = Files::of(root, device);
    let mut said = Vec::new();
    for path in [&files.link, &files.wanted, &files.list] {
        if remove(path)? {
            said.push(format!("{} is gone: it does not come back at boot", path.display()));
        }
    }
    if said.is_empty() {
        return Ok(said);
    }
    // Folders only where they are empty; the unit as long as an interface needs it.
    let needed = files.wanted.parent().and_then(|folder| fs::read_dir(folder).ok());
    if needed.is_none_or(|mut entries| entries.next().is_none()) {
        for unit in [&files.unit, &files.hold, &files.follow] {
            if remove(unit)? {
                said.push(format!("{} is gone: no interface needs it", unit.display()));
            }
        }
    }
    let folders = [files.link.parent(), files.wanted.parent(), files.wanted.ancestors().nth(2)];
    for folder in folders.into_iter().flatten() {
        let _ = fs::remove_dir(folder);
    }
    Ok(said)
}

fn remove(path: &Path) -> Result<bool, CommandError> {
    // Looked at first: of what is not there a read-only file system says that it is read-only.
    match fs::symlink_metadata(path).and_then(|_| fs::remove_file(path)) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(CommandError::system(format!("could not take {} away: {e}", path.display()))),
    }
}

fn make_parent(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    TrustedFolder::make(folder, 0o755).map(drop).map_err(Into::into)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("could not write {}: {e}", path.display());
    make_parent(path).map_err(failed)?;
    write_output(path, text.as_bytes()).map_err(failed)?;
    // Also where it was there before, with another mode.
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(failed)
}

fn link(path: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("could not make {}: {e}", path.display());
    make_parent(path).map_err(failed)?;
    match symlink("../quell-shape@.service", path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_systemd_escapes_them() {
        // systemd-escape br-lan, eth0.7, .x
        let names = ["br-lan", "eth0.7", ".x"].map(escaped);
        assert_eq!(names, ["br\\x2dlan", "eth0.7", "\\x2ex"]);
    }
}
