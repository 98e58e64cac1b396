//! Any program of this machine in the lab: its output, its exit code, its clock.

use super::support::{QUELL, TestFolder, lacks_iperf3};
use super::terminal::terminal;
use std::time::{Duration, Instant};

#[test]
fn exit_code_and_both_streams_come_through() {
    let output = TestFolder::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "b",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("err"));
}

/// A guest may put anything into the folder that it shares with its host; what is a link there leads nowhere.
#[test]
fn an_exit_code_that_is_a_link_is_not_followed() {
    let script = "cd /mnt && rm -f exit && ln -s /dev/zero exit";
    let output =
        TestFolder::new().quell(&["lab", "exec", "home-link", "b", "--", "sh", "-c", script]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("the program's end was not reported"), "{error}");
}

#[test]
fn an_hour_passes_in_a_moment() {
    let begun = Instant::now();
    let output = TestFolder::new().quell(&["lab", "exec", "home-link", "b", "--", "sleep", "3600"]);
    assert!(output.status.success());
    // Where all CPUs are busy the guest alone takes half a minute.
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[test]
fn iperf3_finds_the_lines_rate() {
    if lacks_iperf3() {
        return;
    }
    let output = TestFolder::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "b",
        "--with",
        "server: iperf3 -s",
        "--",
        "iperf3",
        "-c",
        "{server}",
        "-t",
        "4",
        "-J",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
    assert!((2.0e6..2.45e6).contains(&rate), "{rate}");
}

#[test]
fn what_is_lost_with_the_guest_is_told_once() {
    let exec = |script: &str| {
        let output =
            TestFolder::new().quell(&["lab", "exec", "home-link", "b", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = exec("mkdir /tmp/deep; echo packets >/tmp/deep/trace.pcap");
    assert!(said.contains("is lost with it, as /tmp/deep/trace.pcap;"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(exec("echo more >/dev/shm/more").contains("as /dev/shm/more;"));
    // A lock, and what was removed, are no loss.
    assert_eq!(exec("touch /tmp/lock; echo x >/tmp/gone; rm /tmp/gone"), "");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let program = "/no/such/program/at/the/end/of/a/long/path/of/many/folders";
    let output = TestFolder::new().quell(&["lab", "exec", "home-link", "b", "--", program]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(program) && said.contains("`b`"), "{said}");
}

#[test]
fn a_shell_has_a_terminal_on_its_host() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let dir = TestFolder::new();
    // script(1) gives it a terminal; what is typed comes from a pipe. It is ended if nothing happens for ten minutes.
    let shell = format!("{} lab shell home-link b", QUELL);
    let mut child = Command::new("timeout")
        .args(["600", "script", "-qec", &shell, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("timeout and script are part of every Debian");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    // What is typed before there is a prompt is thrown away by the terminal.
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"# ") && !said.ends_with(b"$ ") {
        assert_eq!(output.read(&mut byte).expect("it can be read"), 1, "no prompt: {said:?}");
        said.push(byte[0]);
    }
    input.write_all(b"echo we-are-on-$QUELL_HOST $(tty)\nexit 5\n").expect("it listens");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("it can be read");
    assert!(rest.contains("we-are-on-b /dev/tty0"), "{rest}");
    assert_eq!(child.wait().expect("it ends").code(), Some(5), "{rest}");
}

#[test]
fn ctrl_c_ends_the_program_and_leaves_nothing_behind() {
    use std::process::Stdio;
    let dir = TestFolder::new();
    let mut command = dir.command(&[
        "lab",
        "exec",
        "home-link",
        "b",
        "--real-time",
        "--",
        "sh",
        "-c",
        "echo up; sleep 600",
    ]);
    command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("quell can be started");
    let mut byte = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut byte).expect("it works");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn companions_are_heard_when_asked_for_and_when_something_fails() {
    let dir = TestFolder::new();
    let lab = |more: &[&str], command: &[&str]| {
        let all = [&["lab", "exec", "home-link", "b"], more, &["--"], command].concat();
        let output = dir.quell(&all);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let talks = dir.file("talks.sh", "echo one; echo two >&2; sleep 60");
    let talks = format!("server: sh {}", talks.display());
    assert_eq!(lab(&["--with", &talks], &["true"]), (Some(0), String::new()), "nobody asked");
    let (code, said) = lab(&["--with", &talks, "--show-with"], &["true"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("[server: sh] one\n") && said.contains("[server: sh] two\n"), "{said}");
    let (code, said) = lab(&["--with", &talks], &["sh", "-c", "exit 4"]);
    assert_eq!(code, Some(4));
    assert!(said.contains("[server: sh] one\n"), "{said}");
    let (_, said) = lab(&["--with", "server: cat /no/such/file"], &["true"]);
    assert!(said.contains("[server: cat]"), "a companion that failed tells why: {said}");
}

#[test]
fn hosts_are_known_by_name_and_nobody_waits_for_a_name_server() {
    let dir = TestFolder::new();
    let home = ["lab", "exec", "home-link", "b", "--"];
    let output = dir.quell(&[&home[..], &[QUELL, "ping", "-4", "-c", "1", "server"]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 sent, 1 received"), "{said}");
    // A name that nobody has, and an address without a name: what would wait for a name server waits 5 s.
    let asks = "date +%s%N; getent hosts nowhere.example; getent hosts 192.0.2.1; date +%s%N; \
                getent hosts {server}";
    let output = dir.quell(&[&home[..], &["sh", "-c", asks]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let [begun, ended, found] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let time = |text: &str| text.parse::<u64>().unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(time(ended) - time(begun) < 1_000_000_000, "{said}");
    assert!(found.ends_with(" server"), "an address has its name too: {said}");
}

#[test]
fn a_shell_has_its_terminals_size_and_says_nothing_when_it_ends() {
    use std::io::{Read, Write};
    let dir = TestFolder::new();
    let (mut ours, theirs) = terminal(33, 77);
    let mut command = std::process::Command::new("timeout");
    command.args(["600", QUELL, "lab", "shell", "home-link", "b"]);
    command.env("SHELL", "/bin/sh").current_dir(dir.path());
    let twin = || theirs.try_clone().expect("a descriptor");
    command.stdin(twin()).stdout(twin()).stderr(twin());
    let mut child = command.spawn().expect("quell can be started");
    drop((command, theirs));
    let mut said = Vec::new();
    let mut until = |ours: &mut std::fs::File, wanted: &str| {
        let mut byte = [0];
        said.clear();
        while !String::from_utf8_lossy(&said).contains(wanted) {
            // The terminal gives EIO when nobody is left on the other end.
            let got = ours.read(&mut byte).unwrap_or(0);
            assert_eq!(got, 1, "no `{wanted}` in {}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
    };
    until(&mut ours, "# ");
    ours.write_all(b"stty size\n").expect("it listens");
    until(&mut ours, "33 77");
    ours.write_all(b"exit 3\n").expect("it listens");
    let mut rest = String::new();
    let _ = ours.read_to_string(&mut rest);
    assert_eq!(child.wait().expect("it ends").code(), Some(3), "{rest}");
    assert!(!rest.contains("halted"), "{rest}");
}
