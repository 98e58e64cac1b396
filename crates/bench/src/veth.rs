//! Two namespaces and a cable between them, which end with this program; programs started in them, and what a packet socket sees there.
//!
//! ```text
//!   near0 (10.9.0.1) ═══ veth ═══ (10.9.0.2) far0
//! ```

use nix::errno::Errno;
use quell_netlink::address::NewAddress;
use quell_netlink::link::VethEnd;
use quell_netlink::quiet::quiet;
use quell_netlink::{LinkName, NetlinkError, Stack};
use quell_sys::SysError;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::netns::NetNs;
use quell_sys::socket::Inbox;
use quell_sys::socket::option::{grow_receive_buffer, set};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const FAR: &str = "10.9.0.2";
pub const NEAR_DEVICE: &str = "near0";
pub const FAR_DEVICE: &str = "far0";

pub struct VethPair {
    near: NetNs,
    far: NetNs,
}

/// Which of them: clients are near, servers far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchHost {
    Near,
    Far,
}

impl VethPair {
    pub fn new() -> Result<Self, String> {
        Self::build().map_err(|e| e.to_string())
    }

    fn build() -> Result<Self, Box<dyn std::error::Error>> {
        let (near, far) = (NetNs::new()?, NetNs::new()?);
        near.run(|| -> Result<(), NetlinkError> {
            let here = VethEnd::new(name(NEAR_DEVICE));
            let there = VethEnd { namespace: Some(far.as_fd()), ..VethEnd::new(name(FAR_DEVICE)) };
            Stack::open()?.create_veth(&here, &there)
        })??;
        near.run(|| up(NEAR_DEVICE, "10.9.0.1/24"))??;
        far.run(|| up(FAR_DEVICE, "10.9.0.2/24"))??;
        Ok(Self { near, far })
    }

    pub fn start(&self, host: BenchHost, command: &mut Command) -> Result<ChildGuard, String> {
        let space = if host == BenchHost::Near { &self.near } else { &self.far };
        let shown = format!("{command:?}");
        let child = space.run(|| command.spawn()).map_err(|e: SysError| e.to_string())?;
        child.map(|child| ChildGuard(Some(child))).map_err(|e| format!("{shown}: {e}"))
    }

    /// Starts a program whose input and output are ours.
    pub fn pipes(&self, host: BenchHost, command: &mut Command) -> Result<ChildGuard, String> {
        self.start(host, command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()))
    }

    /// Starts this program as one of its helpers.
    pub fn helper(&self, host: BenchHost, arguments: &[&str]) -> Result<ChildGuard, String> {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        self.pipes(host, Command::new(me).args(arguments))
    }
}

fn name(text: &str) -> LinkName {
    text.parse().expect("a short word is a device name")
}

fn up(device: &str, address: &str) -> Result<(), NetlinkError> {
    let mut stack = Stack::open()?;
    let lo = stack.index_of(&name("lo"))?;
    stack.up(lo)?;
    let index = stack.index_of(&name(device))?;
    quiet(&name(device))?;
    stack.up(index)?;
    let prefix = address.parse().expect("an address with its length");
    stack.add_address(index, &NewAddress::new(prefix))
}

/// Longest wait for a process to end by itself, in steps of 5 ms.
const STEPS: usize = 1000;

/// A process that is ended when nobody waits for it any more.
pub struct ChildGuard(Option<Child>);

impl ChildGuard {
    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is there until its end is waited for")
    }

    /// The child, whose end somebody else waits for.
    pub fn into_child(mut self) -> Child {
        self.0.take().expect("it is there until its end is waited for")
    }

    pub fn output(&mut self) -> Result<BufReader<ChildStdout>, String> {
        let output = self.child().stdout.take();
        output.map(BufReader::new).ok_or_else(|| "a process has no output".into())
    }

    /// Reads its output up to a line with one of these words.
    pub fn until(&mut self, words: &[&str]) -> Result<BufReader<ChildStdout>, String> {
        let mut output = self.output()?;
        let mut line = String::new();
        while !words.iter().any(|word| line.contains(word)) {
            line.clear();
            if output.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
                return Err("a program ended before it was ready".into());
            }
        }
        Ok(output)
    }

    /// Closes its input, reads the rest of its output and waits for its end.
    pub fn finish(mut self, mut output: impl Read) -> Result<String, String> {
        drop(self.child().stdin.take());
        let mut text = String::new();
        output.read_to_string(&mut text).map_err(|e| e.to_string())?;
        self.end()?;
        Ok(text)
    }

    /// Asks it to end (SIGTERM), and waits for that.
    pub fn stop(mut self) -> Result<(), String> {
        let pid = nix::unistd::Pid::from_raw(self.child().id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        self.end()
    }

    pub fn end(mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            if self.child().try_wait().map_err(|e| e.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives each frame that a device sends or receives, with its size and the kernel's stamp, until standard input ends. Says `ready` first. It wakes
/// twenty times a second and takes what waits, so that it takes little of the CPUs that it watches.
pub fn watch(device: &str, mut see: impl FnMut(&[u8], usize, u64)) -> Result<(), String> {
    static OVER: AtomicBool = AtomicBool::new(false);
    let socket = packet_socket(device)?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let mut inbox = Inbox::new(512, 64);
    let mut over = false;
    while !over {
        over = OVER.load(Ordering::Relaxed);
        sleep_until(monotonic_ns() + 50_000_000).map_err(|e| e.to_string())?;
        while inbox.receive(socket.as_fd()).map_err(|e| e.to_string())? > 0 {
            for (arrival, frame) in inbox.iter() {
                if let Some(stamp) = arrival.stamp_ns {
                    see(frame, arrival.size, stamp);
                }
            }
        }
    }
    Ok(())
}

fn packet_socket(device: &str) -> Result<OwnedFd, String> {
    const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();
    let failed = |e: &dyn std::fmt::Display| format!("a packet socket on {device}: {e}");
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    let fd = unsafe {
        let raw = libc::socket(libc::AF_PACKET, kind, i32::from(ALL));
        OwnedFd::from_raw_fd(Errno::result(raw).map_err(|e| failed(&e))?)
    };
    let index = nix::net::if_::if_nametoindex(device).map_err(|e| failed(&e))?;
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ALL;
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of a whole address.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(bound).map_err(|e| failed(&e))?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "stamps").map_err(|e| failed(&e))?;
    grow_receive_buffer(fd.as_fd(), 256 << 20);
    Ok(fd)
}
