//! Round-trip times of the TCP flows that carry much through a device: the program of `bpf/round_trips.c`, loaded and attached.

use crate::error::ClassifyError;
use crate::program::{TestRun, Way, may_use_bpf, refused, run};
use crate::tables::table;
use aya::maps::{MapData, RingBuf};
use aya::programs::{SchedClassifier, SocketFilter};
use aya::{Ebpf, EbpfLoader};
use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The program, as clang made it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/round_trips.o"));

/// One round trip of a flow that carries much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Whether its data come; else they leave.
    pub comes: bool,
    /// When it began and ended, of the monotonic clock.
    pub sent_ns: u64,
    pub seen_ns: u64,
    /// The least one of this flow in the last 10 to 20 s.
    pub least_ns: u64,
}

/// The program in the kernel, and the socket whose filter it is; both end with this value.
pub struct RoundTrips {
    ebpf: Ebpf,
    socket: Option<OwnedFd>,
    ring: RingBuf<MapData>,
}

impl RoundTrips {
    /// Loads the program, which sees no packet yet.
    pub fn load() -> Result<Self, ClassifyError> {
        may_use_bpf().map_err(ClassifyError::of_first_call)?;
        let mut ebpf = EbpfLoader::new().btf(None).load(OBJECT).map_err(refused)?;
        let ring = ebpf.take_map("TOLD").expect("the object has this table");
        let ring = RingBuf::try_from(ring).map_err(|e| table("read round trips", &e))?;
        Ok(RoundTrips { ebpf, socket: None, ring })
    }

    /// Shows it the packets of a device from now on.
    pub fn watch(&mut self, index: u32) -> Result<(), ClassifyError> {
        let program = self.ebpf.program_mut("quell_trips").expect("the object has this program");
        let program: &mut SocketFilter = program.try_into().expect("it is a socket's filter");
        program.load().map_err(|error| refused(error.into()))?;
        let failed = |answer: Error| ClassifyError::Table {
            tried: "look at a device's packets".into(),
            answer: answer.to_string(),
        };
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes three numbers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            return Err(failed(Error::last_os_error()));
        }
        // SAFETY: the kernel has just opened it for us and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // It has no protocol yet, and so no packet gets into it before the filter is there.
        program.attach(&socket).map_err(|error| refused(error.into()))?;
        // SAFETY: all zeros is a valid address.
        let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        at.sll_ifindex = index as i32;
        let size = size_of_val(&at) as u32;
        // SAFETY: the address lives through the call, and the size is its own.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const at).cast(), size) } != 0 {
            return Err(failed(Error::last_os_error()));
        }
        self.socket = Some(socket);
        Ok(())
    }

    /// The next one; none where all were told.
    pub fn next_trip(&mut self) -> Option<RoundTrip> {
        let item = self.ring.next()?;
        let (words, _) = item.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let [way, sent_ns, seen_ns, least_ns] = words[..] else {
            return None;
        };
        Some(RoundTrip { comes: way == 1, sent_ns, seen_ns, least_ns })
    }

    /// Runs it on a frame that leaves or comes, `repeat` times.
    pub fn test_run(
        &mut self,
        frame: &[u8],
        leaves: bool,
        repeat: u32,
    ) -> Result<TestRun, ClassifyError> {
        let name = if leaves { "quell_leaves" } else { "quell_comes" };
        let program = self.ebpf.program_mut(name).expect("the object has this program");
        let program: &mut SchedClassifier = program.try_into().expect("it is a classifier");
        if program.fd().is_err() {
            program.load().map_err(|error| refused(error.into()))?;
        }
        run(program, frame, 0, Way::default(), repeat)
    }
}

/// Readable, for poll(2), when there is one.
impl AsFd for RoundTrips {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
