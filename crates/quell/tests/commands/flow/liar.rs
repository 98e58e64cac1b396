//! What `quell flow` prints against a server that lies: nothing that moves a terminal's cursor, no figure that can't be, the right exit code.

use crate::played::{DISPLAY_RESULTS, EXCHANGE_RESULTS, framed, take_up};
use crate::support::{Said, program, said};
use std::io::{Read, Write};
use std::net::TcpListener;

/// Takes one test of one TCP stream up and tells these results, whatever they are.
fn serve(listener: &TcpListener, results: &[u8]) -> std::io::Result<()> {
    let (mut talk, mut streams) = take_up(listener, 1)?;
    let sink = std::thread::spawn(move || std::io::copy(&mut streams[0], &mut std::io::sink()));
    talk.read_exact(&mut [0])?;
    talk.write_all(&[EXCHANGE_RESULTS])?;
    framed(&mut talk)?;
    talk.write_all(&(results.len() as u32).to_be_bytes())?;
    // Who hears enough hangs up.
    let told = talk.write_all(results).and_then(|()| talk.write_all(&[DISPLAY_RESULTS]));
    let _ = told.and_then(|()| talk.read(&mut [0]));
    let _ = sink.join();
    Ok(())
}

/// What is printed of 100 kB, and its exit code.
fn printed(results: &[u8], more: &[&str]) -> Said {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    std::thread::scope(|scope| {
        // A client that breaks off is no fault here.
        scope.spawn(|| drop(serve(&listener, results)));
        let arguments =
            [&["flow", &at, "-n", "100K", "-b", "8M", "--iperf3", "--no-latency"], more].concat();
        said(program(&arguments), &arguments)
    })
}

fn results(whole: &str, stream: &str) -> Vec<u8> {
    format!(
        r#"{{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":-1,{whole}
        "streams":[{{"id":1,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,{stream}}}]}}"#
    )
    .into_bytes()
}

const RIGHT: &str = r#""bytes":102400,"end_time":0.1"#;

#[track_caller]
fn is_clean(story: &str, said: &Said) {
    for text in [&said.out, &said.error] {
        let bad = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(bad, None, "{story}: {text:?}");
        assert!(!text.contains("panicked"), "{story}: {text}");
        assert!(text.len() < 20_000, "{story}: {} bytes are printed", text.len());
        assert!(!text.lines().any(|line| line.starts_with("You get 9")), "{story}: {text}");
    }
}

#[test]
fn words_of_a_server_reach_no_terminal_raw() {
    let evil = r"\u001b[2J\u0007\r\nYou get 999 Gbit/s up\u009b31m\u202e";
    for (story, whole) in [
        ("the congestion control", format!(r#""congestion_used":"{evil}","#)),
        ("its output", format!(r#""server_output_text":"{evil}","#)),
        ("a long word", format!(r#""congestion_used":"{}","#, "x".repeat(100_000))),
        ("its host", format!(r#""quell":{{"version":1,"host":"{evil}","kernel":"{evil}"}},"#)),
        ("a key", format!(r#""{evil}":"{evil}","#)),
    ] {
        for more in [&[][..], &["--get-server-output"], &["-V"]] {
            let said = printed(&results(&whole, RIGHT), more);
            is_clean(&format!("{story} {more:?}"), &said);
        }
    }
}

#[test]
fn figures_that_can_not_be_are_told_as_none_and_make_the_exit_code() {
    for stream in [
        r#""bytes":1000000000000000,"end_time":0.3"#,
        r#""bytes":-1,"end_time":0.3"#,
        r#""bytes":18446744073709551615,"end_time":0.3"#,
    ] {
        let said = printed(&results("", stream), &[]);
        is_clean(stream, &said);
        // Its own kernel says how much was acknowledged; of the server's figure it is said that it can't be.
        let Said { code, out, error, .. } = said;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{stream}: {out}");
        assert!(out.contains("(the server's count is impossible)"), "{stream}: {out}");
        assert!(out.contains("counted by the sender"), "{stream}: {out}");
        let absurd = ["Tbit", "Gbit", "inf", "NaN", "e-1 ", "-7"];
        assert!(!absurd.iter().any(|word| out.contains(word)), "{stream}: {out}");
    }
}

#[test]
fn results_that_are_none_end_it_with_a_word_and_exit_code_1() {
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (story, bytes) in [
        ("no number", results("", r#""bytes":NaN,"end_time":0.1"#)),
        ("out of range", results("", r#""bytes":1e999,"end_time":0.1"#)),
        ("no JSON", b"\x1b[2Jhello\x07".to_vec()),
        ("no UTF-8", vec![0xff; 100]),
        ("nothing", Vec::new()),
        ("without end", deep),
        ("a word as streams", br#"{"streams":"\u001b[2J"}"#.to_vec()),
    ] {
        let said = printed(&bytes, &[]);
        is_clean(story, &said);
        assert_eq!(said.code, Some(1), "{story}: {}{}", said.out, said.error);
        assert!(!said.error.is_empty(), "{story}: it is said why");
    }
}
