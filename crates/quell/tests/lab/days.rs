//! Bad days: programs that are killed, guests that hang, disks that are full. What was measured is kept, and nothing is left behind.

use super::support::{PING, TestFolder, near, two_hosts};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::Child;
use std::time::{Duration, Instant};

/// An experiment that takes minutes of wall time: much virtual time, many packets. It has not ended before a test that stands still for seconds
/// has had its look.
fn long() -> String {
    two_hosts(
        "both = { rate = \"50Mbit\", delay = \"5ms\" }",
        &format!(
            "[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{PING}"
        ),
    )
    .replace("duration = \"20s\"", "duration = \"3000s\"")
}

/// Waits until something holds; fails after five minutes.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(300);
    while !holds() {
        assert!(Instant::now() < give_up, "{what}: not within 300 s");
        // Looks again soon; a look costs little.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Processes whose environment says that they belong to this dir: guests and what they started inherit it.
fn processes_of(dir: &TestFolder) -> Vec<i32> {
    let mark = format!("QUELL_TEST_DESK={}", dir.path().display());
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let of = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let alive = !String::from_utf8_lossy(&of("stat")).contains(") Z ");
            alive
                && (cwd.starts_with(dir.path())
                    || of("environ").split(|b| *b == 0).any(|v| v == mark.as_bytes()))
        })
        .collect()
}

fn start(dir: &TestFolder, arguments: &[&str]) -> Child {
    let mut command = dir.command(arguments);
    command.env("QUELL_TEST_DESK", dir.path());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().expect("quell can be started")
}

/// Bytes in the journals of the only run.
fn journal_bytes(dir: &TestFolder) -> u64 {
    let Ok(runs) = std::fs::read_dir(dir.path().join("runs")) else { return 0 };
    let journals = runs.flatten().filter_map(|r| std::fs::read_dir(r.path().join("journal")).ok());
    journals
        .flatten()
        .flatten()
        .filter_map(|f| f.metadata().ok())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum()
}

fn started(dir: &TestFolder) -> Child {
    let file = dir.file("long.toml", &long());
    let child = start(dir, &["run", &file.to_string_lossy()]);
    wait_until("the first seconds are measured", || journal_bytes(dir) > 20_000);
    child
}

fn shown(dir: &TestFolder) -> Value {
    let output = dir.quell(&["show", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What was measured is there, and shown under this word.
fn is_usable_but(word: &str, dir: &TestFolder) {
    let shown = shown(dir);
    assert_eq!(shown["complete"], false);
    let ping = shown["results"].as_array().expect("rows").iter().find(|r| r["stream"] == "ping");
    let received = ping.expect("pings were kept")["received"].as_u64().expect("a count");
    assert!(received > 10, "{received}");
    let text = String::from_utf8_lossy(&dir.quell(&["show"]).stdout).into_owned();
    assert!(text.contains(word), "{text}");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_nothing_behind() {
    let dir = TestFolder::new();
    let mut child = started(&dir);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "stopped is not fine, and not a crash");
    // The guests' processes are killed with their kernel; the last breath of one may be a moment later.
    wait_until("every process is gone", || processes_of(&dir).is_empty());
    is_usable_but("STOPPED", &dir);
    assert!(dir.only_run().join("samples.parquet").exists(), "an orderly stop finishes the run");
}

#[test]
fn kill_9_of_the_program_ends_its_guests_and_keeps_what_was_measured() {
    let dir = TestFolder::new();
    let mut child = started(&dir);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    wait_until("every process is gone", || processes_of(&dir).is_empty());
    is_usable_but("PARTIAL", &dir);
}

#[test]
fn kill_9_of_a_guest_is_told_and_the_others_go_on() {
    let dir = TestFolder::new();
    let file = dir.file("long.toml", &long());
    let mut child = start(&dir, &["run", &file.to_string_lossy()]);
    wait_until("the guest works", || journal_bytes(&dir) > 20_000);
    let own = child.id() as i32;
    // The guest's kernel is the child of the program that works in the run's folder.
    let guests: Vec<i32> = processes_of(&dir).into_iter().filter(|p| *p != own).collect();
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|r| r.split(' ').nth(1)?.parse::<i32>().ok())
    };
    let kernel = guests.iter().find(|p| parent(**p) == Some(own)).expect("there is a guest");
    kill(Pid::from_raw(*kernel), Signal::SIGKILL).expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(3));
    wait_until("every process is gone", || processes_of(&dir).is_empty());
    is_usable_but("PARTIAL", &dir);
}

