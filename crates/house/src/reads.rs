//! A file that a person names is read up to an end of our own (`quell_sys::input`): a device has more than there is memory, and a pipe that
//! nobody writes would be waited for. The calls that know no such end, and the places where the file is none that a person names.

use crate::tree::File;

/// Calls that read, or wait for, whatever stands in a place.
const CALLS: [&str; 4] = ["fs::read(", "fs::read_to_string(", "File::open(", "pem_file("];

/// What the kernel and the system keep themselves.
const SYSTEM: [&str; 3] = ["\"/proc/", "\"/sys/", "\"/etc/"];

const OURS: [&str; 2] = ["crates/bench/", "crates/house/"];

/// Files that may, how often, and why.
const MAY: [(&str, usize, &str); 26] = [
    ("crates/act/src/annex.rs", 1, "the log of changes, root's alone"),
    ("crates/act/src/kernel.rs", 2, "settings of the kernel, and a folder to sync"),
    ("crates/act/src/undo_log.rs", 2, "the log of changes, root's alone"),
    ("crates/act/src/watchdog.rs", 1, "its own lock"),
    ("crates/experiment/src/run/exec.rs", 3, "a run's own folder"),
    ("crates/experiment/src/run/inside.rs", 1, "a run's own folder"),
    ("crates/experiment/src/run/machines.rs", 2, "this program itself"),
    ("crates/store/src/machine.rs", 1, "what the kernel says of the machine"),
    ("crates/host/src/capture.rs", 2, "what the kernel says of an interface"),
    ("crates/host/src/counted.rs", 1, "what the kernel counts"),
    ("crates/host/src/sockets.rs", 1, "what the kernel says of a process"),
    ("crates/host/src/texts.rs", 1, "what the kernel says, up to an end"),
    ("crates/lab/src/guest/watch.rs", 1, "written by this program for its guest"),
    ("crates/kernel/src/build.rs", 3, "the cache of kernels"),
    ("crates/kernel/src/cache.rs", 4, "the cache of kernels, and a source as it was unpacked"),
    ("crates/kernel/src/edit.rs", 1, "a kernel's source as it was unpacked"),
    ("crates/kernel/src/pack.rs", 1, "the cache of kernels"),
    ("crates/netlink/src/sysctl.rs", 1, "settings of the kernel"),
    ("crates/ping/src/days.rs", 1, "the folder of its days, to lock it"),
    ("crates/shaping/src/process_lock.rs", 2, "locks beside the log of changes"),
    ("crates/tuning/src/files.rs", 3, "the system's sysctl.d, and the record of tune"),
    (
        "crates/store/src/files.rs",
        3,
        "folders to sync, and what is known to be a regular file of a run",
    ),
    ("crates/store/src/run.rs", 1, "the folder whose lock is asked for"),
    ("crates/store/src/writer.rs", 1, "a folder to sync"),
    ("crates/sys/src/netns.rs", 2, "network namespaces: opened, not read"),
    ("crates/sys/src/socket/stream.rs", 1, "what the kernel says of itself"),
];

/// Files in which something is read without an end. Tests at a file's end are left out.
pub fn problems(files: &[File]) -> Vec<String> {
    let is_source = |path: &str| {
        let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        inside.is_some_and(|(_, rest)| rest.starts_with("src/") && rest.ends_with(".rs"))
            && !path.ends_with("tests.rs")
            && !OURS.iter().any(|ours| path.starts_with(ours))
    };
    let found = files.iter().filter(|file| is_source(&file.path)).filter_map(|file| {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        let count: usize = CALLS.iter().map(|call| endless(code, call)).sum();
        let may = MAY.iter().find(|(path, ..)| *path == file.path).map_or(0, |(_, most, _)| *most);
        (count > may).then(|| {
            let path = &file.path;
            format!("{path}: {count} files read without an end, where {may} may: quell_sys::input has one")
        })
    });
    found.collect()
}

/// How often a call is made with something else than a place of the system's own.
fn endless(code: &str, call: &str) -> usize {
    let others = code.split(call).skip(1).filter(|after| {
        let place = after.trim_start().trim_start_matches('&').trim_start_matches("format!(");
        !SYSTEM.iter().any(|system| place.starts_with(system))
    });
    others.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_read_whole_whatever_it_is_is_found() {
        let reads = File::new("crates/x/src/a.rs", "let key = std::fs::read(&args.key)?;");
        let system = File::new(
            "crates/x/src/b.rs",
            "fs::read_to_string(\"/proc/stat\"); fs::read(&format!(\"/sys/class/net/{name}/mtu\"))",
        );
        let tests = File::new("crates/x/src/c.rs", "#[cfg(test)]\nfs::read(&place)");
        let wanted =
            "crates/x/src/a.rs: 1 files read without an end, where 0 may: quell_sys::input has one";
        assert_eq!(problems(&[reads, system, tests]), [wanted]);
    }
}
