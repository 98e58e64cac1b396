//! `-F FILE`: what is in a file arrives byte for byte, and what comes is written so. The server is played by the test, which sees each byte, or Quell's.

use crate::played::{DISPLAY_RESULTS, EXCHANGE_RESULTS, framed, take_up};
use crate::server::Served;
use crate::support::{Said, TestFolder, nothing_at, said, says};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::stat::Mode;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::time::Instant;

/// What no test's own payload is, and no part of it like another.
fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Ends a test of so many streams as an iperf3 server does that counted as many bytes of each.
fn results(talk: &mut TcpStream, bytes: &[usize]) -> std::io::Result<()> {
    talk.write_all(&[EXCHANGE_RESULTS])?;
    framed(talk)?;
    let streams = bytes.iter().enumerate().map(|(place, bytes)| {
        let id = if place == 0 { 1 } else { place + 2 };
        format!(
            r#"{{"id":{id},"bytes":{bytes},"retransmits":-1,"jitter":0,"errors":0,"packets":0}}"#
        )
    });
    let said = format!(
        r#"{{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":[{}]}}"#,
        streams.collect::<Vec<_>>().join(",")
    );
    talk.write_all(&(said.len() as u32).to_be_bytes())?;
    talk.write_all(said.as_bytes())?;
    talk.write_all(&[DISPLAY_RESULTS])
}

/// Sends `file` to a server that the test plays: what came on each stream, and what was said.
fn sent(dir: &TestFolder, file: &[u8], streams: usize, more: &[&str]) -> (Vec<Vec<u8>>, Said) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    dir.write("sent", file);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut talk, mut open) = take_up(&listener, streams)?;
            let each: Vec<_> = open
                .drain(..)
                .map(|mut data| {
                    scope.spawn(move || {
                        let mut came = vec![0; file.len()];
                        // More than the file would be left unread, and the client would wait for it.
                        let got = data.read_exact(&mut came).map(|()| came);
                        (got, std::io::copy(&mut data, &mut std::io::sink()))
                    })
                })
                .collect();
            talk.read_exact(&mut [0])?;
            results(&mut talk, &vec![file.len(); streams])?;
            let came = each.into_iter().map(|stream| stream.join().expect("no panic"));
            came.map(|(came, more)| {
                assert_eq!(more.unwrap_or(0), 0, "nothing behind its end");
                came
            })
            .collect::<std::io::Result<_>>()
        });
        let common = ["flow", &at, "-F", "sent", "-t", "60", "--iperf3", "--no-latency"];
        let said = dir.quell(&[&common, more].concat());
        (server.join().expect("no panic").expect("a whole test"), said)
    })
}

#[test]
fn a_file_arrives_byte_for_byte_and_the_test_ends_with_it() {
    let dir = TestFolder::new();
    let file = content(1_000_003);
    for (streams, more) in
        [(1, &[][..]), (1, &["-Z"]), (1, &["-b", "80M"]), (1, &["-l", "1000"]), (2, &["-P", "2"])]
    {
        let (came, said) = sent(&dir, &file, streams, more);
        assert!(came.len() == streams && came.iter().all(|came| *came == file), "{more:?}");
        let words = match streams {
            1 => "all 1000003 bytes of sent were sent in ",
            _ => "all 1000003 bytes of sent were sent by each of 2 streams in ",
        };
        says(&said.fine().replace("\n         ", " "), &["of sent within 60s", words]);
    }
}

#[test]
fn programs_are_told_how_much_of_a_file_went() {
    let dir = TestFolder::new();
    let (_, said) = sent(&dir, &content(5000), 1, &["-J"]);
    let json: Value = serde_json::from_str(&said.fine()).unwrap();
    let file = &json["file"];
    assert_eq!((&file["size_bytes"], &file["sent_bytes"]), (&5000.into(), &5000.into()));
    assert_eq!((&file["sent_whole"], &file["name"]), (&true.into(), &"sent".into()));
    assert_eq!(json["asked"]["seconds"], 60.0);
    let (_, said) = sent(&dir, &content(5000), 1, &["--json=iperf3"]);
    let json: Value = serde_json::from_str(&said.fine()).unwrap();
    let file = &json["end"]["streams"][0]["diskfile"];
    let seen = ["sent", "received", "size", "percent_sent"].map(|key| file[key].as_u64());
    assert_eq!(seen, [5000, 5000, 5000, 100].map(Some), "{json:#}");
    assert_eq!(file["filename"], "sent");
}

