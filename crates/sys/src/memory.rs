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

/// Gives back to the kernel what this thread's stack is no longer deep enough for, but for two pages: for one that did deep work and then waits for
/// long.
pub fn give_back_stack() {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed();
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: fills in the attributes of a thread that runs, this one, and reads from them where its stack is (pthread_getattr_np(3)).
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    let here = 0_u8;
    let here = std::ptr::from_ref(&here) as usize;
    let high = here.saturating_sub(IN_USE) / PAGE * PAGE;
    let low = (low as usize).next_multiple_of(PAGE);
    if high > low {
        // SAFETY: these pages are this thread's stack below what is in use of it, and what comes there again finds zeroes (madvise(2)).
        unsafe {
            libc::madvise(low as *mut libc::c_void, high - low, libc::MADV_DONTNEED);
        }
    }
}

/// What may be in use below a variable of the function that runs: its own, and what the next that it calls needs.
const IN_USE: usize = 8 << 10;
/// Where pages are larger the kernel refuses, and nothing is given back.
const PAGE: usize = 4 << 10;

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