#[test]
fn an_agent_that_is_killed_is_told_and_the_others_go_on() {
    let dir = TestFolder::new();
    // A program's parent is the agent of its host.
    let text = two_hosts(
        "both = { delay = \"10ms\" }",
        &format!(
            "[[load]]\nname = \"murder\"\nkind = \"command\"\non = \"b\"\nstart = \"5s\"\n\
             run = [\"sh\", \"-c\", \"kill -9 $PPID\"]\n\
             [[load]]\nname = \"later\"\nkind = \"command\"\non = \"b\"\nstart = \"10s\"\nrun = [\"true\"]\n\
             [[scenario]]\nname = \"s\"\nloads = [\"murder\", \"later\"]\n{PING}"
        ),
    );
    let file = dir.file("e.toml", &text);
    let output = dir.quell(&["run", &file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "two loads were missing");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("load/later on b: its agent died"), "{said}");
    let shown = shown(&dir);
    assert_eq!(shown["complete"], true);
    let ping = shown["results"].as_array().expect("rows").iter().find(|r| r["stream"] == "ping");
    assert_eq!(ping.expect("pings")["sent"], 400, "the other host's probe went on to its end");
}

#[test]
fn a_guest_that_does_not_end_is_ended_at_its_wall_limit() {
    let dir = TestFolder::new();
    let file = dir.file("long.toml", &long());
    let output = dir.quell(&["run", &file.to_string_lossy(), "--wall-limit", "2s"]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("still ran after 2 s"), "{said}");
    // How far a guest gets within two seconds is the machine's: all that it wrote is kept, be it nothing.
    if journal_bytes(&dir) > 20_000 {
        is_usable_but("PARTIAL", &dir);
    }
    assert_eq!(shown(&dir)["complete"], false);
}

#[test]
fn a_clock_that_is_set_back_disturbs_nothing() {
    let dir = TestFolder::new();
    // The guest's own wall clock is set a day back half way; programs in it share the guest's clock.
    let text = two_hosts(
        "both = { delay = \"10ms\" }",
        &format!(
            "[[load]]\nname = \"step\"\nkind = \"command\"\non = \"a\"\nstart = \"10s\"\n\
             run = [\"date\", \"-s\", \"2001-01-01 00:00:00\"]\n\
             [[scenario]]\nname = \"s\"\nloads = [\"step\"]\n{PING}{}",
            super::support::UDP
        ),
    );
    let results = dir.run(&text, &[]);
    for stream in ["ping", "udp"] {
        near(results.number("s", stream, "loss_ratio"), 0.0, 0.0);
        near(results.number("s", stream, "rtt_ms.max"), 20.0, 0.001);
    }
    near(results.number("s", "udp", "up_ms.max"), 10.0, 0.001);
}

#[test]
fn a_full_disk_is_told_and_leaves_a_run_that_can_be_read() {
    let dir = TestFolder::new();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    let file = dir.file("long.toml", &long());
    // A file system of 300 kB in a mount namespace of its own: gone with the shell.
    let script = format!(
        "mount -t tmpfs -o size=300k small '{0}' && cd '{0}' && '{1}' run '{2}'; code=$?; \
         '{1}' show --json > '{3}/shown.json'; echo \"show $?\" > '{3}/codes'; echo \"run $code\" >> '{3}/codes'",
        small.display(),
        super::support::QUELL,
        file.display(),
        dir.path().display()
    );
    let output = std::process::Command::new("unshare")
        .args(["-Urm", "sh", "-c", &script])
        .output()
        .expect("unshare is there");
    let codes = std::fs::read_to_string(dir.path().join("codes")).expect("the script ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(codes.contains("show 0") && codes.contains("run 3"), "{codes}: {said}");
    for part in ["No space left", "make room", "Nothing is lost", "quell show runs/"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let shown = std::fs::read_to_string(dir.path().join("shown.json")).expect("shown");
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["complete"], false);
}
