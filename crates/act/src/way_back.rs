//! The way back.

use crate::installed::Installed;
use crate::ownership::{leave_strangers, leave_to_others};
use crate::steps::{Machine, Now, steps};
use crate::{ActError, Before, Goal, Log, Refusal, journal};

/// How often the way back is tried step by step, each time from what is there then.
const TRIES: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The steps, in words; none where all was as wanted.
    pub steps: Vec<String>,
    pub said: Vec<String>,
}

pub(crate) fn look(machine: &mut dyn Machine, goal: &Goal) -> Result<Now, ActError> {
    machine.read(goal).map_err(|Refusal(why)| ActError::Unread(why))
}

/// Leads back to what was before a change, and says which steps that took. A second time does nothing.
pub fn roll_back(machine: &mut dyn Machine, mut log: Log) -> Result<Applied, ActError> {
    let mut before: Before = log.begun.before.clone();
    let now = look(machine, &Goal::from(&before))?;
    before.without_the_gone(&now);
    let said = leave_to_others(&log, &mut before, &now);
    log.returning();
    lead_back(machine, log, before, Strangers::Stay, said)
}

/// What becomes of what somebody else puts there while all is led back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strangers {
    /// It stays, and that is said.
    Stay,
    Go,
}

/// Leads to what is to be there when nothing of ours is, or nothing of a change. `before` knows what may be there of ours.
pub(crate) fn lead_back(
    machine: &mut dyn Machine,
    log: Log,
    mut before: Before,
    strangers: Strangers,
    mut said: Vec<String>,
) -> Result<Applied, ActError> {
    let (mut done, mut refused) = (Vec::new(), None);
    let mut look_again = |machine: &mut dyn Machine| {
        let now = look(machine, &Goal::from(&before))?;
        if strangers == Strangers::Stay {
            // Each look may be the first that sees them.
            said.extend(leave_strangers(&mut before, &now));
        }
        let goal = Goal::from(&before);
        let todo = steps(&goal, &now);
        Ok::<_, ActError>((goal, now, todo))
    };
    for round in 0..=TRIES {
        let (goal, now, todo) = look_again(machine)?;
        if todo.is_empty() {
            over(log, Installed::of(&goal, &now))?;
            return Ok(Applied { steps: done, said });
        }
        // Mostly none is refused; thousands are taken faster all at once.
        if round == 0 {
            let taken =
                machine.carry_all_out(&todo).map_or_else(|(number, _)| number, |()| todo.len());
            done.extend(todo.iter().take(taken).map(ToString::to_string));
            continue;
        }
        for step in todo {
            match machine.carry_out(&step) {
                Ok(()) => done.push(step.to_string()),
                // What depends on it is refused as well; the next look tells what is left.
                Err(Refusal(why)) => refused = Some(format!("{step}: {why}")),
            }
        }
    }
    let (goal, now, todo) = look_again(machine)?;
    if todo.is_empty() {
        over(log, Installed::of(&goal, &now))?;
        return Ok(Applied { steps: done, said });
    }
    Err(ActError::System(refused.unwrap_or_else(|| "what was brought back did not stay".into())))
}

/// All is as it was before the change of a log.
fn over(log: Log, here: Vec<Installed>) -> Result<(), ActError> {
    journal::undone(&log);
    log.undone(here)
}
