//! Files that ping-exp wrote, in each protocol of Python 2 and 3; files that would run code, or eat memory, are refused.

use quell_foreign::{ForeignError, Imported, Tool, read};
use quell_model::EchoStatus;

const FILES: [(&str, &[u8]); 9] = [
    ("python2-0", include_bytes!("../data/pingexp/python2-0.pickle")),
    ("python2-1", include_bytes!("../data/pingexp/python2-1.pickle")),
    ("python2-2", include_bytes!("../data/pingexp/python2-2.pickle")),
    ("python3-0", include_bytes!("../data/pingexp/python3-0.pickle")),
    ("python3-1", include_bytes!("../data/pingexp/python3-1.pickle")),
    ("python3-2", include_bytes!("../data/pingexp/python3-2.pickle")),
    ("python3-3", include_bytes!("../data/pingexp/python3-3.pickle")),
    ("python3-4", include_bytes!("../data/pingexp/python3-4.pickle")),
    ("python3-5", include_bytes!("../data/pingexp/python3-5.pickle")),
];

fn pingexp(bytes: &[u8]) -> Result<Imported, ForeignError> {
    read(bytes, Some(Tool::PingExp)).map(|mut tests| tests.remove(0))
}

#[test]
fn a_file_of_ping_exp_is_read_the_same_in_every_protocol() {
    for (name, bytes) in FILES {
        let file = read(bytes, None).unwrap_or_else(|e| panic!("{name}: {e}")).remove(0);
        assert_eq!((file.tool, file.started_s), (Tool::PingExp, Some(1_257_894_000.25)), "{name}");
        assert_eq!(file.window_ns, Some(6 * 200_000_000));
        let [voice, bulk] = &file.streams[..] else { panic!("{name}: two streams") };
        assert_eq!((voice.name.as_str(), bulk.name.as_str()), ("voice", "bulk"));
        let fact = |key| voice.facts.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        let told = ["host", "tos", "ttl", "transmitted", "received"].map(fact);
        let wanted = ["it's.example.org", "184", "54 to 55", "6", "4"].map(Some);
        assert_eq!(told, wanted, "{name}");
        let count = |status| voice.packets.iter().filter(|p| p.status == status).count();
        let counts = [EchoStatus::Ok, EchoStatus::Duplicate, EchoStatus::Lost].map(count);
        assert_eq!(counts, [4, 1, 2], "{name}");
        assert_eq!(voice.packets.iter().filter_map(|p| p.rtt_ns).max(), Some(300_000_000));
        assert!(bulk.packets.len() == 6 && bulk.packets.iter().all(|p| p.rtt_ns.is_none()));
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused_wherever_it_was_cut() {
    for (name, bytes) in FILES {
        for end in 0..bytes.len() {
            assert!(pingexp(&bytes[..end]).is_err(), "{name} to {end}");
        }
    }
}

#[test]
fn numbers_that_ping_exp_kept_as_texts_are_numbers() {
    let text = b"(dS'experiments'\n(dS'a'\n(dS'responses'\n(lp0\n(S'2'\nS'64'\nS'1.5'\ntasS'qos'\nS'0x10'\nsssS'ping_count'\nS'4'\ns.";
    let file = pingexp(text).unwrap();
    assert_eq!(file.streams[0].packets.len(), 4);
    assert_eq!(file.streams[0].packets[1].rtt_ns, Some(1_500_000));
}

#[test]
fn a_pickle_that_would_run_a_program_is_refused_and_nothing_is_executed() {
    for bytes in [
        &b"cos\nsystem\n(S'touch /tmp/owned'\ntR."[..],
        b"\x80\x02cposix\nsystem\nq\0.",
        b"(S'id'\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"Pname\n.",
    ] {
        pingexp(bytes).expect_err("refused");
    }
    let told = pingexp(b"cos\nsystem\n(S'x'\ntR.").unwrap_err().to_string();
    assert!(told.contains("Nothing in it was executed"), "{told}");
    let told = pingexp(b"c\x1b[2J\nx\n.").unwrap_err().to_string();
    assert!(!told.contains('\x1b'), "{told}");
}

#[test]
fn data_that_contain_themselves_or_multiply_are_refused() {
    // x = []; x.append(x)
    pingexp(b"]q\0h\0a.").expect_err("a circle");
    // Sixty bytes that stand for 10^18 values when every reference is followed.
    let mut bytes = b"]q\0".to_vec();
    for level in 1..=60_u8 {
        bytes.extend([b']', b'q', level]);
        for _ in 0..10 {
            bytes.extend([b'h', level - 1, b'a']);
        }
    }
    bytes.push(b'.');
    assert_eq!(pingexp(&bytes), Err(ForeignError::TooMany));
    // Two thousand streams that all name one list of a thousand replies.
    let mut bytes = b"}U\x0bexperiments}U\x01x}U\x09responses]q\0(".to_vec();
    for _ in 0..1000 {
        bytes.extend(b"K\x01K\x40K\x05\x87");
    }
    bytes.extend(b"ess");
    for stream in 0..2000 {
        bytes.extend(format!("S'{stream}'\n}}U\x09responsesh\0ss").bytes());
    }
    bytes.extend(b"s.");
    assert_eq!(pingexp(&bytes), Err(ForeignError::TooMany));
}

#[test]
fn other_pickles_are_told_apart_from_those_of_ping_exp() {
    let why = |bytes: &[u8]| pingexp(bytes).expect_err("not ping-exp").to_string();
    assert!(why(b"}.").contains("`experiments`"));
    assert!(why(b"}U\x0bexperiments]s.").contains("no dictionary"));
    assert!(
        why(b"}U\x0bexperiments}U\x01a}U\x09responses]K\x07asss.")
            .contains("`responses[0]` of \"a\"")
    );
    for ms in ["-1", "nan"] {
        let text = format!("}}U\x0bexperiments}}U\x01a}}U\x09responses](K\x01K\x40F{ms}\ntasss.");
        assert!(why(text.as_bytes()).contains("not negative"), "{ms}");
    }
}
