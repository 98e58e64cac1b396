//! What ping and mtr print, of several systems, as people post it.

use quell_foreign::{Imported, Stream, read};
use quell_model::EchoStatus;

pub const IPUTILS: &str = "\
$ ping -i 0.5 example.net
PING example.net (192.0.2.1) 56(84) bytes of data.
64 bytes from host.example.net (192.0.2.1): icmp_seq=1 ttl=55 time=9.53 ms
64 bytes from host.example.net (192.0.2.1): icmp_seq=2 ttl=55 time=1009 ms
64 bytes from host.example.net (192.0.2.1): icmp_seq=2 ttl=55 time=1010 ms (DUP!)
From 192.0.2.9 icmp_seq=4 Destination Host Unreachable
64 bytes from host.example.net (192.0.2.1): icmp_seq=5 ttl=54 time=9.00 ms
^C
--- example.net ping statistics ---
6 packets transmitted, 3 received, +1 duplicates, +1 errors, 50% packet loss, time 2505ms
rtt min/avg/max/mdev = 9.000/342.510/1009.000/471.003 ms, pipe 2
$ ";

const STAMPED: &str = "\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1700000000.010000] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=10.0 ms
no answer yet for icmp_seq=2
[1700000002.020000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=20.0 ms
";

const BUSYBOX: &str = "\
PING 192.0.2.1 (192.0.2.1): 56 data bytes
64 bytes from 192.0.2.1: seq=0 ttl=64 time=0.530 ms
64 bytes from 192.0.2.1: seq=2 ttl=64 time=0.611 ms

--- 192.0.2.1 ping statistics ---
4 packets transmitted, 2 packets received, 50% packet loss
round-trip min/avg/max = 0.530/0.570/0.611 ms
";

const MACOS: &str = "\
PING example.net (192.0.2.1): 56 data bytes
64 bytes from 192.0.2.1: icmp_seq=0 ttl=64 time=5.000 ms
Request timeout for icmp_seq 1
Request timeout for icmp_seq 2
64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=1500.000 ms

--- example.net ping statistics ---
3 packets transmitted, 2 packets received, 33.3% packet loss
round-trip min/avg/max/stddev = 5.000/752.500/1500.000/747.500 ms
";

const WINDOWS: &str = "\
Pinging example.net [192.0.2.1] with 32 bytes of data:\r
Reply from 192.0.2.1: bytes=32 time=9ms TTL=117\r
Request timed out.\r
Reply from 192.0.2.1: bytes=32 time<1ms TTL=117\r
\r
Ping statistics for 192.0.2.1:\r
    Packets: Sent = 3, Received = 2, Lost = 1 (33% loss),\r
Approximate round trip times in milli-seconds:\r
    Minimum = 0ms, Maximum = 9ms, Average = 4ms\r
";

const SUMMARY: &str = "\
--- 2001:db8::1 ping statistics ---
100 packets transmitted, 97 received, 3% packet loss, time 99123ms
rtt min/avg/max/mdev = 9.1/10.2/55.3/4.4 ms
";

pub const MTR: &str = "\
$ mtr -rwz example.net
Start: 2023-11-14T22:13:20+0000
HOST: here                                   Loss%   Snt   Last   Avg  Best  Wrst StDev
  1. AS???    _gateway                        0.0%    10    0.5   0.6   0.4   1.2   0.2
  2. AS???    ???                            100.0    10    0.0   0.0   0.0   0.0   0.0
  3. AS64500  a-very.long.name.of-a-router.example.net (198.51.100.77)  20.0%    10   12.1  12.5  11.9  15.0   1.0
";

const MTR_PIPES: &str = "\
Start: Tue Nov 14 22:13:20 2023
HOST: here                        Loss%   Snt   Last   Avg  Best  Wrst StDev
  1.|-- 192.0.2.1                  0.0%    10    0.5   0.6   0.4   1.2   0.2
  2.|-- ???                       100.0    10    0.0   0.0   0.0   0.0   0.0
  3.|-- 198.51.100.77             20.0%    10   12.1  12.5  11.9  15.0   1.0
";

const MTR_JSON: &str = r#"{"report":{"mtr":{"src":"here","dst":"example.net","tos":0,"tests":10,"psize":"64","bitpattern":"0x00"},
 "hubs":[{"count":1,"host":"192.0.2.1","Loss%":0.0,"Snt":10,"Last":0.5,"Avg":0.6,"Best":0.4,"Wrst":1.2,"StDev":0.2},
 {"count":"2","host":"???","Loss%":100.0,"Snt":10,"Last":0.0,"Avg":0.0,"Best":0.0,"Wrst":0.0,"StDev":0.0},
 {"count":3,"host":"198.51.100.77","Loss%":20.0,"Snt":10,"Last":12.1,"Avg":12.5,"Best":11.9,"Wrst":15.0,"StDev":1.0}]}}"#;

