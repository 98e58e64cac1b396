//! Run folders: written, followed, killed, torn, on full disks, damaged; and docs/data.md.

#[path = "all/bad_days.rs"]
mod bad_days;
#[path = "all/common.rs"]
mod common;
#[path = "all/documented.rs"]
mod documented;
#[path = "all/follow.rs"]
mod follow;
#[path = "all/full_disk.rs"]
mod full_disk;
#[path = "all/gather.rs"]
mod gather;
#[path = "all/killed.rs"]
mod killed;
#[path = "all/long_run.rs"]
mod long_run;
#[path = "all/odd_files.rs"]
mod odd_files;
#[path = "all/round_trip.rs"]
mod round_trip;
#[path = "all/torn_frames.rs"]
mod torn_frames;
