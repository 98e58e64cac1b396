//! How a line becomes queues: one direction of a link, emulated on the device where its packets leave.
//!
//! ```text
//!   packets ──► netem (delay, jitter, loss, reordering, duplication)
//!                └─► netem (marking)          only where both loss and marking are wanted
//!                     └─► tbf (rate)          a bucket of one packet: a packet that finds the link idle is not delayed
//!                          └─► buffer: pfifo, bfifo or a queue of the user's ──► wire
//! ```
//!
//! The delay comes before the rate: netem hands packets on to what is inside it when their time has come. The sum of delays is
//! the same, and what waits for the link waits in the buffer alone. netem counts the buffer's packets into its own limit, so that
//! limit is out of reach.

use crate::topology::Line;
use quell_tc::qdisc::{Bfifo, Netem, Pfifo, Tbf};
use quell_tc::{Class, ClassKind, Handle, Qdisc, Queue, Tree};
use quell_units::{Buffer, Bytes, Span};

/// Packets that a buffer holds where none is named.
const USUAL_BUFFER: u32 = 100;

/// netem's limit: never reached, since it counts the packets of the buffer inside too.
const NEVER_REACHED: u32 = 1_000_000;

/// Bytes of an Ethernet header, which the kernel counts as part of a packet at this place.
const ETHERNET: u64 = 14;

/// Majors of the line's own qdiscs, high so that a user's handles stay free.
const DELAY: u16 = 0xf001;
const MARK: u16 = 0xf002;
const RATE: u16 = 0xf003;
const BUFFER: u16 = 0xf004;

/// The queues for a line; `user` replaces the buffer (or stands alone where the line has no rate). None where nothing is needed.
pub fn tree(line: &Line, mtu: u32, user: Option<&Tree>) -> Option<Tree> {
    let mut filters_in = Tree::default();
    let mut inner = None;
    if let Some(user) = user {
        filters_in.ingress = user.ingress.clone();
        filters_in.clsact = user.clsact.clone();
        inner = user.queue.clone();
    }
    if let Some(rate) = line.rate {
        let buffer = inner.take().unwrap_or_else(|| buffer(line));
        // One full frame. The kernel is told the bucket as a time in whole microseconds, cut: one more keeps the frame in.
        let frame = u64::from(mtu) + ETHERNET + u64::from(line.overhead.unwrap_or(0));
        let bucket = Bytes::new(frame + 1 + rate.bytes_in(Span::from_micros(1)).get());
        let tbf = Tbf {
            rate: Some(rate),
            burst: Some(bucket),
            // The kernel wants a limit for the FIFO that the buffer then replaces.
            limit: Some(Bytes::new(100 * (u64::from(mtu) + ETHERNET))),
            overhead: line.overhead.filter(|o| *o > 0),
            ..Tbf::default()
        };
        inner = Some(around(tbf, RATE, Some(buffer)));
    }
    let delays = line.delay.is_some() || line.jitter.is_some() || line.duplicate.is_some();
    let alone = line.mark.is_some() && line.loss.is_none();
    if line.mark.is_some() && !alone {
        let netem = Netem {
            limit: Some(NEVER_REACHED),
            loss: line.mark,
            ecn: Some(true),
            ..Netem::default()
        };
        inner = Some(around(netem, MARK, inner));
    }
    if delays || line.loss.is_some() || alone {
        let netem = Netem {
            limit: Some(NEVER_REACHED),
            delay: line.delay,
            jitter: line.jitter,
            loss: line.loss.or(line.mark),
            ecn: alone.then_some(true),
            duplicate: line.duplicate,
            reorder: line.reorder,
            ..Netem::default()
        };
        inner = Some(around(netem, DELAY, inner));
    }
    filters_in.queue = inner;
    (filters_in != Tree::default()).then_some(filters_in)
}

fn buffer(line: &Line) -> Queue {
    if let Some(queue) = &line.queue {
        return queue.clone();
    }
    let qdisc: Qdisc = match line.buffer.unwrap_or(Buffer::Packets(USUAL_BUFFER)) {
        Buffer::Packets(n) => Pfifo { limit: Some(n) }.into(),
        Buffer::Bytes(bytes) => Bfifo { limit: Some(bytes) }.into(),
    };
    Queue::from(qdisc).with_handle(Handle::qdisc(BUFFER))
}

fn around(outer: impl Into<Qdisc>, major: u16, inner: Option<Queue>) -> Queue {
    let outer = Queue::from(outer.into()).with_handle(Handle::qdisc(major));
    match inner {
        None => outer,
        Some(inner) => outer.with_class(Class {
            id: Some(Handle::class(major, 1)),
            kind: ClassKind::Band,
            queue: Some(Box::new(inner)),
            classes: Vec::new(),
            filters: Vec::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(line: &str, user: Option<&str>) -> Vec<String> {
        let line: Line = toml::from_str(line).expect("a line");
        let user: Option<Tree> = user.map(|u| toml::from_str(u).expect("a tree"));
        let tree = tree(&line, 1500, user.as_ref()).expect("something to do");
        quell_tc::commands(&tree.plan().expect("a plan that fits together"), "wan")
    }

    #[test]
    fn a_modem_is_a_delay_then_a_rate_then_a_buffer_in_its_own_unit() {
        let by_packets = commands("rate = '2.5Mbit'\ndelay = '10ms'\nbuffer = '100p'", None);
        assert_eq!(by_packets.len(), 3, "{by_packets:#?}");
        assert!(by_packets[0].contains("root handle f001: netem limit 1000000 delay 10ms"));
        assert!(by_packets[1].contains("parent f001:1 handle f003: tbf rate 2.5Mbit burst 1515"));
        assert!(by_packets[2].contains("parent f003:1 handle f004: pfifo limit 100"));
        let by_bytes = commands("rate = '2.5Mbit'\nbuffer = '256kB'", None);
        assert!(by_bytes[1].contains("bfifo limit 256"), "{by_bytes:#?}");
    }

    #[test]
    fn a_line_without_limits_needs_no_queue() {
        assert_eq!(tree(&Line::default(), 1500, None), None);
    }

    #[test]
    fn loss_and_marking_together_take_two_netems() {
        let got = commands("loss = '1%'\nmark = '2%'", None);
        assert!(got[0].contains("loss") && !got[0].contains("ecn"), "{got:#?}");
        assert!(got[1].contains("loss") && got[1].contains("ecn"), "{got:#?}");
    }

    #[test]
    fn a_users_queue_takes_the_place_of_the_buffer() {
        let got = commands("rate = '2.5Mbit'\nbuffer = '100p'", Some("queue = 'fq_codel'"));
        assert_eq!(got.len(), 2);
        assert!(got[1].contains("fq_codel"), "{got:#?}");
    }
}
