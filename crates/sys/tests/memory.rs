//! What the allocator gives back to the kernel; in a process of its own, since what others allocate meanwhile counts too.

use quell_sys::memory::give_back;

/// Bytes of memory that this process holds (`VmRSS`, proc(5)).
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
#[cfg(target_env = "gnu")]
fn what_was_freed_between_what_is_in_use_is_given_back() {
    const MUCH: u64 = 64 << 20;
    let before = held();
    // Every other one stays, so that no heap has a free end.
    let mut all: Vec<_> = (0..8192).map(|n: usize| Some(vec![n as u8 | 1; 8 << 10])).collect();
    all.iter_mut().skip(1).for_each(|one| {
        if one.as_ref().is_some_and(|bytes| bytes[0] % 4 == 1) {
            *one = None;
        }
    });
    let freed = held();
    give_back();
    let now = held();
    assert!(freed > before + MUCH / 2 && now + MUCH / 8 < freed, "{before} {freed} {now}");
    drop(all);
}
