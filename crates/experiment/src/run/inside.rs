//! The processes of a cell on the other side of a carrier: they make the place where it runs, and carry it out there.
//!
//! ```text
//!   host-cell ──► host-init ──► the plan, or a program for `quell lab exec`
//!   guest-init ───────────────► the same, in the guest
//! ```

use super::carrier::{HOST_INIT, own_program};
use super::exec;
use quell_lab::cell::CellPlan;
use quell_lab::guest;
use quell_lab::supervise::{Journal, supervise};
use quell_store::WholeFrames;
use quell_sys::netns::{Isolation, enter_user_namespace};
use std::path::Path;
use std::process::Command;

/// Nothing is built in a guest before this time. It counts in ticks of 10 ms until its timers have switched to high resolution,
/// some ticks after the start (`hrtimer_switch_to_hres`, kernel/time/hrtimer.c); WireGuard ignores handshakes at first; and some
/// programs (ping) take a clock that shows 0 s for one that was never read.
const GUEST_READY_NS: u64 = 2_000_000_000;

/// The child's part of [`host_lacking`].
pub fn host_lacks() -> Result<(), String> {
    die_with_parent();
    // As a cell's process does, but for the processes, of which there are none here: it would be refused the same.
    apart(false)?;
    let plans: Vec<CellPlan> =
        serde_json::from_reader(std::io::stdin()).map_err(|e| e.to_string())?;
    let lacking = quell_lab::kernel_lacks::lacking(&plans).map_err(|e| e.to_string())?;
    println!("{}", serde_json::to_string(&lacking).map_err(|e| e.to_string())?);
    Ok(())
}

/// Namespaces of one's own: root makes them as it is, anybody else in a user namespace.
fn apart(processes: bool) -> Result<(), String> {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    if !nix::unistd::geteuid().is_root() {
        let isolation = Isolation { network: true, mounts: true, processes };
        return enter_user_namespace(isolation).map_err(|e| e.to_string());
    }
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    flags.set(CloneFlags::CLONE_NEWPID, processes);
    unshare(flags).map_err(|e| {
        format!("could not make namespaces: {e}; this root has no CAP_SYS_ADMIN (a container?)")
    })?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|e| format!("could not keep mounts apart: {e}; a security module may forbid it"))
}

/// The host backend's outer process: enters namespaces of its own and starts their first process.
pub fn host_cell(desk: &Path) -> Result<(), String> {
    die_with_parent();
    apart(true)?;
    let status = Command::new(own_program()?)
        .arg(HOST_INIT)
        .arg(desk)
        .status()
        .map_err(|e| format!("starting the first process: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the measurement's first process: {status}"))
    }
}

/// The first process in the host backend's namespaces.
pub fn host_init(desk: &Path) -> Result<(), String> {
    die_with_parent();
    let sysfs = || {
        // /sys shows the namespace that mounted it.
        nix::mount::mount(
            Some("sysfs"),
            "/sys",
            Some("sysfs"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        )
    };
    // Only programs that a person runs in the lab need it.
    let _ = sysfs();
    if desk.join(exec::PLAN).exists() {
        return exec::carry_out(desk, false);
    }
    let mut journal = FileJournal::open(&desk.join("events"), false)?;
    carry_out(desk, &mut journal)
}

/// The first process in a guest. Never returns: it powers the guest off.
pub fn guest_init() -> ! {
    let outcome = (|| {
        guest::init::mount_all().map_err(|e| e.to_string())?;
        quell_sys::clock::sleep_until(GUEST_READY_NS).map_err(|e| e.to_string())?;
        // New namespaces then come without tunl0, gre0 and the like, which nobody asked for. Kernels before 4.18 don't know it.
        let _ = quell_netlink::sysctl::write("net/core/fb_tunnels_only_for_init_net", "2");
        let desk = Path::new(guest::init::SHARED);
        if desk.join(exec::PLAN).exists() {
            return exec::carry_out(desk, true);
        }
        let mut journal = FileJournal::open(&desk.join("events"), true)?;
        carry_out(desk, &mut journal)
    })();
    guest::init::power_off(outcome.err().as_deref())
}

fn carry_out(desk: &Path, journal: &mut FileJournal) -> Result<(), String> {
    let place = desk.join("plan.json");
    let text = std::fs::read(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    let plan: CellPlan =
        serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", place.display()))?;
    let agent = [own_program()?.to_string_lossy().into_owned(), "agent".into()];
    supervise(&plan, &agent, journal).map_err(|e| e.to_string())
}

fn die_with_parent() {
    // Fails only for signals that don't exist.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
}

/// A journal in a file. In a guest, what is appended is pushed to the host's kernel at once.
pub(super) struct FileJournal {
    frames: WholeFrames,
    guest: bool,
}

impl FileJournal {
    pub fn open(path: &Path, guest: bool) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = std::fs::OpenOptions::new().append(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Ok(FileJournal { frames: WholeFrames::new(file, length), guest })
    }
}

impl Journal for FileJournal {
    fn append(&mut self, frames: &[u8]) -> std::io::Result<()> {
        self.frames.append(frames)?;
        if self.guest { guest::init::push(self.frames.file()) } else { Ok(()) }
    }
}
