//! How much must be under way, and which buffers let it be.
//!
//! ```text
//!   sender's buffer ──► segments under way ──► receiver's buffer
//!   × its fraction       rate × RTT              × its fraction = window
//! ```

use crate::facts::{HostFacts, Release};
use quell_units::{Rate, Span};
use serde::Serialize;

/// From here on each connection measures the fraction by itself ("tcp: get rid of sysctl_tcp_adv_win_scale"); it begins at a half
/// (`TCP_DEFAULT_SCALING_RATIO`, include/net/tcp.h).
pub const MEASURED: Release = Release::new(6, 6);

/// The largest window: 65535 shifted by 14 (RFC 7323, section 2.3).
const LARGEST_WINDOW: u64 = 65_535 << 14;

/// Bytes of bookkeeping of a segment that waits to be acknowledged: a kilobyte for headers, and the descriptor (`tcp_stream_alloc_skb`).
const BOOKKEEPING: u64 = 1_280;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    pub rate: Rate,
    pub rtt: Span,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Bytes that each packet costs on the line beyond itself.
    pub overhead: u32,
}

/// What one transfer reaches: min(rate, window ÷ RTT).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reach {
    /// Payload, in bits a second.
    pub bits_per_second: f64,
    pub limited_by: &'static str,
}

impl Path {
    /// Bytes of payload in a segment: without headers of IPv4 and TCP and its timestamps.
    fn segment(&self) -> u64 {
        u64::from(self.mtu).saturating_sub(52).max(1)
    }

    /// Bandwidth × delay, in bytes.
    pub fn product(&self) -> u64 {
        self.rate.bytes_in(self.rtt).get()
    }

    /// Bytes of receive buffer from which the window is at least the product, and at least twice the product.
    pub fn receive_buffer(&self, host: &HostFacts) -> u64 {
        let product = self.product();
        let (of, share) = receive_fraction(host);
        (product.saturating_mul(of) / share).max(product.saturating_mul(2))
    }

    /// Bytes of send buffer from which the product can be under way, and at least twice the product.
    pub fn send_buffer(&self) -> u64 {
        let product = self.product();
        let (of, share) = self.send_fraction();
        (product.saturating_mul(of) / share).max(product.saturating_mul(2))
    }

    /// The share of a send buffer that is under way all the time, as `share` of `of`: its writer is woken when a third is free
    /// (`sk_stream_is_writeable`), and of what is left a segment has only its payload. Where the interface cuts segments itself (TSO, GSO)
    /// more of it is payload; the least counts.
    fn send_fraction(&self) -> (u64, u64) {
        (3 * (self.segment() + BOOKKEEPING), 2 * self.segment())
    }

    /// What a transfer reaches with the largest buffers of its two ends, in bytes, the receiver's of this `host`'s kind.
    pub fn reach(&self, receive: u64, send: u64, host: &HostFacts) -> Reach {
        let (of, share) = receive_fraction(host);
        let window = (receive.saturating_mul(share) / of).min(LARGEST_WINDOW);
        let (of, share) = self.send_fraction();
        let sent = send.saturating_mul(share) / of;
        let seconds = self.rtt.as_secs_f64();
        let on_line = f64::from(self.mtu) + f64::from(self.overhead);
        let line = self.rate.bps() as f64 * self.segment() as f64 / on_line;
        let by = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { f64::MAX };
        let all = [
            (line, "the line"),
            (by(window), "the receiver's buffer"),
            (by(sent), "the sender's buffer"),
        ];
        let (bits_per_second, limited_by) =
            all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((line, "the line"));
        Reach { bits_per_second, limited_by }
    }
}

/// The share of a receive buffer that is offered as window, as `share` of `of` (`tcp_win_from_space`).
fn receive_fraction(host: &HostFacts) -> (u64, u64) {
    let scale: i32 =
        host.value("net/ipv4/tcp_adv_win_scale").and_then(|v| v.trim().parse().ok()).unwrap_or(1);
    match scale.clamp(-31, 31) {
        _ if host.release >= MEASURED => (2, 1),
        scale if scale > 0 => (1 << scale, (1 << scale) - 1),
        scale => (1 << -scale, 1),
    }
}

pub fn fraction_words(host: &HostFacts) -> String {
    let (of, share) = receive_fraction(host);
    match host.release >= MEASURED {
        true => "a connection begins with half of its buffer as window".to_owned(),
        false => format!("{share}/{of} of the buffer is offered as window (tcp_adv_win_scale)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::host;

    fn path(rate: &str, rtt: &str, mtu: u32) -> Path {
        Path {
            rate: rate.parse().expect("a rate"),
            rtt: rtt.parse().expect("a time"),
            mtu,
            overhead: 14,
        }
    }

    #[test]
    fn buffers_follow_from_the_product_and_the_kernels_fraction() {
        let path = path("1Gbit", "100ms", 1500);
        assert_eq!(path.product(), 12_500_000);
        let mut host = host(Release::new(6, 1), 250_000);
        assert_eq!(path.receive_buffer(&host), 25_000_000);
        // A third of the buffer and the bookkeeping of each segment: 2.83 times.
        assert_eq!(path.send_buffer(), 35_324_585);
        for (scale, wanted) in [("2", 25_000_000), ("-2", 50_000_000), ("0", 25_000_000)] {
            host.now.insert("net/ipv4/tcp_adv_win_scale".into(), scale.into());
            assert_eq!(path.receive_buffer(&host), wanted, "{scale}");
        }
        // From 6.6 on that setting is dead.
        host.release = MEASURED;
        host.now.insert("net/ipv4/tcp_adv_win_scale".into(), "-2".into());
        assert_eq!(path.receive_buffer(&host), 25_000_000);
    }

    #[test]
    fn what_the_lab_measured_was_predicted() {
        // Sender's buffer, packets and Mbit/s over 1 Gbit/s and 100 ms in the lab, whose receiver had 6 MiB; each is what `quell flow` told.
        let lab = host(Release::new(6, 1), 250_000);
        for (send, mtu, measured) in
            [(2, 1500, 59.7), (4, 1500, 119.0), (2, 9000, 100.0), (4, 9000, 198.0)]
        {
            let reach = path("1Gbit", "100ms", mtu).reach(6 << 20, send << 20, &lab);
            assert_eq!(reach.limited_by, "the sender's buffer");
            let off = reach.bits_per_second / 1e6 / measured - 1.0;
            assert!(off.abs() < 0.03, "{send} MiB, MTU {mtu}: {reach:?}, measured {measured}");
        }
    }

    #[test]
    fn the_least_of_the_three_holds_a_transfer_up() {
        let lab = host(Release::new(6, 1), 250_000);
        let path = path("1Gbit", "100ms", 1500);
        let limit = |receive, send| path.reach(receive, send, &lab).limited_by;
        assert_eq!(limit(1 << 20, 64 << 20), "the receiver's buffer");
        assert_eq!(limit(64 << 20, 1 << 20), "the sender's buffer");
        assert_eq!(limit(64 << 20, 64 << 20), "the line");
        let full = path.reach(path.receive_buffer(&lab), path.send_buffer(), &lab);
        assert_eq!(full.limited_by, "the line");
        assert!((full.bits_per_second / 956.4e6 - 1.0).abs() < 1e-3, "{full:?}");
    }
}
