//! Any bytes as what ping and mtr print, and as a text in which any program's file stands: streams that a run can hold or a refusal, in memory that
//! is bounded.

#![no_main]

#[path = "../../crates/foreign/tests/all/every/mod.rs"]
mod foreign;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| foreign::holds(bytes, None));
