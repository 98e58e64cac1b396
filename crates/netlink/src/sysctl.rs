//! Kernel settings under /proc/sys. Those of the network are the calling thread's namespace's.

use crate::core::NetlinkError;
use nix::errno::Errno;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Sets `key`, for example `net/ipv4/ip_forward`, to a value. The key is written with slashes,
/// because interface names may have dots; one without any slash may have dots instead, as in
/// `net.ipv4.ip_forward`.
///
/// Errors with `ENOENT` when the kernel has no such setting, `EACCES` or `EPERM` without rights,
/// `EINVAL` when it does not like the value.
pub fn write(key: &str, value: &str) -> Result<(), NetlinkError> {
    let tried = || format!("set sysctl {key} to \"{value}\"");
    std::fs::write(path(key, &tried())?, value).map_err(|e| failed(tried(), "write", &e))
}

/// Reads `key`, without the line's end.
pub fn read(key: &str) -> Result<String, NetlinkError> {
    let tried = || format!("read sysctl {key}");
    let text =
        std::fs::read_to_string(path(key, &tried())?).map_err(|e| failed(tried(), "read", &e))?;
    Ok(text.trim_end().to_owned())
}

/// A key that climbs out of /proc/sys is none.
fn path(key: &str, tried: &str) -> Result<PathBuf, NetlinkError> {
    let slashed = if key.contains('/') { key.to_string() } else { key.replace('.', "/") };
    let relative = Path::new(&slashed);
    if !key.is_empty() && relative.components().all(|part| matches!(part, Component::Normal(_))) {
        Ok(Path::new("/proc/sys").join(relative))
    } else {
        Err(NetlinkError::invalid(tried, "write the key like net/ipv4/ip_forward"))
    }
}

fn failed(tried: String, call: &'static str, error: &io::Error) -> NetlinkError {
    NetlinkError::system(tried, call, error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_there_is_named_in_the_error() {
        let error = read("net/ipv4/no_such_thing").unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENOENT));
        assert!(error.to_string().contains("net/ipv4/no_such_thing"));
    }

    #[test]
    fn dots_do_where_there_are_no_slashes() {
        assert_eq!(read("kernel.ostype").unwrap(), read("kernel/ostype").unwrap());
        assert_eq!(read("kernel.ostype").unwrap(), "Linux");
    }

    #[test]
    fn keys_do_not_leave_the_settings() {
        for key in ["", "/etc/passwd", "../etc/passwd", "net/../../etc/passwd"] {
            assert!(write(key, "1").is_err(), "{key}");
        }
    }
}
