//! Run folders: what one execution of an experiment left behind, safe against crashes and full disks.
//!
//! ```text
//!   runs/20261121T101503-home-link/
//!     manifest.json       how it came about: experiment, seed, kernel, cells with their ends, sysctls, queues
//!     journal/            while it runs: one file of frames a cell, appended by whoever carries the cell out
//!        bulk.ping.0.events
//!     samples.parquet     probe packets               ┐
//!     flows.parquet       bytes and TCP state of flows│ once finished; the same events give
//!     queues.parquet      backlog and drops of queues │ the same bytes
//!     outputs.jsonl       what commands printed       │
//!     facts.jsonl         how the network was set up  ┘
//! ```
//!
//! A run goes through three steps, and each leaves a folder that [`Run::open`] reads:
//!
//! 1. [`RunWriter::create`] writes the manifest: every cell is planned.
//! 2. Cells append events to their journals. A killed program leaves a *partial* run, readable up to the last whole frame.
//! 3. [`RunWriter::finish`] turns journals into tables, each file written beside its place, synced and renamed; then the manifest,
//!    which names the tables with size and checksum; then the journals go. Before the manifest is in place the journals count,
//!    after it the tables do, so that there is no moment at which a run can't be read.
//!
//! [`follow`] reads a run on its way through them, as it grows.

mod cell_data;
mod columns;
mod csv;
mod error;
pub mod files;
mod follow;
mod gather;
mod journal;
mod keep;
mod layout;
mod lines;
mod machine;
mod run;
mod stored;
pub mod table;
mod tables;
mod writer;

pub use cell_data::{CellData, EchoSeries, FlowSeries, OutputLine, QueuePoint, QueueSeries};
pub use columns::{ColumnMeaning, Table, column};
pub use csv::csv;
pub use error::StoreError;
pub use files::{append_output, write_output};
pub use follow::{Follower, Standing, follow};
pub use gather::{GatherError, Gathered, PartFolder, complete_part, gather};
pub use journal::{JournalFile, JournalReader, JournalWriter, WholeFrames};
pub use keep::{About, End, Keep, Origin, command_line};
pub use machine::machine;
pub use run::{Run, RunState, RunSummary, list, locate, manifest, namesakes};
pub use tables::{OfPacket, packet_columns, packets};
pub use writer::RunWriter;
