//! Stand-in.
#![allow(missing_docs)]
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock { Virtual, Real }
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Console { Null, Inherit }
pub struct GuestSpec {
    pub kernel: PathBuf, pub memory_mib: u32, pub seed: u64, pub init: PathBuf, pub arguments: Vec<String>,
    pub dir: PathBuf, pub wall_limit: Duration, pub cpu: Option<usize>, pub clock: Clock, pub console: Console,
}
#[derive(Debug, PartialEq)]
pub enum GuestExit { Clean, Other(String) }
impl std::fmt::Display for GuestExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") }
}
pub struct Guest { child: Child, limit: Instant, dir: PathBuf }
pub fn boot(spec: GuestSpec) -> Result<Guest, std::io::Error> {
    use std::os::unix::process::CommandExt;
    let init = std::fs::File::open(&spec.init)?;
    let fd = init.as_raw_fd();
    let mut c = Command::new(&spec.kernel);
    c.arg(format!("mem={}M", spec.memory_mib));
    if spec.clock == Clock::Virtual { c.args(["time-travel=inf-cpu", "time-travel-start=1000000"]); }
    c.args(["root=/dev/root", "rootfstype=hostfs", "ro", "quiet", "norandmaps", "init=/proc/self/fd/9", "con=null"]);
    c.arg(if spec.console == Console::Null { "con0=null,fd:1" } else { "con0=fd:0,fd:1" });
    c.arg(format!("quell.seed={}", spec.seed)).arg("--").args(&spec.arguments);
    c.current_dir(&spec.dir);
    if spec.console == Console::Null {
        let log = std::fs::File::create("/tmp/gb/console.log")?;
        c.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    }
    let cpu = spec.cpu;
    unsafe {
        c.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            libc_dup2(fd, 9);
            if let Some(cpu) = cpu {
                let mut set = nix::sched::CpuSet::new();
                set.set(cpu)?;
                nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?;
            }
            Ok(())
        });
    }
    Ok(Guest { child: c.spawn()?, limit: Instant::now() + spec.wall_limit, dir: spec.dir })
}
fn libc_dup2(a: i32, b: i32) { unsafe { nix::libc::dup2(a, b); } }
impl Guest {
    pub fn wait_for(&mut self, look: Duration) -> Result<Option<GuestExit>, std::io::Error> {
        if self.child.try_wait()?.is_some() {
            let text = std::fs::read_to_string(self.dir.join("end")).unwrap_or("no end".into());
            return Ok(Some(if text.is_empty() { GuestExit::Clean } else { GuestExit::Other(text) }));
        }
        if Instant::now() > self.limit { self.kill(); return Ok(Some(GuestExit::Other("timeout".into()))); }
        std::thread::sleep(look);
        Ok(None)
    }
    pub fn kill(&mut self) { let _ = self.child.kill(); let _ = self.child.wait(); }
}
pub mod init {
    use nix::mount::{MsFlags, mount};
    pub const SHARED: &str = "/mnt";
    pub fn mount_all() -> Result<(), nix::Error> {
        let none = MsFlags::empty();
        mount(Some("proc"), "/proc", Some("proc"), none, None::<&str>)?;
        mount(Some("sys"), "/sys", Some("sysfs"), none, None::<&str>)?;
        mount(Some("none"), "/mnt", Some("hostfs"), none, Some("/proc/self/cwd"))?;
        mount(Some("tmp"), "/run", Some("tmpfs"), none, None::<&str>)?;
        mount(Some("dev"), "/dev", Some("devtmpfs"), none, None::<&str>).ok();
        Ok(())
    }
    pub fn power_off(error: Option<&str>) -> ! {
        let _ = std::fs::write("/mnt/end", error.unwrap_or(""));
        nix::unistd::sync();
        let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
        loop {}
    }
    pub fn push(file: &std::fs::File) -> std::io::Result<()> {
        use std::os::fd::AsRawFd;
        unsafe { nix::libc::sync_file_range(file.as_raw_fd(), 0, 0, 7); }
        Ok(())
    }
}
