//! The program that finds a packet's subscriber, loaded.

use super::tables::{RosterTables, program_of};
use crate::error::ClassifyError;
use crate::program::{TestRun, Way, may_use_bpf, refused, run};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};
use quell_tc::Side;
use std::os::fd::{AsFd, BorrowedFd};

/// The programs, as clang made them.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/roster.o"));

/// The program of one side and its tables, in the kernel. It ends with this value, unless a filter holds it.
pub struct RosterProgram {
    side: Side,
    ebpf: Ebpf,
    tables: RosterTables,
}

impl RosterProgram {
    /// Loads the program of a side, with nobody in its tables.
    pub fn load(side: Side) -> Result<Self, ClassifyError> {
        may_use_bpf().map_err(ClassifyError::of_first_call)?;
        // The programs read packets and nothing of the kernel, whose types would take the loader longest to read.
        let mut ebpf = EbpfLoader::new().btf(None).load(OBJECT).map_err(refused)?;
        let program: &mut SchedClassifier = ebpf
            .program_mut(program_of(side))
            .expect("the object has this program")
            .try_into()
            .expect("it is a classifier");
        program.load().map_err(|error| refused(error.into()))?;
        let tables = RosterTables::of_object(&mut ebpf)?;
        Ok(RosterProgram { side, ebpf, tables })
    }

    pub fn tables(&mut self) -> &mut RosterTables {
        &mut self.tables
    }

    fn program(&self) -> &SchedClassifier {
        let program =
            self.ebpf.program(program_of(self.side)).expect("the object has this program");
        program.try_into().expect("it is a classifier")
    }

    /// The program's descriptor, as long as this value lives.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.program().fd().expect("it is loaded").as_fd()
    }

    /// The kernel's number for it.
    pub fn id(&self) -> Result<u32, ClassifyError> {
        let info = self.program().info().map_err(|error| refused(error.into()))?;
        Ok(info.id())
    }

    /// Runs it on a frame, `repeat` times.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> Result<TestRun, ClassifyError> {
        run(self.program(), frame, 0, Way::default(), repeat)
    }
}
