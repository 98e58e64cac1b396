//! One step of a plan as one netlink message.

use std::os::fd::{AsRawFd, OwnedFd};

use quell_tc::{Bpf, BpfProgram, Filter, FilterKind, Handle, Plan, Step};

use super::{Names, encode_filter, options};
use crate::core::{Message, NetlinkError, flags};

/// Which chain a filter is in; libc has it for glibc alone.
pub(super) const TCA_CHAIN: u16 = 11;

/// `struct tcmsg`: family, interface, handle, parent, and for filters priority and protocol.
pub(super) fn header(ifindex: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes[16..20].copy_from_slice(&info.to_ne_bytes());
    bytes
}

/// A message, and the BPF program that must stay open until the kernel has it.
pub(super) struct Prepared {
    pub message: Message,
    _program: Option<OwnedFd>,
}

impl From<Message> for Prepared {
    fn from(message: Message) -> Self {
        Prepared { message, _program: None }
    }
}

/// Messages for all steps of a plan, in order, as `tc` would send them for
/// [`quell_tc::commands`]: the proof is in `tests/tc_goldens.rs`.
///
/// # Errors
/// A device that a filter redirects to is not there, or a pinned program is not; and RED sums that don't add up.
pub fn messages(
    plan: &Plan,
    ifindex: u32,
    names: &dyn Names,
) -> Result<Vec<Message>, NetlinkError> {
    let prepared = |step| prepare(step, ifindex, names, How::Create);
    plan.steps.iter().map(|step| prepared(step).map(|ready| ready.message)).collect()
}

/// Whether things are made or changed where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Create,
    /// Where nobody has put a queue: the kernel refuses it else. Without `NLM_F_EXCL` it would change the options of one that has the same name
    /// and kind (`tc_modify_qdisc`, net/sched/sch_api.c).
    CreateAlone,
    Change,
}

pub(super) fn prepare(
    step: &Step,
    ifindex: u32,
    names: &dyn Names,
    how: How,
) -> Result<Prepared, NetlinkError> {
    let device = names.name_of(ifindex).unwrap_or_else(|| format!("interface {ifindex}"));
    let verb = if how == How::Change { "change" } else { "make" };
    let tried = format!("{verb} {step} on {device}");
    let wrong = |why: String| NetlinkError::invalid(&tried, why);
    let replace = match how {
        How::Create => flags::CREATE | flags::REPLACE,
        How::CreateAlone => flags::CREATE | flags::EXCL,
        How::Change => 0,
    };
    let mut program = None;
    let message = match step {
        Step::Qdisc { parent, handle, qdisc } => {
            let head = header(ifindex, handle.to_u32(), parent.to_u32(), 0);
            let mut message = Message::with_header(&tried, libc::RTM_NEWQDISC, replace, &head);
            message.attrs().str(libc::TCA_KIND, qdisc.kind());
            options::write(message.attrs(), qdisc.encode().map_err(wrong)?);
            message
        }
        Step::Ingress { clsact } => {
            let handle = Handle::INGRESS_QDISC.to_u32();
            let head = header(ifindex, handle, Handle::INGRESS.to_u32(), 0);
            let mut message = Message::with_header(&tried, libc::RTM_NEWQDISC, replace, &head);
            message.attrs().str(libc::TCA_KIND, if *clsact { "clsact" } else { "ingress" });
            message
        }
        Step::Class { parent, id, kind } => {
            let head = header(ifindex, id.to_u32(), parent.to_u32(), 0);
            let mut message =
                Message::with_header(&tried, libc::RTM_NEWTCLASS, replace & flags::CREATE, &head);
            message.attrs().str(libc::TCA_KIND, kind.name());
            options::write(message.attrs(), kind.encode().map_err(wrong)?);
            message
        }
        Step::Filter { parent, filter } => {
            let info =
                (u32::from(filter.prio.unwrap_or(0)) << 16) | u32::from(filter.protocol.0.to_be());
            let head = header(ifindex, filter.handle.unwrap_or(0), parent.to_u32(), info);
            let create = match how {
                How::Create | How::CreateAlone => flags::CREATE | flags::EXCL,
                How::Change => 0,
            };
            let mut message = Message::with_header(&tried, libc::RTM_NEWTFILTER, create, &head);
            message.attrs().str(libc::TCA_KIND, filter.kind.kernel_name());
            let filter = match &filter.kind {
                FilterKind::Bpf(bpf) => match &bpf.program {
                    BpfProgram::Pinned(path) => {
                        let fd = super::pinned::open(path).map_err(wrong)?;
                        let name = format!("{}:[*fsobj]", path.display());
                        let loaded = BpfProgram::Loaded { fd: fd.as_raw_fd(), name };
                        let direct_action = bpf.direct_action;
                        program = Some(fd);
                        Filter {
                            kind: Bpf { program: loaded, direct_action }.into(),
                            ..filter.clone()
                        }
                    }
                    _ => filter.clone(),
                },
                _ => filter.clone(),
            };
            encode_filter::options(message.attrs(), &filter, names).map_err(wrong)?;
            message
        }
    };
    Ok(Prepared { message, _program: program })
}

/// What of a step can be changed where it is.
pub(super) fn changeable(mut step: Step) -> Option<Step> {
    let Step::Qdisc { qdisc, .. } = &mut step else {
        return matches!(step, Step::Class { .. } | Step::Filter { .. }).then_some(step);
    };
    *qdisc = qdisc.changeable()?;
    (!qdisc.fields().is_empty()).then_some(step)
}
