//! The way back.

use crate::steps::{Machine, Now, steps, strangers};
use crate::{ActError, Before, Goal, Log, Refusal};

/// How often the way back is tried, each time from what is there then.
const TRIES: usize = 3;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The steps, in words; none where all was as wanted.
    pub steps: Vec<String>,
    /// What there is to say beside.
    pub said: Vec<String>,
}

/// Reads all that a goal names.
pub(crate) fn look(machine: &mut dyn Machine, goal: &Goal) -> Result<Now, ActError> {
    machine.read(goal).map_err(|Refusal(why)| ActError::Unread(why))
}

/// Leads back to what was before a change, and says which steps that took. A second time does nothing.
///
/// # Errors
/// The kernel refused a step of the way; the log stays, so that it can be tried again.
pub fn roll_back(machine: &mut dyn Machine, log: Log) -> Result<Applied, ActError> {
    let (mut done, mut said, mut refused) = (Vec::new(), Vec::new(), None);
    let mut before: Before = log.begun.before.clone();
    for _ in 0..TRIES {
        let now = look(machine, &Goal::from(&before))?;
        said.extend(strangers(&mut before, &now));
        let todo = steps(&Goal::from(&before), &now);
        if todo.is_empty() {
            log.undone()?;
            return Ok(Applied { steps: done, said });
        }
        for step in todo {
            match machine.carry_out(&step) {
                Ok(()) => done.push(step.to_string()),
                // What depends on it is refused as well; the next look tells what is left.
                Err(Refusal(why)) => refused = Some(format!("{step}: {why}")),
            }
        }
    }
    let now = look(machine, &Goal::from(&before))?;
    if steps(&Goal::from(&before), &now).is_empty() {
        log.undone()?;
        return Ok(Applied { steps: done, said });
    }
    Err(ActError::System(refused.unwrap_or_else(|| "what was brought back did not stay".into())))
}
