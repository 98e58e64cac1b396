//! `quell tune` in the lab: what it predicts is what a transfer reaches, and in a guest's own settings it comes and goes.
//!
//! ```text
//!   here ════════ there        1 Gbit/s, 100 ms
//! ```

use super::support::{QUELL, TestFolder};
use serde_json::Value;

const PATH: &str =
    "hosts = [\"here\", \"there\"]\n[[link]]\nname = \"path\"\nends = [\"here\", \"there\"]\n";

/// Runs a script on `here`; `$Q` is quell. Its output, where it went well.
fn here(line: &str, more: &[&str], script: &str) -> String {
    let dir = TestFolder::new();
    let file = dir.file("path.toml", &format!("{PATH}{line}\n"));
    let script = format!("set -e; Q={QUELL}; {script}");
    let file = file.to_string_lossy().into_owned();
    let mut arguments = vec!["lab", "exec", &file, "here", "--memory", "512"];
    arguments.extend(more);
    arguments.extend(["--", "sh", "-c", &script]);
    let output = dir.quell(&arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn settings_come_and_go_in_a_guest_and_nobody_has_to_be_there_for_it() {
    let said = here(
        "",
        &[],
        r#"
        places="--root /tmp/root --state /run/tune"
        all() { cat /proc/sys/net/ipv4/tcp_?mem; ls /tmp/root/etc/sysctl.d /tmp/root/var/lib/quell 2>/dev/null || true; }
        all >/tmp/before
        apply="$Q tune apply --role transfer --rate 1Gbit --rtt 100ms $places"
        $apply --confirm-within 20s >/dev/null; sleep 19; $Q tune status $places
        sleep 2; $Q tune status $places; all >/tmp/after
        diff /tmp/before /tmp/after && echo taken back
        $apply; cat /proc/sys/net/ipv4/tcp_rmem; $Q tune status $places; $apply
        $Q tune revert $places; rmdir /tmp/root/etc/sysctl.d /tmp/root/var/lib/quell
        all >/tmp/after; diff /tmp/before /tmp/after && echo as before"#,
    );
    for words in [
        "transfer, 1Gbit, 100ms; in force for 1s, unless: quell tune confirm",
        "nothing of `quell tune` is in force\ntaken back",
        "net.ipv4.tcp_rmem = 4096 131072 25165824\n",
        "4096\t131072\t25165824\n",
        "transfer, 1Gbit, 100ms: all was as wanted",
        "transfer, 1Gbit, 100ms: all is as it was before\nas before",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn a_transfer_reaches_what_was_predicted_with_the_defaults_and_tuned() {
    let dir = TestFolder::new();
    let output = dir.quell(&[
        "tune", "plan", "--role", "transfer", "--rate", "1Gbit", "--rtt", "100ms", "--prove",
        "lab", "--json", "--root", "root", "--state", "state",
    ]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{wrong}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let way = &document["proof"]["ways"][0];
    let numbers = |key: &str| -> Vec<f64> {
        let list = way[key].as_array().unwrap_or_else(|| panic!("{key} in {document:#}"));
        list.iter().map(|v| v.as_f64().expect("a number")).collect()
    };
    let predicted = numbers("predicted_bits_per_second");
    for (key, predicted) in ["now_bits_per_second", "then_bits_per_second"].iter().zip(predicted) {
        for measured in numbers(key) {
            let off = measured / predicted - 1.0;
            assert!(off.abs() < 0.05, "{key}: {measured}, predicted {predicted}");
        }
    }
    assert_eq!(document["proof"]["helped"], true);
    assert!(numbers("then_bits_per_second")[0] > 900e6, "the line is full: {document:#}");
}

#[test]
fn what_a_server_shows_to_help_stays_and_what_does_not_is_taken_back() {
    let serve = format!("there: {QUELL} serve --bind {{there}}");
    let prove = |script: &str| {
        let apply = "$Q tune apply --role transfer --rtt 200ms --prove {there} --time 4s $places";
        let script = script.replace("APPLY", apply);
        let script = format!("places='--root /tmp/root --state /run/tune'; {script}");
        here("both = { rate = \"5Mbit\", delay = \"100ms\" }", &["--with", &serve], &script)
    };
    // Buffers that somebody made small: 46 kB under way where 125 kB are needed.
    let said = prove(
        "for i in r w; do echo 4096 16384 131072 >/proc/sys/net/ipv4/tcp_${i}mem; done; \
         APPLY --rate 5Mbit; $Q tune status $places; $Q tune revert $places; cat /proc/sys/net/ipv4/tcp_wmem",
    );
    for words in [
        "up faster",
        "down faster",
        "it helps",
        "transfer, 5Mbit, 200ms; in force",
        "4096\t16384\t131072\n",
    ] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
    // Larger buffers than the line needs: no gain.
    let said = prove(
        "cat /proc/sys/net/ipv4/tcp_?mem >/tmp/before; APPLY --rate 1Gbit || echo code $?; $Q tune status $places; \
         cat /proc/sys/net/ipv4/tcp_?mem | cmp - /tmp/before && echo as before",
    );
    let wanted = [
        "that it helps is not shown",
        "all is as it was before\ncode 1",
        "nothing of `quell tune` is in force",
        "as before\n",
    ];
    for words in wanted {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
}
