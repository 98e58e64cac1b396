//! Answers that no kernel gives: each decoder must end with a value or a typed error, never with a
//! panic. Tests and fuzzing have it, nobody else.

use crate::address::Address;
use crate::core::Reply;
use crate::link::Link;
use crate::offload::Features;
use crate::route::Route;
use crate::sock_diag::DiagSocket;
use crate::wireguard::Status;

/// Takes the same bytes for every answer that the kernel gives.
pub fn decode_as_everything(payload: Vec<u8>) {
    crate::tc::decode_as_everything(&payload);
    let reply = Reply { kind: 0, flags: 0, payload };
    let _ = Link::parse(&reply);
    let _ = crate::drops::DroppedPacket::parse(&reply);
    let _ = Address::parse(&reply);
    let _ = Route::parse(&reply);
    let _ = crate::flowtable::parse(&reply);
    let _ = Features::parse(&reply);
    crate::ethtool::decode_as_everything(&reply);
    let _ = DiagSocket::parse(&reply);
    let _ = Status::default().add(&reply);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::AttrWriter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn noise(payload in prop::collection::vec(any::<u8>(), 0..400)) {
            decode_as_everything(payload);
        }

        /// Well-formed attributes of plausible kinds with payloads of the wrong sort, behind a header
        /// of each size.
        #[test]
        fn right_kinds_with_wrong_contents(
            header in prop::sample::select(vec![4usize, 8, 12, 16, 72]),
            fill in any::<u8>(),
            attrs in prop::collection::vec((0u16..64, prop::collection::vec(any::<u8>(), 0..80)), 0..12),
        ) {
            let mut writer = AttrWriter::new();
            writer.raw(&vec![fill; header]);
            for (kind, payload) in &attrs {
                writer.nested(*kind, |inner| {
                    inner.bytes(kind % 10, payload);
                });
                writer.bytes(*kind, payload);
            }
            decode_as_everything(writer.as_bytes().to_vec());
        }
    }

    #[test]
    fn an_interface_without_a_name_is_no_interface() {
        let reply = Reply { kind: 16, flags: 0, payload: vec![0; 16] };
        let error = Link::parse(&reply).unwrap_err();
        assert_eq!(error.to_string(), "the answer has no interface name");
    }

    #[test]
    fn statistics_that_are_cut_short_are_an_error_not_zeros() {
        let mut writer = AttrWriter::new();
        writer.raw(&[0; 16]).str(3, "a0").bytes(23, &[0; 100]);
        let reply = Reply { kind: 16, flags: 0, payload: writer.as_bytes().to_vec() };
        let error = Link::parse(&reply).unwrap_err();
        assert_eq!(error.to_string(), "interface statistics is cut short: 100 of 128 bytes");
    }
}
