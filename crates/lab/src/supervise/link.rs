//! The way to an agent and back, whatever it is: a pipe here, a shell or a bus to another machine.

use quell_model::frame::FrameError;
use quell_model::{Command, Said};

/// What came over a link since it was last attended to.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Messages, in the order in which they came.
    pub said: Vec<Said>,
    /// Why nothing will come any more, once that is so.
    pub over: Option<String>,
}

/// A link to one agent. Nothing here waits: who waits for whom is the caller's.
pub(super) trait Link {
    /// Sends a command, now or as soon as there is room. That the agent is gone is told by [`Link::attend`].
    fn send(&mut self, command: &Command) -> Result<(), FrameError>;
    /// No command follows.
    fn finish(&mut self);
    /// Passes on what waits to be sent, and takes what came.
    fn attend(&mut self) -> Came;
    /// The agent's monotonic clock less ours, in nanoseconds.
    fn offset_ns(&self) -> i64;
}
