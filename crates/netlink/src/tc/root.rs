//! The root queue whose place a change takes: it is to be the one that whoever planned the change has seen.
//!
//! ```text
//!   seen: the device's default ─► NLM_F_CREATE with NLM_F_EXCL: the kernel refuses it where somebody has put a queue there since
//!   seen: a queue              ─► looked at once more right before; taken off only by its name and kind
//! ```

use quell_tc::observed::{ObservedQdisc, Snapshot};
use quell_tc::{Change, Handle, Place};

use super::queue_in;
use crate::core::{NetlinkError, Socket};

/// The root queue of an interface as it was seen: its name and kind, or none where it is the device's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Root(Option<(Handle, String)>);

impl Root {
    pub fn of(snapshot: &Snapshot) -> Self {
        Root::among(&snapshot.qdiscs)
    }

    fn among(queues: &[ObservedQdisc]) -> Self {
        let root = queues.iter().find(|queue| queue.parent == Handle::ROOT && queue.is_made());
        Root(root.map(|queue| (queue.handle, queue.kind.clone())))
    }

    pub(super) fn is_default(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn changed(&mut self, change: &Change) {
        let Place::Qdisc { parent: Handle::ROOT, handle } = change.place() else { return };
        match change {
            Change::Make(thing) => self.0 = Some((handle, thing.kind().to_owned())),
            Change::Remove { .. } => self.0 = None,
            Change::Alter(_) => {}
        }
    }

    /// Sees to it that a new root queue takes the place of this one, and of none that somebody else has put there since.
    pub(super) fn is_there(
        &self,
        socket: &mut Socket,
        ifindex: u32,
        change: &Change,
    ) -> Result<(), NetlinkError> {
        let is_root = matches!(change.place(), Place::Qdisc { parent: Handle::ROOT, .. });
        if !is_root || !matches!(change, Change::Make(_)) || self.is_default() {
            return Ok(());
        }
        let here = queue_in(socket, ifindex, Handle::ROOT)?;
        if Root::among(here.as_slice()) == *self {
            return Ok(());
        }
        let why = "somebody else has just put another queue there, which stays";
        Err(NetlinkError::invalid(change.to_string(), why))
    }
}
