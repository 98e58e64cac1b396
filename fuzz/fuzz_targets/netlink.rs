//! Any bytes as an answer of the kernel: a value or a typed error, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| quell_netlink::hostile_answers::decode_as_everything(bytes.to_vec()));
