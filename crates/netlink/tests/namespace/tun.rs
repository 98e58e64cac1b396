//! Tun and tap devices of the thread's namespace, as tests make them.

use nix::libc;
use std::fs::File;
use std::os::fd::AsRawFd;

/// What such a device carries: IFF_TUN or IFF_TAP (include/uapi/linux/if_tun.h).
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every test needs both")]
pub enum Carries {
    /// Packets without a MAC header.
    Packets = 0x0001,
    /// Ethernet frames.
    Frames = 0x0002,
}

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_NO_PI: i16 = 0x1000;

/// `struct ifreq` with the flags of such a device.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// A device that is there for as long as its file is open; why not, where nothing is behind the node of such devices and the kernel does not
/// list them.
///
/// # Panics
/// Where the kernel has such devices and makes none.
pub fn device(name: &str, carries: Carries) -> Result<File, String> {
    let file = match File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(file) => file,
        Err(error) => {
            let listed = std::fs::read_to_string("/proc/misc").expect("every kernel lists these");
            let listed = listed.lines().any(|line| line.split_whitespace().nth(1) == Some("tun"));
            assert!(!listed, "/dev/net/tun: {error}");
            return Err(format!("/dev/net/tun: {error}"));
        }
    };
    let mut request = Request { name: [0; 16], flags: carries as i16 | IFF_NO_PI, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the request lives through the call and has the size of a struct ifreq.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    assert_eq!(made, 0, "{name}: {}", std::io::Error::last_os_error());
    Ok(file)
}