pub const MTR_CSV: &str = "\
Mtr_Version,Start_Time,Status,Host,Hop,Ip,Loss%,Snt, ,Last,Avg,Best,Wrst,StDev,
MTR.0.95,1700000000,OK,example.net,1,192.0.2.1,0.00,10,0,0.50,0.60,0.40,1.20,0.20
MTR.0.95,1700000000,OK,example.net,2,???,100.00,10,10,0.00,0.00,0.00,0.00,0.00
MTR.0.95,1700000000,OK,example.net,3,198.51.100.77,20.00,10,2,12.10,12.50,11.90,15.00,1.00
";

#[track_caller]
fn tests(text: &str) -> Vec<Imported> {
    read(text.as_bytes(), None).expect("it is read")
}

/// Each packet in a word: milliseconds when it was sent, and what became of it.
fn told(stream: &Stream) -> Vec<String> {
    let one = |p: &quell_model::EchoSample| {
        let rtt = p.rtt_ns.map_or(String::new(), |ns| format!(" {}", ns as f64 / 1e6));
        format!("{} {}{rtt}", p.t_ns / 1_000_000, p.status.name())
    };
    stream.packets.iter().map(one).collect()
}

fn fact<'a>(stream: &'a Stream, key: &str) -> Option<&'a str> {
    stream.facts.iter().find(|(k, _)| *k == key).map(|(_, value)| &**value)
}

