//! The same call in files of every format, and files that break off or lie.

use crate::common::{
    BIG, LITTLE, Order, STALL, Timed, Told, block, call, enhanced, events, interface, pcap, raw,
    read, report, section,
};
use quell_finding::WIDEST;
use quell_trace::capture::LONGEST_PACKET;
use quell_trace::{
    CaptureError, TraceOptions, TraceReport, analyse, connection_text, overview_text,
};

fn under(header: &[u8], ip: fn(&Told) -> Vec<u8>) -> Vec<Timed> {
    call().iter().map(|p| (p.us * 1000, [header, &ip(p)].concat())).collect()
}

#[test]
fn classic_files_of_both_orders_and_resolutions_say_the_same() {
    for order in [LITTLE, BIG] {
        for nanos in [false, true] {
            let file = pcap(order, nanos, 101, 65535, &under(&[], Told::ipv4));
            let report = report(&file);
            assert_eq!(events(&report), STALL, "{order:?}, {nanos}");
            assert_eq!((report.packets, report.tcp_packets), (8, 8));
        }
    }
}

#[test]
fn a_fraction_of_a_whole_second_is_no_time() {
    for (nanos, second) in [(false, 1_000_000_u32), (true, 1_000_000_000)] {
        let mut file = pcap(LITTLE, nanos, 101, 65535, &under(&[], Told::ipv4));
        for (fraction, without) in [(second - 1, 0), (second, 1), (u32::MAX, 1)] {
            // Of the first packet, behind its seconds.
            file[28..32].copy_from_slice(&fraction.to_le_bytes());
            let report = report(&file);
            assert_eq!((report.packets, report.without_time), (8, without), "{fraction}");
        }
    }
}

#[test]
fn every_kind_of_link_is_read() {
    let ethernet = |types: &[u8]| [&[2; 12][..], types].concat();
    let cooked = [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &[8, 0]].concat();
    let cooked_2 = [&[8, 0][..], &[0; 18]].concat();
    type Written = (u32, Vec<u8>, fn(&Told) -> Vec<u8>);
    let links: [Written; 11] = [
        (1, ethernet(&[8, 0]), Told::ipv4),
        (1, ethernet(&[0x86, 0xdd]), Told::ipv6),
        (1, ethernet(&[0x81, 0, 0, 7, 8, 0]), Told::ipv4),
        (1, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 0x86, 0xdd]), Told::ipv6),
        (113, cooked, Told::ipv4),
        (276, cooked_2, Told::ipv4),
        (101, vec![], Told::ipv6),
        (229, vec![], Told::ipv6),
        (0, vec![2, 0, 0, 0], Told::ipv4),
        (0, vec![0, 0, 0, 30], Told::ipv6),
        (108, vec![0, 0, 0, 2], Told::ipv4),
    ];
    for (link, header, ip) in links {
        let report = report(&pcap(LITTLE, false, link, 65535, &under(&header, ip)));
        assert_eq!(events(&report), STALL, "link {link}, {header:x?}");
    }
}

#[test]
fn headers_are_enough() {
    // 20 bytes of IP and 16 of TCP: just the window is still there.
    let file = pcap(LITTLE, false, 101, 36, &under(&[], Told::ipv4));
    let report = report(&file);
    assert_eq!(events(&report), STALL);
    assert_eq!(report.connections[0].client_to_server.bytes, 200);
    assert_eq!(report.cut_packets, 8);
    let less = crate::common::report(&pcap(LITTLE, false, 101, 35, &under(&[], Told::ipv4)));
    assert_eq!((less.tcp_packets, less.skipped.cut_short), (0, 8));
    assert!(overview_text(&less, WIDEST).contains("8 packets had too little captured"));
}

fn ng(order: Order) -> Vec<u8> {
    let mut file = section(order);
    file.extend(interface(order, 101, None));
    file.extend(block(order, 0xbad, b"something of one's own"));
    file.extend(interface(order, 1, Some(9)));
    file.extend(interface(order, 101, Some(0x80 | 20)));
    for (i, p) in call().iter().enumerate() {
        let frame = p.ipv4();
        file.extend(match i % 3 {
            0 => enhanced(order, 0, p.us, &frame),
            1 => enhanced(order, 1, p.us * 1000, &[&[2; 12][..], &[8, 0], &frame].concat()),
            _ => enhanced(order, 2, ((p.us as u128 * (1 << 20)) / 1_000_000) as u64, &frame),
        });
    }
    file
}

#[test]
fn pcapng_with_several_interfaces_and_clocks_says_the_same() {
    for order in [LITTLE, BIG] {
        let report = report(&ng(order));
        assert_eq!(events(&report), STALL, "{order:?}");
        assert_eq!((report.format, report.packets), ("pcapng", 8));
    }
}

