//! `quell shape`: a policy on a real interface, from what a person wants of a line to what is in force, proven and kept.
//!
//! ```text
//!   LinePolicy ─ line_plan ─► LinePlan: a Goal of act, a recipe ─ apply ─► undo log ─► status, rates, prove, persist, off
//!      choice: which policy, how hosts are told apart           └─ subscribers: reconcile (tables, classes), daemon (who comes and goes)
//!      follow: the rates of a line that varies
//!      kernel, interface: what is there                        lab, recipe: the same without touching this machine
//! ```

#![allow(missing_docs, reason = "the library of one command")]

mod apply;
pub mod change;
mod choice;
mod class_report;
pub mod daemon;
pub mod follow;
mod interface;
mod kernel;
pub mod lab;
mod line_plan;
pub mod metrics;
pub mod persist;
mod process_lock;
pub mod prove;
pub mod rates;
pub mod recipe;
mod reconcile;
pub mod status;
mod subscriber_classes;
mod undo_logs;

pub use apply::{ApplyOptions, PlanReport, apply, command_of, preview, reconcile_again};
pub use choice::choose_with_cake;
pub use class_report::{HostSlots, LineClass, classes_by_name, hosts_by_class};
pub use interface::{ifb_of, mac_of};
pub use line_plan::{
    LinePlan, lacking_here, plan_again, plan_line, policy_of_file, policy_of_log, text_of,
    traits_of, trees, with_list,
};
pub use quell_act::{CommandError, DEFAULT_FOLDER};
pub use undo_logs::{UndoLogs, may_change, open, open_to_change};
