//! Files of other programs, real ones and impossible ones.

#[path = "all/every/mod.rs"]
mod every;
#[path = "all/impossible/mod.rs"]
mod impossible;
#[path = "all/pingexp.rs"]
mod pingexp;
#[path = "all/posted.rs"]
mod posted;
#[path = "all/printed.rs"]
mod printed;
#[path = "all/read.rs"]
mod read;
