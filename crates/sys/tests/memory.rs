//! What the allocator gives back to the kernel; in a process of its own, since what others allocate meanwhile counts too.

use quell_sys::memory::{give_back, give_back_stack};

/// Bytes of memory that this process holds (`VmRSS`, proc(5)).
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Uses so many bytes of the stack, and says something that needs them.
#[inline(never)]
fn goes_deep() -> u64 {
    let deep = std::hint::black_box([1_u8; DEEP]);
    deep.iter().map(|byte| u64::from(*byte)).sum()
}

const DEEP: usize = 4 << 20;

#[test]
fn a_thread_that_waits_gives_back_the_depth_of_its_stack() {
    let thread = std::thread::Builder::new().stack_size(2 * DEEP);
    let thread = thread.spawn(|| {
        let before = "what it had before is still there".to_owned();
        assert_eq!(goes_deep(), DEEP as u64);
        let deep = own_stack();
        give_back_stack();
        assert!(deep > DEEP as u64 && own_stack() < 64 << 10, "{deep}, then {}", own_stack());
        assert_eq!(goes_deep(), DEEP as u64, "and it may go there again");
        before
    });
    assert!(thread.unwrap().join().unwrap().ends_with("still there"));
}

/// Bytes of this thread's stack that are in memory (`Rss` of the mapping that a variable of it is in, proc(5)).
fn own_stack() -> u64 {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here) as u64;
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines();
    let is_ours = |line: &str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bounds = range.map(|(low, high)| [low, high].map(|end| u64::from_str_radix(end, 16)));
        matches!(bounds, Some([Ok(low), Ok(high)]) if (low..high).contains(&here))
    };
    lines.find(|line| is_ours(line)).unwrap();
    let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
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
