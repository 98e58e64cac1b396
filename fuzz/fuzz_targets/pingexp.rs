//! Any bytes as a pickle of ping-exp: values or a refusal, nothing executed, no memory that the bytes do not justify.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match quell_pingexp::read(bytes) {
        Ok(found) => {
            let replies: usize = found.experiments.iter().map(|e| e.replies.len()).sum();
            assert!(replies <= quell_pingexp::MOST_PACKETS);
            for reply in found.experiments.iter().flat_map(|e| &e.replies) {
                assert!(reply.rtt_ms.is_finite() && reply.rtt_ms >= 0.0);
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
        }
    }
});