#[test]
fn each_line_of_ping_is_a_packet_and_what_is_missing_was_lost() {
    let cases: [(&str, &str, &[&str]); 5] = [
        (
            IPUTILS,
            "example.net",
            &[
                "0 ok 9.53",
                "501 ok 1009",
                "501 duplicate 1010",
                "1002 lost",
                "1503 error",
                "2004 ok 9",
                "2505 lost",
            ],
        ),
        (STAMPED, "192.0.2.1", &["0 ok 10", "1000 lost", "2000 ok 20"]),
        (BUSYBOX, "192.0.2.1", &["0 ok 0.53", "1000 lost", "2000 ok 0.611", "3000 lost"]),
        (MACOS, "example.net", &["0 ok 5", "1000 lost", "2000 ok 1500"]),
        (WINDOWS, "example.net", &["0 ok 9", "1000 lost", "2000 ok"]),
    ];
    for (text, name, packets) in cases {
        // Broken by a mail, quoted, behind the heads of a log, without its prompt.
        let wrapped = text
            .replace(": ", ":\n")
            .replace(" time=", "\ntime=")
            .replace("time=9.53 ", "time=9.53\n");
        let quoted = text.replace('\n', "\n> ");
        let prose = format!(
            "I ran this, with 5 packets lost:\n\n    {}\n\nAny idea?",
            text.replace('\n', "\r\n    ")
        );
        for text in [text, &wrapped, &quoted, &prose] {
            let found = tests(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(
                (&*found[0].streams[0].name, told(&found[0].streams[0])),
                (name, packets.iter().map(|p| (*p).to_owned()).collect()),
                "{text}"
            );
        }
    }
    let stamped = &tests(STAMPED)[0];
    assert_eq!(stamped.started_s.map(f64::floor), Some(1_700_000_000.0));
    assert!(stamped.notes.join(" ").contains("no summary"), "{:?}", stamped.notes);
}

#[test]
fn what_a_summary_alone_can_say_is_said() {
    let test = &tests(SUMMARY)[0];
    let stream = &test.streams[0];
    let count = |is| stream.packets.iter().filter(|p| p.status == is).count();
    assert_eq!((count(EchoStatus::Ok), count(EchoStatus::Lost)), (97, 3));
    assert!(stream.packets.iter().all(|p| p.rtt_ns.is_none()), "there are no samples");
    assert_eq!(&*stream.name, "2001:db8::1");
    assert_eq!(fact(stream, "summary"), Some("min/avg/max/mdev = 9.1/10.2/55.3/4.4 ms"));
    assert!(
        test.left_out[0].contains("Round trips of 97 answers")
            && test.notes.join(" ").contains("Which packets"),
        "{:?}",
        test.left_out
    );
    // Lines that somebody left out of what was posted are not lost.
    let lines: Vec<&str> = IPUTILS.lines().collect();
    let cut = format!("{}\n[...]\n{}", lines[..3].join("\n"), lines[8..].join("\n"));
    let stream = &tests(&cut)[0].streams[0];
    let lost = stream.packets.iter().filter(|p| p.status == EchoStatus::Lost).count();
    assert_eq!((lost, stream.packets.len()), (3, 6), "{:?}", told(stream));
}

#[test]
fn several_tests_in_a_text_and_a_part_of_one_are_told_apart() {
    let all = format!("{IPUTILS}\n{BUSYBOX}{STAMPED}{SUMMARY}{MACOS}");
    let names: Vec<_> = tests(&all).iter().map(|test| test.streams[0].name.clone()).collect();
    assert_eq!(names, ["example.net", "192.0.2.1", "192.0.2.1", "2001:db8::1", "example.net"]);
    let part = "64 bytes from 192.0.2.1: icmp_seq=57 ttl=64 time=3 ms\n64 bytes from 192.0.2.1: icmp_seq=59 ttl=64 time=4 ms";
    assert_eq!(told(&tests(part)[0].streams[0]), ["0 ok 3", "1000 lost", "2000 ok 4"]);
}

#[test]
fn hops_of_mtr_are_counts_and_a_silent_one_is_unknown() {
    for (text, third) in [
        (MTR, "hop 03 AS64500 a-very.long.name.of-a-router.example.net (198.51.100.77)"),
        (MTR_PIPES, "hop 03 198.51.100.77"),
        (MTR_JSON, "hop 03 198.51.100.77"),
        (MTR_CSV, "hop 03 198.51.100.77"),
    ] {
        let wrapped = text.replace(" (198", "\n(198").replace("   12.1", "\n   12.1");
        let quoted = format!("> {}", text.replace('\n', "\n> "));
        for text in [text, &wrapped, &quoted].into_iter().take(if text == MTR_CSV { 1 } else { 3 })
        {
            let found = tests(text);
            assert_eq!(found.len(), 1, "{text}");
            let streams = &found[0].streams;
            let count =
                |hop: usize, is| streams[hop].packets.iter().filter(|p| p.status == is).count();
            assert_eq!(streams.len(), 3, "{text}");
            assert_eq!((count(0, EchoStatus::Ok), count(1, EchoStatus::Unsure)), (10, 10));
            assert_eq!((count(2, EchoStatus::Ok), count(2, EchoStatus::Lost)), (8, 2), "{text}");
            assert_eq!((&*streams[2].name, fact(&streams[1], "summary")), (third, None));
            let summary = "last 12.1 ms, avg 12.5 ms, best 11.9 ms, wrst 15 ms, stdev 1 ms";
            assert_eq!(fact(&streams[2], "summary"), Some(summary));
        }
    }
    assert_eq!(tests(MTR)[0].started_s, Some(1_700_000_000.0));
}

#[test]
fn what_mtr_can_not_have_counted_is_unknown() {
    let odd = tests(&MTR_PIPES.replace("20.0%", "-20.0%"));
    let third = &odd[0].streams[2];
    assert!(third.packets.iter().all(|p| p.status == EchoStatus::Unsure));
    assert!(
        odd[0].left_out.join(" ").contains("Loss% is unknown: -20.0 at hop 3"),
        "{:?}",
        odd[0].left_out
    );
}

#[test]
fn a_ping_without_its_head_is_one_test_and_counts_that_can_not_be_are_named() {
    let cut = "64 bytes from host.example.net (192.0.2.9): icmp_seq=6 ttl=50 time=23.1 ms\n\n\
        --- example.net ping statistics ---\n6 packets transmitted, 4 received, 33% packet loss\n";
    assert_eq!(quell_foreign::read(cut.as_bytes(), None).map(|tests| tests.len()), Ok(1));
    let more = "PING example.com (192.0.2.7): 56 data bytes\n\
        64 bytes from 192.0.2.7: icmp_seq=1 ttl=64 time=5.0 ms\n\
        5 packets transmitted, 7 received, -40% packet loss\n";
    let tests = quell_foreign::read(more.as_bytes(), None).expect("it is read");
    assert_eq!(tests[0].left_out, ["received is unknown: 7 of 5 packets can't be."]);
    assert!(tests[0].about.contains(&("address", "192.0.2.7".to_owned())), "{:?}", tests[0].about);
}
