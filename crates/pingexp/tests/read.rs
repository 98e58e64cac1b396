//! Files that ping-exp wrote are read; files that would run code, or eat memory, are refused.

use proptest::prelude::*;
use quell_pingexp::{PickleError, Reply, Summary, read};

const FILES: [(&str, &[u8]); 9] = [
    ("python2-0", include_bytes!("data/python2-0.pickle")),
    ("python2-1", include_bytes!("data/python2-1.pickle")),
    ("python2-2", include_bytes!("data/python2-2.pickle")),
    ("python3-0", include_bytes!("data/python3-0.pickle")),
    ("python3-1", include_bytes!("data/python3-1.pickle")),
    ("python3-2", include_bytes!("data/python3-2.pickle")),
    ("python3-3", include_bytes!("data/python3-3.pickle")),
    ("python3-4", include_bytes!("data/python3-4.pickle")),
    ("python3-5", include_bytes!("data/python3-5.pickle")),
];

#[test]
fn a_file_of_ping_exp_is_read_the_same_in_every_protocol() {
    for (name, bytes) in FILES {
        let file = read(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(file.started, Some(1_257_894_000.25), "{name}");
        assert_eq!(file.ended, Some(1_257_894_001.5));
        assert_eq!((file.count, file.interval_s), (Some(6), Some(0.2)));
        let [voice, bulk] = &file.experiments[..] else { panic!("{name}: two streams") };
        assert_eq!((voice.id.as_str(), bulk.id.as_str()), ("voice", "bulk"));
        assert_eq!(voice.host, "it's.example.org");
        assert_eq!((voice.tos.as_deref(), bulk.tos.as_deref()), (Some("184"), None));
        assert_eq!(voice.summary, Some(Summary { transmitted: 6, received: 4 }));
        assert_eq!(voice.replies.len(), 5);
        assert_eq!(voice.replies[2], Reply { seq: 4, ttl: Some(55), rtt_ms: 19.75 });
        assert_eq!(voice.replies[4], Reply { seq: 5, ttl: Some(54), rtt_ms: 300.0 });
        assert_eq!(bulk.replies, []);
    }
}

#[test]
fn a_file_that_is_cut_off_says_so_wherever_it_was_cut() {
    for (name, bytes) in FILES {
        for end in 0..bytes.len() {
            let error = read(&bytes[..end]).expect_err("cut off");
            assert!(
                matches!(error, PickleError::Truncated { .. } | PickleError::Malformed { .. }),
                "{name} to {end}: {error}"
            );
        }
    }
}

#[test]
fn numbers_that_ping_exp_kept_as_texts_are_numbers() {
    let text = b"(dS'experiments'\n(dS'a'\n(dS'responses'\n(lp0\n(S'7'\nS'64'\nS'1.5'\ntasS'qos'\nS'0x10'\nsssS'ping_count'\nS'400'\ns.";
    let file = read(text).unwrap();
    assert_eq!(file.experiments[0].replies, [Reply { seq: 7, ttl: Some(64), rtt_ms: 1.5 }]);
    assert_eq!(file.experiments[0].tos.as_deref(), Some("0x10"));
    assert_eq!(file.count, Some(400));
}

/// What Python would run on loading it is named, with its place, and nothing behind it is looked at.
#[test]
fn a_pickle_that_would_run_a_program_is_refused_by_name_and_place() {
    let cases: [(&[u8], &str, usize); 16] = [
        (b"cos\nsystem\n(S'touch /tmp/owned'\ntR.", "GLOBAL", 0),
        (b"\x80\x02cposix\nsystem\nq\0.", "GLOBAL", 2),
        (b"(S'id'\nios\nsystem\n.", "INST", 7),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL", 14),
        (b"(N)R.", "REDUCE", 3),
        (b"}}b.", "BUILD", 2),
        (b"(No.", "OBJ", 2),
        (b"N)\x81.", "NEWOBJ", 2),
        (b"N)}\x92.", "NEWOBJ_EX", 3),
        (b"Pname\n.", "PERSID", 0),
        (b"NQ.", "BINPERSID", 1),
        (b"\x82\x01.", "EXT1", 0),
        (b"\x83\x01\x01.", "EXT2", 0),
        (b"\x84\x01\x01\x01\x01.", "EXT4", 0),
        (b"\x8f.", "EMPTY_SET", 0),
        (b"\x97.", "NEXT_BUFFER", 0),
    ];
    for (bytes, wanted, place) in cases {
        match read(bytes) {
            Err(PickleError::Refused { at, name, .. }) => {
                assert_eq!((name, at), (wanted, place), "{bytes:?}");
            }
            other => panic!("{wanted}: {other:?}"),
        }
    }
    let told = read(b"cos\nsystem\n(S'x'\ntR.").unwrap_err().to_string();
    assert!(told.contains("byte 0") && told.contains("GLOBAL \"os.system\""), "{told}");
    assert!(told.contains("Nothing was executed"), "{told}");
    // What it names must not become commands of the terminal.
    let told = read(b"c\x1b[2J\nx\n.").unwrap_err().to_string();
    assert!(!told.contains('\x1b'), "{told}");
}

#[test]
fn data_that_contain_themselves_are_refused() {
    // x = []; x.append(x)
    assert_eq!(read(b"]q\0h\0a."), Err(PickleError::Circular));
    // x = {}; x['experiments'] = [x]
    assert_eq!(read(b"}q\0U\x0bexperiments]h\0as."), Err(PickleError::Circular));
    // A tuple that a list in it contains.
    assert_eq!(read(b"(]q\0tq\x010h\0h\x01a0h\x01."), Err(PickleError::Circular));
}

#[test]
fn towers_of_lists_are_refused_without_climbing_them() {
    let tower = |height: usize| {
        let mut bytes = vec![b']'; height];
        bytes.extend(vec![b'a'; height - 1]);
        bytes.push(b'.');
        bytes
    };
    assert!(matches!(read(&tower(60)), Err(PickleError::Shape { .. })));
    assert_eq!(read(&tower(1_000_000)), Err(PickleError::TooDeep));
}

/// Sixty bytes that stand for 10^18 values when every reference is followed.
#[test]
fn a_list_of_lists_of_the_same_list_takes_no_more_room_than_its_file() {
    let mut bytes = b"]q\0".to_vec();
    for level in 1..=60_u8 {
        bytes.extend([b']', b'q', level]);
        for _ in 0..10 {
            bytes.extend([b'h', level - 1, b'a']);
        }
    }
    bytes.push(b'.');
    assert!(matches!(read(&bytes), Err(PickleError::Shape { .. })));
}

/// Two thousand streams that all name one list of a thousand replies.
#[test]
fn one_list_of_replies_can_not_be_multiplied_without_end() {
    let mut bytes = b"}U\x0bexperiments}U\x01x}U\x09responses]q\0(".to_vec();
    for _ in 0..1000 {
        bytes.extend(b"K\x01K\x40K\x05\x87");
    }
    bytes.extend(b"ess");
    for stream in 0..2000 {
        bytes.extend(format!("S'{stream}'\n}}U\x09responsesh\0ss").bytes());
    }
    bytes.extend(b"s.");
    assert_eq!(read(&bytes), Err(PickleError::TooMany));
}

#[test]
fn lengths_that_lie_are_cut_off_and_reserve_nothing() {
    for bytes in [
        &b"X\xff\xff\xff\xff."[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"T\xff\xff\xff\x7fabc.",
        b"U\x05abc",
    ] {
        assert!(matches!(read(bytes), Err(PickleError::Truncated { .. })), "{bytes:?}");
    }
}

#[test]
fn instructions_that_find_nothing_to_work_on_are_named() {
    for (bytes, wanted) in [
        (&b"."[..], "STOP"),
        (b"a", "APPEND"),
        (b"]a.", "APPEND"),
        (b"](e", "APPENDS"),
        (b"t.", "TUPLE"),
        (b"N\x86.", "TUPLE2"),
        (b"}N(Nu.", "SETITEMS"),
        (b"g7\n.", "GET"),
        (b"N(s", "SETITEM"),
        (b"I12x\n.", "INT"),
        (b"L99999999999999999999L\n.", "LONG"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", "LONG1"),
        (b"Fx\n.", "FLOAT"),
        (b"S'a\n.", "STRING"),
        (b"\x80\x09N.", "PROTO"),
    ] {
        match read(bytes) {
            Err(PickleError::Malformed { name, .. }) => {
                // APPENDS onto an empty list of nothing is fine and the file then ends.
                assert_eq!(name, wanted, "{bytes:?}");
            }
            Err(PickleError::Truncated { .. }) if wanted == "APPENDS" => {}
            other => panic!("{wanted}: {other:?}"),
        }
    }
}

#[test]
fn other_pickles_are_told_apart_from_those_of_ping_exp() {
    let why = |bytes: &[u8]| read(bytes).expect_err("not ping-exp").to_string();
    assert!(why(b"K\x05.").contains("the whole should be a dictionary, and is a whole number"));
    assert!(why(b"}.").contains("`experiments`"));
    assert!(why(b"}U\x0bexperiments]s.").contains("is a list"));
    let broken = b"}U\x0bexperiments}U\x01a}U\x09responses]K\x07asss.";
    let told = why(broken);
    assert!(told.contains("`responses[0]` of the stream \"a\""), "{told}");
    // A time that is no time.
    let negative = b"}U\x0bexperiments}U\x01a}U\x09responses](K\x01K\x40F-1\ntasss.";
    assert!(why(negative).contains("not negative"));
    let nan = b"}U\x0bexperiments}U\x01a}U\x09responses](K\x01K\x40Fnan\ntasss.";
    assert!(why(nan).contains("not negative"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    /// Instructions of data in any order.
    #[test]
    fn no_program_of_known_instructions_makes_it_panic(
        bytes in proptest::collection::vec(
            proptest::sample::select(b".(0122NI\nLFGJKMSVUXt)]lae}dsupqrghj\x80\x85\x86\x87\x88\x89\x8a\x94\x00\x01'\"".to_vec()),
            0..200,
        )
    ) {
        let _ = read(&bytes);
    }

    /// Real files with bytes exchanged.
    #[test]
    fn no_damage_to_a_file_makes_it_panic(
        file in 0..FILES.len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = FILES[file].1.to_vec();
        for (place, byte) in damage {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(&bytes);
    }
}
