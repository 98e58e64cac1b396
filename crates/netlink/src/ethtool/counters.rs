//! A driver's own counters, by the names that it gives them (`ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`, `ETHTOOL_GSTATS` of
//! `include/uapi/linux/ethtool.h`).

use crate::link::LinkName;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// What is asked, and of which set (`ETH_SS_STATS`).
mod ask {
    pub const STRINGS: u32 = 0x1b;
    pub const STATS: u32 = 0x1d;
    pub const SET_INFO: u32 = 0x37;
    pub const SET_OF_STATS: u32 = 1;
}

/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// Drivers with hundreds of queues have some ten thousand counters.
const MOST: usize = 65_536;

/// Why a driver's counters could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("could not read the driver's counters: {call}: {errno:?}, {}", errno.desc())]
pub struct CountersError {
    pub call: &'static str,
    /// The kernel's number; `EOPNOTSUPP` for drivers without counters.
    pub errno: Errno,
}

/// The counters of a device's driver, in its order.
pub fn counters(device: &LinkName) -> Result<Vec<(String, u64)>, CountersError> {
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let raw = Errno::result(raw).map_err(|errno| CountersError { call: "socket", errno })?;
        OwnedFd::from_raw_fd(raw)
    };
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, one length.
    let mut info = [ask::SET_INFO, 0, 0, 0, 0];
    info[2..4].copy_from_slice(&words(1 << ask::SET_OF_STATS));
    call(&socket, device, &mut info, "ethtool: number of counters")?;
    let known = info[2..4] == words(1 << ask::SET_OF_STATS);
    let count = if known { info[4] as usize } else { 0 };
    if count == 0 || count > MOST {
        return Err(CountersError {
            call: "ethtool: number of counters",
            errno: Errno::EOPNOTSUPP,
        });
    }
    // struct ethtool_gstrings: command, set, length, names. struct ethtool_stats: command, length, values. The kernel writes as many as
    // it has at that time, which a driver may change between two calls: twice the room, and a page.
    let room = count * 2 + 512;
    let mut names = vec![0u32; 3 + room * NAME / 4];
    names[..3].copy_from_slice(&[ask::STRINGS, ask::SET_OF_STATS, count as u32]);
    call(&socket, device, &mut names, "ethtool: names of counters")?;
    let mut values = vec![0u32; 2 + room * 2];
    values[..2].copy_from_slice(&[ask::STATS, count as u32]);
    call(&socket, device, &mut values, "ethtool: counters")?;
    let count = count.min(names[2] as usize).min(values[1] as usize);
    let name = |at: usize| -> String {
        let words = &names[3 + at * NAME / 4..][..NAME / 4];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    };
    let value = |at: usize| {
        let [a, b, c, d] = values[2 + at * 2].to_ne_bytes();
        let [e, f, g, h] = values[3 + at * 2].to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    Ok((0..count).map(|at| (name(at), value(at))).collect())
}

fn words(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

fn call(
    socket: &OwnedFd,
    device: &LinkName,
    data: &mut [u32],
    what: &'static str,
) -> Result<(), CountersError> {
    // struct ifreq: a name of 16 bytes, then a pointer in a union of 24 bytes.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        data: *mut u32,
        rest: [u8; 16],
    }
    let mut request = Request { name: [0; 16], data: data.as_mut_ptr(), rest: [0; 16] };
    let name = device.as_str().as_bytes();
    request.name[..name.len().min(15)].copy_from_slice(&name[..name.len().min(15)]);
    // SAFETY: the request and the data behind its pointer live through the call; the data has room for all that the kernel writes, as
    // its caller sees to.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    Errno::result(result).map(drop).map_err(|errno| CountersError { call: what, errno })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_no_driver_with_counters() {
        let error = counters(&"lo".parse().unwrap()).unwrap_err();
        assert_eq!(error.errno, Errno::EOPNOTSUPP);
        assert!(counters(&"nosuchdevice0".parse().unwrap()).is_err());
    }
}