#[test]
fn a_second_section_may_have_the_other_order_and_forgets_interfaces() {
    let report = report(&[ng(LITTLE), ng(BIG)].concat());
    assert_eq!(report.packets, 16);
    let mut file = ng(LITTLE);
    let at = (file.len() + section(BIG).len()) as u64;
    file.extend(section(BIG));
    file.extend(enhanced(BIG, 0, 0, &[0x45; 40]));
    let outcome = read(&file);
    assert_eq!(outcome.report.packets, 8);
    match outcome.broke_off {
        Some(CaptureError::Record { offset, what }) => {
            assert_eq!(offset, at);
            assert!(what.contains("interface 0, but only 0"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn old_and_simple_packet_blocks_are_read() {
    let mut file = section(LITTLE);
    file.extend(interface(LITTLE, 101, None));
    for p in call() {
        let frame = p.ipv4();
        let length = LITTLE.u32(frame.len() as u32);
        let time = [LITTLE.u32(0), LITTLE.u32(p.us as u32)].concat();
        file.extend(block(LITTLE, 2, &[&[0; 4][..], &time, &length, &length, &frame].concat()));
    }
    assert_eq!(events(&report(&file)), STALL);

    let mut file = section(LITTLE);
    file.extend(interface(LITTLE, 101, None));
    for p in call() {
        let frame = p.ipv4();
        file.extend(block(LITTLE, 3, &[&LITTLE.u32(frame.len() as u32)[..], &frame].concat()));
    }
    let report = report(&file);
    assert_eq!((report.tcp_packets, report.without_time), (8, 8));
    assert_eq!(
        events(&report),
        Vec::<quell_trace::TcpEvent>::new(),
        "without times, nothing can be said about waits"
    );
    untold(&report);
}

/// Nothing is told of the times of a file that has none.
#[track_caller]
fn untold(report: &TraceReport) {
    let text = overview_text(report, WIDEST) + &connection_text(&report.connections[0], WIDEST);
    for (word, times) in [
        ("Whether anybody waited is not known", 2),
        ("Nobody waited", 0),
        ("in a time that is not known", 1),
        ("lasted a time that is not known", 1),
        ("0 ns", 1),
        ("RTT", 0),
        ("opening", 0),
    ] {
        assert_eq!(text.matches(word).count(), times, "{word} in {text}");
    }
}

#[test]
fn a_clock_that_can_not_be_tells_no_times() {
    let nobody = |options: &[u8]| {
        let mut file = section(LITTLE);
        let link = [&LITTLE.u16(101)[..], &[0; 2], &LITTLE.u32(0), options].concat();
        file.extend(block(LITTLE, 1, &link));
        let packets = call();
        let third = packets.iter().take(3);
        third.for_each(|p| file.extend(enhanced(LITTLE, 0, 1_700_000_000_000_000, &p.ipv4())));
        report(&file)
    };
    // Whole seconds (if_tsresol), then an offset of so many of them (if_tsoffset) that the sum is beyond 64 bits.
    let offset = [&[14, 0, 8, 0][..], &i64::MAX.to_le_bytes()].concat();
    for options in [&[9, 0, 1, 0, 0, 0, 0, 0][..], &offset] {
        let report = nobody(options);
        assert_eq!((report.tcp_packets, report.without_time), (3, 3));
        untold(&report);
    }
}

#[test]
fn an_interface_that_counts_from_elsewhere_has_an_offset() {
    let mut body = [&LITTLE.u16(101)[..], &[0; 6]].concat();
    body.extend([14, 0, 8, 0]);
    body.extend(1_700_000_000_i64.to_le_bytes());
    let mut file = section(LITTLE);
    file.extend(block(LITTLE, 1, &body));
    file.extend(enhanced(LITTLE, 0, 5, &call()[0].ipv4()));
    assert_eq!(report(&file).begin.0, 1_700_000_000_000_005_000);
}

#[test]
fn a_file_cut_anywhere_tells_what_came_before_the_cut() {
    for file in [raw(&call()), ng(LITTLE), ng(BIG)] {
        let whole = report(&file).packets;
        let mut last = 0;
        for end in 0..=file.len() {
            let Ok(outcome) = analyse(&file[..end], &TraceOptions::default()) else {
                assert_eq!(last, 0, "a file that began soundly is told in part");
                continue;
            };
            let packets = outcome.report.packets;
            assert!(packets >= last && packets <= whole, "{end}");
            last = packets;
            if let Some(error) = outcome.broke_off {
                let CaptureError::Truncated { offset, wanted, got, .. } = error else {
                    panic!("{error:?} at {end}")
                };
                assert!(
                    offset + got == end as u64 && got < wanted,
                    "{offset} {got} {wanted} {end}"
                );
                assert!(outcome.report.stopped.is_some());
            }
        }
        assert_eq!(last, whole);
    }
}

#[test]
fn a_length_that_lies_costs_nothing_and_is_told_with_its_place() {
    let mut file = raw(&call()[..2]);
    let at = file.len() as u64;
    file.extend([0; 8]);
    file.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let outcome = read(&file);
    assert_eq!(outcome.report.packets, 2);
    match outcome.broke_off {
        Some(CaptureError::Record { offset, what }) => {
            assert_eq!(offset, at);
            assert!(what.contains("holds 4294967295 bytes"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    // As long as is believed: read as far as it goes, and no memory beyond that.
    let mut file = raw(&call()[..2]);
    file.extend([0; 8]);
    file.extend(LONGEST_PACKET.to_le_bytes());
    file.extend(LONGEST_PACKET.to_le_bytes());
    file.extend([0; 10]);
    let error = read(&file).broke_off.expect("it breaks off").to_string();
    assert!(error.contains("10 of its 1048576 bytes are there"), "{error}");
}

#[test]
fn blocks_that_contradict_themselves_are_told() {
    let broken = |block: Vec<u8>| {
        let file = [section(LITTLE), interface(LITTLE, 101, None), block].concat();
        read(&file).broke_off.expect("it can't be read").to_string()
    };
    let sound = enhanced(LITTLE, 0, 0, &[0x45; 40]);
    let with = |at: usize, value: u32| {
        let mut block = sound.clone();
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        block
    };
    assert!(broken(with(4, 70)).contains("no multiple of 4"));
    assert!(broken(with(4, 8)).contains("shorter than its own header"));
    assert!(broken(with(4, 0x7fff_fffc)).contains("not believed"));
    assert!(broken(with(20, 41)).contains("longer than its block"));
    assert!(broken(with(sound.len() - 4, 0)).contains("two lengths differ"));
    assert!(broken(with(8, 9)).contains("interface 9, but only 1"));
    assert!(broken(block(LITTLE, 6, &[0; 8])).contains("too short"));
}

#[test]
fn what_is_no_capture_is_called_what_it_is() {
    let said = |bytes: &[u8]| {
        analyse(bytes, &TraceOptions::default()).map(|_| ()).expect_err("no capture").to_string()
    };
    assert!(said(b"").contains("empty"));
    assert!(said(&[0x1f, 0x8b, 8, 0, 0]).contains("gzip -dc"));
    assert!(said(b"{\"version\": 4}").contains("text"));
    assert!(said(&[0x34, 0xcd, 0xb2, 0xa1, 0, 0]).contains("Kuznetzov"));
    assert!(said(&[0x7f, b'E', b'L', b'F']).contains("7f454c46"));
    assert!(said(&[0xd4, 0xc3]).contains("2 of its 4 bytes"));
    assert!(
        said(&[0xd4, 0xc3, 0xb2, 0xa1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            .contains("9.0")
    );
}

#[test]
fn a_kind_of_link_that_is_not_read_is_named() {
    let report = report(&pcap(LITTLE, false, 127, 65535, &under(&[], Told::ipv4)));
    assert_eq!((report.skipped.unknown_link, report.skipped.link_type), (8, Some(127)));
    assert!(overview_text(&report, WIDEST).contains("link type 127"));
}

#[test]
fn addresses_of_any_length_fit_a_hundred_columns() {
    let mut frames = under(&[], Told::ipv6);
    for (_, frame) in &mut frames {
        for (i, byte) in frame[8..40].iter_mut().enumerate() {
            *byte |= if i % 16 == 15 { 0xf0 } else { 0xee };
        }
    }
    let report = report(&pcap(LITTLE, false, 101, 65535, &frames));
    assert_eq!(report.connections.len(), 1);
    let text = overview_text(&report, WIDEST);
    assert!(text.contains("ffee") || text.contains("eeee"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_json_names_its_units() {
    let json = serde_json::to_value(report(&raw(&call()))).expect("it is plain data");
    let moment = &json["connections"][0]["moments"][0];
    assert_eq!(moment["event"], "held");
    assert_eq!(moment["waited_ms"], 40.01);
    assert_eq!(moment["packets"], serde_json::json!([4, 5, 6]));
    assert_eq!(json["connections"][0]["events"]["held"]["count"], 1);
    assert_eq!(json["connections"][0]["client_to_server"]["facts"]["path_ms"], 0.01);
    assert_eq!(json["connections"][0]["client_to_server"]["rtt"]["count"], 2);
}
