//! Loading the program, running it for a test, and handing it to tc.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use aya::programs::{ProgramError, SchedClassifier, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfError, EbpfLoader, maps::MapError};
use quell_tc::{Bpf, BpfProgram, Filter, Handle, Match, U32};

use crate::config::Config;
use crate::error::ClassifyError;
use crate::raw::RawConfig;
use crate::tables::Tables;

/// The program, as clang made it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/classify.o"));

/// Its name in the object and in the kernel.
const NAME: &str = "quell_classify";

/// The classifier in the kernel. It ends with this value, unless a filter holds it.
pub struct Classifier {
    ebpf: Ebpf,
    tables: Tables,
}

/// What came of running it on a packet that was made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRun {
    /// The class id as the kernel has it; 0 is no match.
    pub class: u32,
    /// The packet's priority afterwards.
    pub priority: u32,
    /// The mean of its runs.
    pub took: Duration,
}

/// Interfaces of a packet, by their numbers; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Way {
    pub from: u32,
    pub on: u32,
}

impl Classifier {
    /// Loads the program and tells it what to do.
    pub fn load(config: &Config) -> Result<Self, ClassifyError> {
        may_use_bpf().map_err(ClassifyError::of_first_call)?;
        let raw = RawConfig::from(config);
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("SLOTS", raw.hosts).map_max_entries("HOSTS", raw.hosts * 2);
        let mut ebpf = loader.load(OBJECT).map_err(refused)?;
        let program: &mut SchedClassifier = ebpf
            .program_mut(NAME)
            .expect("the object has this program")
            .try_into()
            .expect("it is a classifier");
        program.load().map_err(|error| refused(error.into()))?;
        let mut tables = Tables::of(&mut ebpf)?;
        tables.configure(config)?;
        Ok(Classifier { ebpf, tables })
    }

    /// What it works with, to be read and changed while packets flow.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn program(&self) -> &SchedClassifier {
        let program = self.ebpf.program(NAME).expect("the object has this program");
        program.try_into().expect("it is a classifier")
    }

    /// Its descriptor, as long as this value lives.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.program().fd().expect("it is loaded").as_fd()
    }

    /// The filters of a queue whose packets it is to classify: the program, and behind it one that takes all that is left to `rest`. The
    /// program gives a class to every packet; the second is for the day on which somebody takes the first away.
    ///
    /// They must reach the kernel while this value lives. CAKE is fine without a `rest`.
    pub fn filters(&self, rest: Option<Handle>) -> Vec<Filter> {
        let program = BpfProgram::Loaded { fd: self.fd().as_raw_fd(), name: NAME.into() };
        let first = Filter::new(Bpf { program, direct_action: false }, None);
        std::iter::once(first).chain(rest.map(catch_all)).collect()
    }

    /// Runs it on a frame, `repeat` times.
    ///
    /// # Errors
    /// The kernel refused the frame: none may be shorter than an Ethernet header, or longer than a page.
    pub fn test_run(&self, frame: &[u8], mark: u32, repeat: u32) -> Result<TestRun, ClassifyError> {
        run(self.program(), frame, mark, Way::default(), repeat)
    }

    /// The same on one that goes a way between interfaces of this namespace, by whose routes it is told whose an address is.
    pub fn test_run_on(
        &self,
        frame: &[u8],
        mark: u32,
        way: Way,
        repeat: u32,
    ) -> Result<TestRun, ClassifyError> {
        run(self.program(), frame, mark, way, repeat)
    }
}

/// Runs a program on a frame.
pub(crate) fn run(
    program: &SchedClassifier,
    frame: &[u8],
    mark: u32,
    way: Way,
    repeat: u32,
) -> Result<TestRun, ClassifyError> {
    // struct __sk_buff: the mark is its third number, the priority its ninth, then come two interfaces.
    let mut before = [0u8; 192];
    before[8..12].copy_from_slice(&mark.to_ne_bytes());
    before[36..40].copy_from_slice(&way.from.to_ne_bytes());
    before[40..44].copy_from_slice(&way.on.to_ne_bytes());
    let mut after = [0u8; 192];
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.ctx_in = Some(&before);
    options.ctx_out = Some(&mut after);
    options.repeat = repeat;
    let result = program.test_run(options).map_err(|error| refused(error.into()))?;
    let priority = u32::from_ne_bytes(after[32..36].try_into().expect("four bytes"));
    Ok(TestRun { class: result.return_value, priority, took: result.duration })
}

/// A filter that sends every packet to `class`, of a kind that every kernel with filters has.
pub fn catch_all(class: Handle) -> Filter {
    let all: Match = "u32 0 0 at 0".parse().expect("it is a match");
    Filter::new(U32 { r#match: vec![all] }, Some(class))
}

/// Loads the smallest program of the classifier's kind and lets it go, so that the kernel's answer to anybody's program is told apart from
/// what it says of ours. (A table would not do: kernels may let everybody make those.)
pub(crate) fn may_use_bpf() -> std::io::Result<()> {
    /// The part of `union bpf_attr` that `BPF_PROG_LOAD` needs; what it has more is zero.
    #[repr(C)]
    struct ProgLoad {
        prog_type: u32,
        instructions: u32,
        first: u64,
        license: u64,
        log: [u32; 2],
        log_buffer: u64,
    }
    const PROG_LOAD: libc::c_long = 5;
    const SCHED_CLS: u32 = 3;
    // Code, registers, offset and number of each: r0 = 0, exit.
    static PROGRAM: [u64; 2] = [
        u64::from_ne_bytes([0xb7, 0, 0, 0, 0, 0, 0, 0]),
        u64::from_ne_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]),
    ];
    let attr = ProgLoad {
        prog_type: SCHED_CLS,
        instructions: PROGRAM.len() as u32,
        first: PROGRAM.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log: [0; 2],
        log_buffer: 0,
    };
    // SAFETY: `attr` and all that it points to live through the call, and the sizes are their own.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const attr, size_of::<ProgLoad>()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us and nobody else knows it.
    unsafe { libc::close(fd as i32) };
    Ok(())
}

/// The kernel's answer among the kinds of error that the loader has.
pub(crate) fn refused(error: EbpfError) -> ClassifyError {
    use std::io::Error;
    let (tried, answer, log) = match error {
        EbpfError::ProgramError(ProgramError::LoadError { io_error, verifier_log }) => {
            ("load the classifier".into(), io_error, verifier_log.to_string())
        }
        EbpfError::ProgramError(ProgramError::SyscallError(error)) => {
            (format!("run the classifier ({})", error.call), error.io_error, String::new())
        }
        EbpfError::MapError(MapError::CreateError { name, io_error }) => {
            (format!("make the classifier's table {name}"), io_error, String::new())
        }
        other => ("load the classifier".into(), Error::other(other.to_string()), String::new()),
    };
    ClassifyError::refused(tried, answer, &log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        OBJECT.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn the_object_names_no_folder_of_the_machine_that_compiled_it() {
        assert!(holds("parse.h") && holds("quell_host_class"), "names are in it");
        for folder in [env!("CARGO_MANIFEST_DIR"), env!("OUT_DIR")] {
            assert!(!holds(folder), "{folder}");
        }
        assert!(holds("Dual MIT/GPL"), "the kernel asks for the licence");
    }
}
