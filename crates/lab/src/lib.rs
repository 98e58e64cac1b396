//! The lab: networks that can be broken without harm.
//!
//! ```text
//!   topology (what a person writes) ──check──► network (addresses, paths)
//!                                                 │ build
//!   cell plan ──supervise──► namespaces, links, queues, agents ──► journal
//!                  ▲
//!                  ├── on the running kernel: namespaces, real time
//!                  └── in a guest kernel: virtual time
//! ```

pub mod build;
pub mod cell;
pub mod exec;
pub mod facts;
pub mod guest;
pub mod kernel_lacks;
pub mod line;
pub mod shared_line;
pub mod supervise;
pub mod topology;

pub use quell_kernel as kernel;
