//! Hierarchies from what `tc` printed, and from what it never would.

#[path = "all/hostile.rs"]
mod hostile;
#[path = "all/live.rs"]
mod live;
#[path = "all/outputs.rs"]
mod outputs;
#[path = "all/posted.rs"]
mod posted;
