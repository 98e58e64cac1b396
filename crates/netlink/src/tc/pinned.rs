//! Opening a BPF program that is pinned in a BPF file system.

use std::ffi::CString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `BPF_OBJ_GET` of `include/uapi/linux/bpf.h`.
const OBJ_GET: libc::c_long = 7;

/// The part of `union bpf_attr` that `BPF_OBJ_GET` reads.
#[repr(C)]
struct ObjGet {
    path: u64,
    fd: u32,
    flags: u32,
}

/// A descriptor for the program. An error says why there is none.
pub(super) fn open(path: &Path) -> Result<OwnedFd, String> {
    let text = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| format!("the path of the BPF program has a NUL in it: {}", path.display()))?;
    let attr = ObjGet { path: text.as_ptr() as u64, fd: 0, flags: 0 };
    // SAFETY: `attr` and the path in it live through the call, and the size is that of `attr`.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            OBJ_GET,
            (&raw const attr).cast::<libc::c_void>(),
            size_of_val(&attr),
        )
    };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!(
            "could not open the BPF program pinned at {}: {error}; pin it there first",
            path.display()
        ));
    }
    // SAFETY: the kernel has just opened it for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
