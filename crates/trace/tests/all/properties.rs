//! Whatever bytes come: no panic, no contradiction, bounded memory.

use crate::common::From::{Client, Server};
use crate::common::{ACK, BIG, LITTLE, Told, block, enhanced, interface, pcap, raw, section, told};
use proptest::collection::vec;
use proptest::prelude::*;
use quell_trace::{
    TraceLimits, TraceOptions, TraceReport, analyse, connection_text, overview_text,
};

/// Reads bytes as a capture, prints all that can be printed, and checks what holds of every report.
fn survives(file: &[u8]) {
    let limits = TraceLimits { live: 8, listed: 8, moments: 16, all_moments: 64 };
    let Ok(outcome) = analyse(file, &TraceOptions { only: None, limits }) else { return };
    let report = &outcome.report;
    assert!(report.tcp_packets <= report.packets);
    assert!(report.packets * 12 <= file.len() as u64, "each packet has a header in the file");
    assert!(report.connections.len() <= 8);
    assert_eq!(outcome.broke_off.is_some(), report.stopped.is_some());
    counts_agree(report);
    for width in [100, 80, 60] {
        let texts = report.connections.iter().map(|c| connection_text(c, width));
        for text in texts.chain([overview_text(report, width)]) {
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
    }
    serde_json::to_string(report).expect("a report is plain data");
}

fn counts_agree(report: &TraceReport) {
    for c in &report.connections {
        let counted: u64 = c.events.values().map(|t| t.count).sum();
        assert_eq!(counted, c.moments.len() as u64 + c.moments_not_listed);
        assert!(c.moments.is_sorted_by_key(|m| m.at));
        for mark in &c.moments {
            assert!(
                mark.moment.packets.iter().flatten().all(|p| (1..=report.packets).contains(p)),
                "{mark:?}"
            );
        }
    }
}

/// A packet with numbers near each other, so that it often belongs to what was before.
fn packet() -> impl Strategy<Value = Told> {
    let numbers =
        (0..400_000_u64, any::<bool>(), any::<u8>(), 0..8000_u32, 0..8000_u32, 0..1500_u16);
    let rest = (
        any::<bool>(),
        0..3_u16,
        prop_oneof![Just(0_u16), any::<u16>()],
        vec(any::<u8>(), 0..40),
        0..4_u16,
    );
    (numbers, rest).prop_map(
        |((us, client, flags, seq, ack, length), (calm, port, window, options, id))| {
            let from = if client { Client } else { Server };
            let flags = if calm { ACK } else { flags };
            let packet = told(us, from, flags, seq * 100, ack * 100, length).window(window).id(id);
            Told { options, ..packet.port(1000 + port) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_behind_any_magic(magic in 0..6_usize, bytes in vec(any::<u8>(), 0..2000)) {
        let begin: Vec<u8> = match magic {
            0 => vec![],
            1 => pcap(LITTLE, false, 1, 65535, &[]),
            2 => pcap(BIG, true, 101, 65535, &[]),
            3 => section(LITTLE),
            4 => [section(BIG), interface(BIG, 101, Some(9))].concat(),
            _ => vec![0x0a, 0x0d, 0x0d, 0x0a],
        };
        survives(&[begin, bytes].concat());
    }

    #[test]
    fn any_bytes_as_frames_of_any_link(
        link in prop_oneof![Just(0_u32), Just(1), Just(101), Just(108), Just(113), Just(228), Just(229), Just(276)],
        frames in vec((any::<u32>(), vec(any::<u8>(), 0..120)), 0..20),
    ) {
        let timed: Vec<_> = frames.iter().map(|(t, f)| (u64::from(*t), f.clone())).collect();
        survives(&pcap(LITTLE, true, link, 100, &timed));
        let mut file = section(BIG);
        file.extend(interface(BIG, link as u16, Some(0x8a)));
        for (time, frame) in &timed {
            file.extend(enhanced(BIG, 0, *time << 20, frame));
        }
        file.extend(block(BIG, 1, &frames.first().map(|f| f.1.clone()).unwrap_or_default()));
        survives(&file);
    }

    #[test]
    fn any_packets_in_any_order(story in vec(packet(), 0..200)) {
        survives(&raw(&story));
    }

    #[test]
    fn sound_captures_with_bytes_changed(
        story in vec(packet(), 1..40),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = raw(&story);
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        survives(&file[..cut.index(file.len() + 1)]);
    }

    #[test]
    fn sequence_numbers_from_anywhere(story in vec((packet(), any::<u32>(), any::<u32>()), 0..200)) {
        let story: Vec<_> = story.into_iter().map(|(p, seq, ack)| Told { seq, ack, ..p }).collect();
        survives(&raw(&story));
    }
}
