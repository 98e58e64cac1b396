use super::{imported, refused, with};

/// 20 answers, with times.
fn answers() -> String {
    let line = |n: u32| {
        format!("[1700000000.{n:03}000] a : [{n}], 64 bytes, 1.23 ms (1.23 avg, 0% loss)\n")
    };
    (0..20).map(line).collect()
}

#[test]
fn an_answer_of_which_a_value_can_not_be_read_is_refused_and_is_no_loss() {
    let all = answers();
    refused(
        &all,
        &[
            ("[7], 64 bytes, 1.23", "[7], 64 bytes, 1,23", "line 8: `1,23` is no round-trip time"),
            ("[7], 64 bytes, 1.23", "[7], 64 bytes, 0x10", "line 8: `0x10` is no round-trip time"),
            ("[7], 64 bytes, 1.23", "[7], 64 bytes, ", "line 8: `` is no round-trip time"),
            ("[7], 64", "[7], 99999999999", "line 8: `99999999999` is no size"),
            ("[7], 64", "[7], 65536", "line 8: `65536` is no size"),
            ("[7]", "[-7]", "line 8: `-7` is no number of a packet"),
            ("[7]", "[18446744073709551616]", "line 8: `18446744073709551616` is no number"),
            ("[1700000000.007000]", "[nan]", "line 8: `nan` is no time"),
        ],
    );
    let list = "a : 1.1 1.2 - 1.4\nb : 1.1 1.2 - 1.4\n";
    refused(
        list,
        &[
            ("b : 1.1", "b : 1,1", "line 2: `1,1` is no round-trip time"),
            ("b : 1.1", "b : inf", "line 2: `inf` is no round-trip time"),
        ],
    );
    // Where it was ended its last line ends anywhere.
    let cut = imported(&all[..all.len() - 30]);
    assert_eq!((cut.streams[0].packets.len(), cut.left_out.len()), (19, 1));
}

#[test]
fn a_summary_that_contradicts_the_lines_is_refused() {
    let sum = "a : xmt/rcv/%loss = 20/20/0%, min/avg/max = 1.23/1.23/1.23\n";
    let all = answers() + "\n" + sum;
    let sums = [
        ("loss = 5/9/-80%", "line 22: `5/9/-80` is no sum"),
        ("loss = 20/20/50%", "line 22: `20/20/50` is no sum"),
        ("loss = 20/x/0%", "line 22: `20/x/0` is no sum"),
        ("loss = -20/20/0%", "line 22: `-20/20/0` is no sum"),
        (
            "loss = 5/5/0%",
            "line 22: it says 5 packets were sent and 5 came back, where lines tell of 20 and 20",
        ),
        ("loss = 20/9/55%", "line 22: it says 20 packets were sent and 9 came back"),
    ];
    refused(&all, &sums.map(|(new, words)| ("loss = 20/20/0%", new, words)));
    // More may come back than was sent, and of several sums each may be of a part.
    imported(&with(&all, "loss = 20/20/0%", "return = 20/21/105%"));
    imported(&(all + &sum.replace("20/20", "5/5")));
}
