//! Queues of ours whose undo log was lost, as when somebody emptied the folder.
//!
//! ```text
//!   an IFB with our address, and no log ─┬─ all is as it is wanted now: a new log, whose way back is to take all of it off
//!                                        └─ else: shown as somebody else's, with a word on what they are
//! ```

use crate::made::Made;
use crate::steps::Now;
use crate::{ActError, Annex, Before, Begun, Goal, Log};
use std::path::Path;

/// Whether an IFB of ours is there, which nobody else makes: it has our address.
pub(crate) fn is_known(goal: &Goal, now: &Now) -> bool {
    goal.links.iter().any(|link| link.there && now.ours(link).is_some())
}

/// What there is to say of that where it is not as it is wanted now.
pub(crate) fn hint(device: &str) -> String {
    format!(
        "  and an IFB as Quell makes it for {device}: the log of who made these was lost. Applied with the options of then, they are Quell's \
         again"
    )
}

/// What was there before ours, of which nobody knows any more.
pub(crate) fn without_things(mut before: Before) -> Before {
    before.devices.iter_mut().for_each(|device| device.things.clear());
    before.links.iter_mut().for_each(|link| link.there = false);
    before.host_tables.iter_mut().for_each(|table| table.there = false);
    before
}

/// Writes a log of what is there as it is wanted. What there is to say of that.
pub(crate) fn found(
    folder: &Path,
    begun: Begun,
    annex: Option<&Annex>,
    made: Vec<Made>,
    tool: &str,
) -> Result<String, ActError> {
    let log = Log::new(folder, begun, None);
    if let Some(annex) = annex {
        annex.write(log.path())?;
    }
    log.found(made)?;
    Ok(format!(
        "no log said whose these queues are: from now on they are Quell's, and `{tool} off` takes them off; what was there before them is not known"
    ))
}
