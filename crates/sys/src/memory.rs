//! What the allocator keeps of memory that a process no longer uses.
//!
//! ```text
//!   threads allocate ──► an arena for every few of them (glibc: eight for each CPU)      each keeps what was freed in it
//!                    ──► few arenas, trimmed when much was freed                         back to the kernel
//! ```
//!
//! A process of a thousand short-lived threads else holds the most that each arena ever had, long after the threads are gone.

/// Arenas that all threads share: allocating is rare in threads that move data.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Has all threads share few arenas, from now on. Without effect for arenas that are there already, and with allocators other than glibc's.
pub fn share_arenas() {
    // SAFETY: sets a number of the allocator's, which any thread may at any time (mallopt(3)).
    #[cfg(target_env = "gnu")]
    unsafe {
        // A zero says that it would not, and nothing depends on it.
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Gives back to the kernel what was freed (malloc_trim(3)): whole pages anywhere in the heap. It takes as long as looking at what is free does.
pub fn give_back() {
    // SAFETY: takes the allocator's own locks, and touches nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has what is freed stay for whoever asks next, until the process ends: for one that reads much and ends soon. Large pieces else come from the
/// kernel and go back there each time, each of their pages zeroed anew, which was a fifth of the time that two large runs took to compare.
pub fn keep_freed() {
    // SAFETY: sets numbers of the allocator's, as above.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// The largest piece that the allocator takes from its heap, where it has a choice (`HEAP_MAX_SIZE / 2`, malloc/arena.c of glibc).
#[cfg(target_env = "gnu")]
const LARGEST: libc::c_int = 32 << 20;
