//! `quell twin check` holds a twin to loads that it was not learnt from, and names what is wrong with it.
//!
//! ```text
//!   a ═══line═══ b      a: quell twin learn, check, loads      b: quell serve
//! ```

use super::support::{PING, QUELL, TestFolder};

#[test]
fn a_learnt_twin_holds_and_one_with_a_wrong_rate_or_buffer_is_named() {
    let dir = TestFolder::new();
    let network = dir.file(
        "network.toml",
        &format!(
            "name = \"story\"\nduration = \"200s\"\n[topology]\nhosts = [\"a\", \"b\"]\n[[topology.link]]\nname = \"line\"\n\
             ends = [\"a\", \"b\"]\nup = {{ rate = \"4Mbit\", delay = \"10ms\", buffer = \"80p\" }}\n\
             down = {{ rate = \"20Mbit\", delay = \"15ms\", buffer = \"256kB\" }}\n[[scenario]]\nname = \"s\"\n{PING}"
        ),
    );
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0");
    let network = network.to_string_lossy();
    let on_a = |script: &str| {
        let script = format!("Q={QUELL}; {script}");
        let exec = ["lab", "exec", &network, "a", "--with", &serve, "--", "sh", "-c", &script];
        let output = dir.quell(&exec);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let learn = "$Q twin learn {b} -o /tmp/line.toml --json >/dev/null; cat /tmp/line.toml";
    let (_, right, _) = on_a(learn);
    let check = |line: &str| {
        let line = dir.file("line.toml", line);
        on_a(&format!("$Q twin check {} --kernel host", line.display()))
    };
    let (code, told, said) = check(&right);
    assert!(code == Some(0) && told.starts_with("The twin holds: all 15"), "{told}{said}");
    let of = |word: &str| right.lines().filter(|line| line.starts_with(word)).collect::<Vec<_>>();
    for (is, other, wrong) in [
        (of("rate")[0], "rate = { value = \"3.6 Mbit/s\" }", "the rate up is not"),
        (of("buffer")[1], "buffer = { value = \"128 kB\" }", "the buffer or the delay down is not"),
    ] {
        let (code, told, said) = check(&right.replace(is, other));
        assert!(code == Some(1) && told.replace('\n', " ").contains(wrong), "{told}{said}");
    }
    let silent = dir.quell(&["twin", "check", "line.toml", "127.0.0.1:9"]);
    assert_eq!(silent.status.code(), Some(3), "nobody listens there");
}
