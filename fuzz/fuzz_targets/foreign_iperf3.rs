//! Any bytes as what iperf3 printed with -J, whole or line by line: streams that a run can hold or a refusal, in memory that is bounded.

#![no_main]

#[path = "../../crates/foreign/tests/all/every/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;
use quell_foreign::Tool;

fuzz_target!(|bytes: &[u8]| foreign::holds(bytes, Some(Tool::Iperf3)));