#[test]
fn a_file_that_is_longer_than_the_test_is_sent_in_part_and_it_is_said() {
    let (served, dir) = (Served::new(&[]), TestFolder::new());
    let at = served.at.to_string();
    dir.write("sent", content(10_000_000));
    let flow = |more: &[&str]| {
        let common = ["flow", &at, "-F", "sent", "-b", "8M", "--no-latency"];
        dir.quell(&[&common, more].concat())
    };
    let on_one_line = |said: Said| said.fine().replace("\n         ", " ");
    // Where the machine has no CPU for all of its time, nothing gets through: then once more.
    let mut short = (0..5).map(|_| flow(&["-t", "0.3"]));
    let short = short.find(|said| said.code == Some(0)).expect("something gets through");
    let part = ["of 10000000 bytes of sent (", "; its time was over (-t)"];
    says(&on_one_line(short), &part);
    let begun = Instant::now();
    let told = on_one_line(flow(&["-n", "100000"]));
    let whole = begun.elapsed().as_secs_f64();
    says(&told, &["no more was asked for"]);
    let (_, took) = told
        .split_once("100000 of 10000000 bytes of sent (1.0 %) were sent in ")
        .unwrap_or_else(|| panic!("{told}"));
    // A tenth of a second at that rate, and what the machine held it up.
    let took = took.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
    assert!(took.is_some_and(|took| took < whole), "{took:?} of {whole} s: {told}");
}

#[test]
fn what_a_server_sends_is_written_byte_for_byte_in_the_place_of_what_was_there() {
    let dir = TestFolder::new();
    let file = content(1_000_003);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    dir.write("got", "what was there");
    let said = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut talk, mut streams) = take_up(&listener, 1)?;
            streams[0].write_all(&file)?;
            talk.read_exact(&mut [0])?;
            results(&mut talk, &[file.len()])
        });
        let common = ["flow", &at, "-R", "-F", "got", "-n", "1000003", "--iperf3", "--no-latency"];
        let said = dir.quell(&common).fine();
        server.join().expect("no panic").expect("a whole test");
        said
    });
    says(&said, &["written to got", "1000003 bytes are written to got"]);
    assert!(std::fs::read(dir.path("got")).unwrap() == file);
    assert_eq!(dir.names(), ["got"], "nothing else is left");
}

#[test]
fn a_disk_that_takes_no_more_ends_the_test_and_leaves_what_was_there() {
    let (served, dir) = (Served::new(&[]), TestFolder::new());
    let at = served.at.to_string();
    dir.write("got", "what was there");
    let arguments = ["flow", &at, "-R", "-F", "got", "-t", "60", "--no-latency"];
    let mut command = dir.command(&arguments);
    let no_more = || {
        // A file as large as the disk has room: writes are refused, and nobody is killed for it.
        setrlimit(Resource::RLIMIT_FSIZE, 1_000_000, 1_000_000)?;
        // SAFETY: no handler is set.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }?;
        Ok(())
    };
    // SAFETY: these are system calls.
    unsafe { command.pre_exec(no_more) };
    let said = said(command, &arguments);
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.error);
    says(&said.error, &["could not write got: EFBIG", "nothing is at got that was not there"]);
    says(&said.out, &["You get "]);
    assert_eq!(std::fs::read(dir.path("got")).unwrap(), b"what was there");
    assert_eq!(dir.names(), ["got"]);
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_ends_the_test_with_an_error() {
    let dir = TestFolder::new();
    dir.write("sent", content(10_000_000));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_talk, mut streams) = take_up(&listener, 1).expect("a test");
            streams[0].read_exact(&mut [0; 1000]).expect("it begins");
            let file = std::fs::OpenOptions::new().write(true).open(dir.path("sent"));
            file.and_then(|file| file.set_len(1000)).expect("it is cut");
            let _ = std::io::copy(&mut streams[0], &mut std::io::sink());
        });
        dir.quell(&["flow", &at, "-F", "sent", "-b", "8M", "--iperf3", "--no-latency"])
    });
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.error);
    says(&said.error, &["sent: it became shorter while it was sent", "of 10000000 bytes"]);
}

#[test]
fn what_is_no_file_or_no_way_for_one_is_refused_before_anybody_is_asked() {
    let dir = TestFolder::new();
    dir.write("file", "content");
    dir.write("empty", "");
    std::fs::create_dir(dir.path("folder")).unwrap();
    nix::unistd::mkfifo(&dir.path("pipe"), Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("file", dir.path("link")).unwrap();
    for (options, words) in [
        (&["-F", "/dev/zero"][..], "/dev/zero: it is no regular file"),
        (&["-F", "folder"], "folder: it is no regular file"),
        (&["-F", "pipe"], "pipe: it is no regular file"),
        (&["-F", "none"], "none: No such file"),
        (&["-F", "empty"], "the file is empty"),
        (&["-F", "file", "-u"], "over UDP no file is carried"),
        (&["-F", "file", "--bidir"], "with --bidir"),
        (&["-F", "file", "-O", "1"], "leave out -O"),
        (&["-F", "file", "--repeating-payload"], "--repeating-payload"),
        (&["-R", "-F", "got", "-P", "2"], "leave out -P"),
        (&["-R", "-F", "/dev/full"], "/dev/full: it is no regular file"),
        (&["-R", "-F", "folder"], "folder: it is no regular file"),
        (&["-R", "-F", "pipe"], "pipe: it is no regular file"),
        (&["-R", "-F", "link"], "link: it is a symbolic link"),
    ] {
        // Port 1 is nobody's: who asked would say so, with another code.
        let all = [&["flow", "127.0.0.1", "-p", "1"], options].concat();
        says(&dir.quell(&all).refused(2), &[words]);
    }
    nothing_at(&dir.path("got"));
    assert_eq!(std::fs::read(dir.path("file")).unwrap(), b"content");
}
