//! Experiments between real hosts: three machines, each a network namespace with an sshd of its own.
//!
//! ```text
//!   laptop ════ server        quell run, and an ssh with the test's own keys, are on the laptop
//!      ╚═══════ third         each sshd has a folder of its own for the user's cache
//! ```

use crate::support::sshd::Ssh;
use crate::support::{Running, Said, TestFolder, left_out, says};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use quell_model::{Event, Said as AgentSaid, frame};
use quell_netlink::address::NewAddress;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::{Prefix, Stack, tc};
use quell_sys::clock::monotonic_ns;
use quell_sys::last_words::LastWords;
use quell_sys::netns::NetNs;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_tc::{Places, Thing, Tree, seen};
use serde_json::Value;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A machine with an sshd.
struct Machine {
    space: NetNs,
    folder: PathBuf,
    sshd: Child,
    words: LastWords,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// Goes off when a test has waited for too long.
fn patience() -> Alarm {
    let mut alarm = Alarm::new().unwrap();
    alarm.set(Some(monotonic_ns() + 60_000_000_000)).unwrap();
    alarm
}

struct Machines {
    laptop: NetNs,
    /// By the last number of their addresses, 10.99.N.2.
    others: Vec<Machine>,
    dir: TestFolder,
    ssh: Ssh,
}

fn cable(index: usize, here: &NetNs, there: &NetNs) {
    let name = |end: char| format!("{end}{index}").parse().unwrap();
    here.run(|| {
        let mut stack = Stack::open().unwrap();
        let far = VethEnd { namespace: Some(there.as_fd()), ..VethEnd::new(name('b')) };
        stack.create_veth(&VethEnd::new(name('a')), &far).unwrap();
    })
    .unwrap();
    for (space, end, last) in [(here, 'a', 1), (there, 'b', 2)] {
        let addresses = [format!("10.99.{index}.{last}/24"), format!("fd99:{index}::{last}/64")];
        space
            .run(|| {
                let mut stack = Stack::open().unwrap();
                let loopback = stack.index_of(&"lo".parse().unwrap()).unwrap();
                stack.up(loopback).unwrap();
                let device = stack.index_of(&name(end)).unwrap();
                for (number, address) in addresses.iter().enumerate() {
                    let address: Prefix = address.parse().unwrap();
                    let added = stack.add_address(device, &NewAddress::new(address));
                    // A kernel may have no IPv6.
                    assert!(number > 0 || added.is_ok(), "{added:?}");
                }
                stack.up(device).unwrap();
            })
            .unwrap();
    }
}

impl Machines {
    /// A laptop and so many others; none where no sshd can be started here.
    fn new(others: usize) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            left_out::kernel_lacks("an sshd changes its user: it needs root");
            return None;
        }
        let dir = TestFolder::new();
        let ssh = Ssh::new(&dir.path(""))?;
        let laptop = NetNs::new().unwrap();
        let machine = |index: usize| {
            let space = NetNs::new().unwrap();
            cable(index, &laptop, &space);
            let folder = dir.path(&format!("machine-{index}"));
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            let (at, path) = (folder.display(), "/usr/bin:/bin");
            let environment = format!("XDG_CACHE_HOME={at} PATH={at}/bin:{path}");
            let mut sshd = Command::new("unshare");
            sshd.args(["--mount", "--propagation", "private", "sh"])
                .arg(ssh.server(&format!("sshd-{index}"), &environment))
                // Whoever waits for the end of our output waits for nobody else.
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut sshd = space.run(|| sshd.spawn().unwrap()).unwrap();
            let words = LastWords::of(sshd.stderr.take()).unwrap();
            let mut machine = Machine { space, folder, sshd, words };
            machine.listens();
            machine
        };
        let others = (1..=others).map(machine).collect();
        Some(Self { laptop, others, dir, ssh })
    }

    fn command(&self, arguments: &[&str], ssh: &str) -> Command {
        let mut command = self.dir.command(arguments);
        command.env("PATH", self.ssh.path(ssh));
        command
    }

    /// Calls the program on the laptop, with the ssh of this name.
    fn quell_by(&self, ssh: &str, arguments: &[&str]) -> Said {
        let mut command = self.command(arguments, ssh);
        self.laptop.run(|| Running::start(&mut command, arguments)).unwrap().ended()
    }

    fn quell(&self, arguments: &[&str]) -> Said {
        self.quell_by("ssh", arguments)
    }

    /// Starts it there, and waits until the program `signal` of the experiment runs on the server.
    #[track_caller]
    fn begun(&self, arguments: &[&str]) -> Running {
        // Opened for both, it waits for nobody.
        let mut fifo = std::fs::File::options();
        let fifo = fifo.read(true).write(true).open(self.dir.path("begun")).unwrap();
        let mut command = self.command(arguments, "ssh");
        let running = self.laptop.run(|| Running::start(&mut command, arguments)).unwrap();
        let (ended, alarm) = (pidfd::open(running.id()).unwrap(), patience());
        let mut fds = [readable(&fifo), readable(&ended), readable(&alarm)];
        wait(&mut fds).unwrap();
        let [begun, ended, _] = fds.each_ref().map(came);
        if !begun && ended {
            let said = running.ended();
            panic!("it ended before it began: {}{}", said.error, said.out);
        }
        assert!(begun, "it does not begin");
        running
    }

    /// The latest run.
    fn json(&self) -> Value {
        let shown = self.dir.quell(&["show", "--json"]);
        serde_json::from_str(&shown.out).expect("it is JSON")
    }

    fn manifest(&self) -> Value {
        let runs = std::fs::read_dir(self.dir.path("runs")).unwrap();
        let latest = runs.map(|e| e.unwrap().path()).max().unwrap();
        let text = std::fs::read_to_string(latest.join("manifest.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Processes for which this holds of their command line and their folder in /proc.
fn processes(is: impl Fn(&str, &Path) -> bool) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let pid = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(path.join("cmdline")).ok()?.replace('\0', " ");
        is(&line, &path).then_some(pid)
    };
    all.filter_map(pid).collect()
}

impl Machine {
    /// Waits until its sshd takes connections.
    #[track_caller]
    fn listens(&mut self) {
        let alarm = patience();
        loop {
            self.words.read();
            let said = self.words.last();
            if said.contains("Server listening") {
                return;
            }
            let pipe = self.words.pipe().unwrap_or_else(|| panic!("sshd ended: {said}"));
            let mut fds = [readable(pipe), readable(&alarm)];
            wait(&mut fds).unwrap();
            assert!(!came(&fds[1]), "sshd does not listen: {said}");
        }
    }

    /// Processes there of whose command line this holds.
    fn running(&self, is: impl Fn(&str) -> bool) -> Vec<i32> {
        let space = self.space.inode();
        processes(|line, path| {
            let its = std::fs::metadata(path.join("ns/net")).map(|m| m.ino());
            is(line) && !line.starts_with("sh ") && its.ok() == Some(space)
        })
    }

    fn agents(&self) -> Vec<i32> {
        self.running(|line| line.trim_end().ends_with(" agent"))
    }

    /// Waits until the watchdogs of queues there have ended.
    fn until_unwatched(&self) {
        self.running(|line| line.contains(" shape-watchdog ")).into_iter().for_each(until_gone);
    }

    /// With this device's index in a socket there.
    fn at<T: Send>(&self, device: &str, work: impl FnOnce(&mut Socket, u32) -> T + Send) -> T {
        let name = device.parse().unwrap();
        let there = || {
            let index = Stack::open().unwrap().index_of(&name).unwrap();
            work(&mut Socket::open(Protocol::Route).unwrap(), index)
        };
        self.space.run(there).unwrap()
    }

    /// What somebody made on it.
    fn things(&self, device: &str) -> Vec<Thing> {
        self.at(device, |socket, index| seen(&tc::snapshot(socket, index).unwrap()))
    }
}

/// The ssh that a process started.
fn ssh_of(parent: u32) -> Pid {
    let found = processes(|_, path| {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        status.starts_with("Name:\tssh\n") && status.contains(&format!("\nPPid:\t{parent}\n"))
    });
    assert_eq!(found.len(), 1, "{found:?}");
    Pid::from_raw(found[0])
}

/// Waits until a process has ended by itself.
#[track_caller]
fn until_gone(pid: i32) {
    let Ok(process) = pidfd::open(pid.unsigned_abs()) else { return };
    let alarm = patience();
    let mut fds = [readable(&process), readable(&alarm)];
    wait(&mut fds).unwrap();
    assert!(came(&fds[0]), "process {pid} is still there");
}

/// An experiment of this length.
fn small(duration: &str) -> String {
    SMALL.replace("DURATION", duration)
}

/// The same of a minute, with these lines in its table of machines and a program on the server that tells the test once it runs there.
fn long(dir: &TestFolder, more: &str) -> String {
    let fifo = dir.path("begun");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let signal = format!(
        "[[load]]\nname = \"signal\"\nkind = \"command\"\non = \"server\"\nstart = \"500ms\"\n\
         run = [\"sh\", \"-c\", \"echo >{}\"]\n",
        fifo.display()
    );
    small("60s")
        .replace("[[probe]]\nname = \"ping\"", &format!("{signal}[[probe]]\nname = \"ping\""))
        .replace("loads = [\"up\"]", "loads = [\"up\", \"signal\"]")
        .replace("[machines]\n", &format!("[machines]\n{more}\n"))
}

/// What a run shows of a stream.
#[track_caller]
fn row<'a>(shown: &'a Value, stream: &str) -> &'a Value {
    let rows = shown["results"].as_array().unwrap();
    rows.iter().find(|row| row["stream"] == stream).unwrap_or_else(|| panic!("{shown:#}"))
}

const SMALL: &str = r#"
name = "small"
duration = "DURATION"
probes-run = "together"
[topology]
hosts = ["laptop", "server"]
[machines]
laptop = "local"
server = "ssh://root@10.99.1.2:2222"
lost-after = "2s"
[[load]]
name = "up"
kind = "tcp"
from = "laptop"
to = "server"
pacing = "20Mbit"
[[probe]]
name = "ping"
kind = "ping"
from = "laptop"
to = "server"
[[probe]]
name = "udp"
kind = "udp"
from = "laptop"
to = "server"
rate = "80kbit"
size = "100B"
[[scenario]]
name = "plain"
loads = ["up"]
"#;

#[test]
fn between_real_hosts_it_measures_with_one_way_delays_and_their_bound_and_is_installed_by_content()
{
    let Some(machines) = Machines::new(1) else { return };
    machines.dir.write("small.toml", small("2s"));
    let refused = machines.quell(&["run", "small.toml"]).refused(3);
    says(&refused, &["nothing was sent", "`server`", "quell: not found", "--install"]);
    let ran = machines.quell(&["run", "small.toml", "--install"]);
    assert_eq!(ran.code, Some(0), "{}", ran.error);
    let shown = machines.json();
    assert_eq!(shown["kernel"]["backend"], "machines");
    let row = |stream: &str| row(&shown, stream);
    assert!(row("up")["goodput_mbps"].as_f64().unwrap() > 10.0, "{:#}", row("up"));
    assert!(row("ping")["received"].as_u64().unwrap() > 5);
    let clock = &row("udp")["clock_offset"];
    // It is one clock in truth.
    let [offset, bound] = ["offset_ms", "bound_ms"].map(|key| clock[key].as_f64().unwrap());
    assert!(offset.abs() <= bound && bound < 50.0, "{clock:#}");
    let hosts = &machines.manifest()["hosts"];
    let server: Value = serde_json::from_str(hosts["server"].as_str().unwrap()).unwrap();
    let before = |key: &str| server["before"][key].as_i64().unwrap();
    assert!(before("offset_ns").abs() <= before("bound_ns"), "{server:#}");
    assert!(server["kernel"].is_string() && server["clock_disciplined"].is_boolean());

    let shown = machines.dir.quell(&["show"]).fine();
    says(
        &shown,
        &[
            "server: clock known to ± ",
            "laptop: clock known to ± ",
            "; TCP sends with ",
            "one-way delays are corrected by that",
        ],
    );

    let bin = machines.others[0].folder.join("quell/bin");
    let names = || {
        let all = std::fs::read_dir(&bin).unwrap().map(|e| e.unwrap());
        all.map(|e| (e.file_name(), e.metadata().unwrap().ino())).collect::<Vec<_>>()
    };
    let first = names();
    assert_eq!(first.len(), 1, "{first:?}");
    // A built-in experiment; the program is there, and what is there by its content is not copied again.
    machines.dir.write(
        "two.toml",
        "[machines]\nlaptop = \"local\"\nserver = \"ssh://root@10.99.1.2:2222\"\n",
    );
    let short = ["--duration", "1s", "--set", "load.0.start=0s", "--set", "load.0.duration=1s"];
    let ran = machines
        .quell(&[&["run", "tcp_nup", "--on", "two.toml", "--install"], &short[..]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.error);
    let said = ["`host` is laptop", "fq-codel, cake left out", "3 expectations are left out"];
    says(&ran.error, &said);
    says(&ran.out, &["host to server", "up-4"]);
    assert_eq!(names(), first);
    assert!(machines.others[0].agents().is_empty(), "nothing stays there");
}

#[test]
fn all_hosts_that_can_not_begin_are_named_at_once_and_nothing_is_sent() {
    let Some(machines) = Machines::new(2) else { return };
    machines.dir.write("small.toml", small("1s"));
    let three = |server: &str| {
        format!(
            "[machines]\nlaptop = \"local\"\nserver = \"{server}\"\nthird = \"ssh://root@10.99.2.2:2222\"\n"
        )
    };
    let ping = |to: &str| {
        format!("[[probe]]\nname = \"{to}\"\nkind = \"ping\"\nfrom = \"laptop\"\nto = \"{to}\"\n")
    };
    let own = format!(
        "name = \"three\"\nduration = \"1s\"\nprobes-run = \"together\"\n[topology]\n\
         hosts = [\"laptop\", \"server\", \"third\"]\n[[topology.link]]\nname = \"a\"\nends = [\"laptop\", \"server\"]\n\
         [[topology.link]]\nname = \"b\"\nends = [\"server\", \"third\"]\n[[scenario]]\nname = \"plain\"\n{}{}\
         [[load]]\nname = \"x\"\nkind = \"command\"\non = \"server\"\nrun = [\"true\"]\n\
         [[load]]\nname = \"y\"\nkind = \"command\"\non = \"third\"\nrun = [\"true\"]\n",
        ping("server"),
        ping("third"),
    );
    machines.dir.write(
        "three.toml",
        own.replace("name = \"plain\"", "name = \"plain\"\nloads = [\"x\", \"y\"]"),
    );
    machines.dir.write("on.toml", three("ssh://root@10.99.1.2:1"));
    let refused = machines.quell(&["run", "three.toml", "--on", "on.toml"]);
    assert_eq!(refused.code, Some(3), "{}", refused.error);
    let both = ["Connection refused", "`third`", "quell: not found", "nothing was sent"];
    says(&refused.error, &both);
    // A host that only a later measurement needs: what is wrong there is told before the first.
    let program = machines.others[0].folder.join("bin/quell");
    std::fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_quell")))
        .unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let later = own.replace("probes-run = \"together\"\n", "");
    let udp = "kind = \"udp\"\nrate = \"100kbit\"\nsize = 172";
    machines.dir.write("later.toml", later.replace("kind = \"ping\"", udp));
    machines.dir.write("on.toml", three("ssh://root@10.99.1.2:2222"));
    let refused = machines.quell(&["run", "later.toml", "--on", "on.toml"]).refused(3);
    says(&refused, &["nothing was sent", "`third`", "quell: not found"]);
    assert_eq!(refused.matches("quell: not found").count(), 1, "{refused}");
    // A stranger, of whom a password is asked.
    let refused = machines.quell_by("ssh-stranger", &["run", "small.toml"]).refused(3);
    says(&refused, &["`server` (ssh://root@10.99.1.2:2222)", "Permission denied", "ssh-agent"]);
    assert!(!machines.dir.path("runs").exists(), "nothing was begun");
}

#[test]
fn what_was_measured_until_ssh_was_killed_is_kept_and_nothing_stays_there() {
    let Some(machines) = Machines::new(1) else { return };
    machines.dir.write("long.toml", long(&machines.dir, ""));
    let run = machines.begun(&["run", "long.toml", "--install"]);
    let agents = machines.others[0].agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    kill(ssh_of(run.id()), Signal::SIGKILL).unwrap();
    let ended = run.ended();
    let error = ended.error + &ended.out;
    assert_eq!(ended.code, Some(3), "{error}");
    says(&error, &["`server`", "signal: 9"]);
    until_gone(agents[0]);
    let shown = machines.json();
    let ping = row(&shown, "ping");
    assert!(ping["rtt_ms"]["max"].is_number(), "{error}{ping:#}");
}

#[test]
fn where_the_file_says_so_the_others_go_on_without_a_host_whose_ssh_hangs() {
    let Some(machines) = Machines::new(1) else { return };
    let text = long(&machines.dir, "lost-host = \"go-on\"").replace("60s", "8s");
    machines.dir.write("long.toml", text);
    let run = machines.begun(&["run", "long.toml", "--install"]);
    let agents = machines.others[0].agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    kill(ssh_of(run.id()), Signal::SIGSTOP).unwrap();
    // It ends by itself there, while its ssh still hangs.
    until_gone(agents[0]);
    let ended = run.ended();
    let error = ended.error + &ended.out;
    says(&error, &["nothing was heard of it for 2s"]);
    let shown = machines.json();
    let ping = row(&shown, "ping");
    assert!(ping["sent"].as_u64().unwrap() > 30, "it went on for all its time: {ping:#}");
}

/// What a machine's own user had made there before.
const THEIRS: &str = "queue = { kind = \"pfifo\", handle = \"77:\", limit = 77 }";

/// A queue on the server's interface, which the test lets the experiment have.
fn shaped(text: &str) -> String {
    let queue = |rate: &str| {
        format!("{{ kind = \"tbf\", rate = \"{rate}\", burst = \"5kB\", limit = \"100kB\" }}")
    };
    text.replace("[machines]\n", "[machines]\nmanage = [\"server:b1\"]\n")
        .replace("loads = [", "queues = [\"narrow\"]\nloads = [")
        .replace(
            "from = \"laptop\"\nto = \"server\"\npacing",
            "from = \"server\"\nto = \"laptop\"\npacing",
        )
        + &format!("[[queue]]\nname = \"narrow\"\non = \"server:b1\"\nqueue = {}\n", queue("8Mbit"))
        + &format!("[[timeline]]\nat = \"1s\"\non = \"server:b1\"\nqueue = {}\n", queue("4Mbit"))
}

#[test]
fn managed_queues_are_in_force_for_the_time_of_a_run_and_change_at_their_time() {
    let Some(machines) = Machines::new(1) else { return };
    let server = &machines.others[0];
    let theirs = toml::from_str::<Tree>(THEIRS).unwrap().plan().unwrap().things();
    server.at("b1", |socket, index| {
        tc::lead_to(socket, index, &theirs, Places::ALL).unwrap();
    });
    let before = server.things("b1");
    machines.dir.write("shaped.toml", shaped(&small("3s")));
    let ran = machines.quell(&["run", "shaped.toml", "--install"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.error);
    assert_eq!(server.things("b1"), before, "as it was before");
    let shown = machines.json();
    // 8 Mbit/s for a second and 4 for two, less headers; and what was in the queue when it was made slower.
    let up = row(&shown, "up")["goodput_mbps"].as_f64().unwrap();
    assert!((4.3..5.6).contains(&up), "{up}: {shown:#}");
    let data = machines.dir.quell(&["data", "export", "csv", "--table", "queues"]);
    assert!(data.out.contains("tbf"), "{}{}", data.out, data.error);
    server.until_unwatched();
}

#[test]
fn who_is_not_root_at_a_host_has_no_queue_of_it_and_nothing_is_sent() {
    let Some(machines) = Machines::new(1) else { return };
    let server = &machines.others[0];
    let before = server.things("b1");
    // What ssh finds there gives up what root may.
    let other = server.folder.join("bin/quell");
    let script = format!(
        "#!/bin/sh\nexec 9<{}\nexec setpriv --reuid 65534 --regid 65534 --clear-groups /proc/self/fd/9 \"$@\"\n",
        env!("CARGO_BIN_EXE_quell")
    );
    std::fs::write(&other, script).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o755)).unwrap();
    machines.dir.write("shaped.toml", shaped(&small("3s")));
    let refused = machines.quell(&["run", "shaped.toml"]).refused(3);
    let words = [
        "`server` (ssh://root@10.99.1.2:2222)",
        "the queue of b1 is changed by root alone, and the agent is user 65534",
        "log in there as root",
        "nothing was sent",
    ];
    says(&refused, &words);
    assert_eq!(server.things("b1"), before);
    assert!(!machines.dir.path("runs").exists(), "nothing was begun");
}

#[test]
fn whatever_ends_a_run_in_the_middle_the_managed_queue_is_as_before() {
    let Some(machines) = Machines::new(1) else { return };
    let server = &machines.others[0];
    let before = server.things("b1");
    machines.dir.write("long.toml", shaped(&long(&machines.dir, "")));
    for end in
        ["ssh is killed", "ssh hangs", "the agent is killed", "quell run is killed", "Ctrl-C"]
    {
        let run = machines.begun(&["run", "long.toml", "--install"]);
        let agents = server.agents();
        assert_eq!(agents.len(), 1, "{end}: {agents:?}");
        assert_ne!(server.things("b1"), before, "{end}: in force");
        let own = Pid::from_raw(run.id() as i32);
        let (whom, signal) = match end {
            "ssh is killed" => (ssh_of(run.id()), Signal::SIGKILL),
            "ssh hangs" => (ssh_of(run.id()), Signal::SIGSTOP),
            "the agent is killed" => (Pid::from_raw(agents[0]), Signal::SIGKILL),
            "quell run is killed" => (own, Signal::SIGKILL),
            _ => (own, Signal::SIGINT),
        };
        kill(whom, signal).unwrap();
        until_gone(agents[0]);
        server.until_unwatched();
        assert_eq!(server.things("b1"), before, "{end}");
        let said = run.ended();
        let words: &[&str] = match end {
            "ssh is killed" => &["`server`", "signal: 9"],
            "ssh hangs" => &["`server`", "nothing was heard of it for 2s"],
            "the agent is killed" => &["`server`"],
            _ => &[],
        };
        says(&said.error, words);
        assert_ne!(said.code, Some(0), "{end}: {}", said.error);
        assert!(server.agents().is_empty(), "{end}");
    }
}

#[test]
fn what_a_real_host_can_not_have_is_refused_with_its_line() {
    let dir = TestFolder::new();
    let own = shaped(&small("3s"));
    let all = "loads = [\"up\"]\n";
    let cases: [(&str, &str, &[&str]); 12] = [
        ("manage = [\"server:b1\"]\n", "", &["narrow", "server:b1", "manage = ["]),
        ("manage = [\"server:b1\"]", "manage = [\"b1\"]", &["line 8", "node:link"]),
        ("server:b1\"]", "server:b1\", \"router:wan\"]", &["line 8", "no machine `router`"]),
        (
            all,
            "loads = [\"up\"]\nsysctl = { server = { \"net.ipv4.tcp_ecn\" = \"1\" } }\n",
            &["tcp_ecn"],
        ),
        (
            all,
            "loads = [\"up\"]\nroutes = [{ on = \"server\", to = \"laptop\", quickack = true }]\n",
            &["routes"],
        ),
        ("pacing =", "ecn = true\npacing =", &["set up for ECN"]),
        (
            "on = \"server:b1\"\nqueue",
            "on = \"server:b1\"\ndirection = \"in\"\nqueue",
            &["quell shape"],
        ),
        ("at = \"1s\"\non = \"server:b1\"\n", "at = \"1s\"\non = \"server:b2\"\n", &["timeline"]),
        ("server = \"ssh://", "server = \"ftp://", &["line 10", "is no machine"]),
        (
            "lost-after = \"2s\"",
            "lost-after = \"1ms\"",
            &["line 11", "`lost-after`: 1ms is not from 2s to 1h"],
        ),
        (
            "lost-after",
            "first-port = 0\nlost-after",
            &["line 11", "`first-port`: 0 is not from 1 to 65000"],
        ),
        ("laptop = \"local\"", "\"a\\u001b[31m\" = \"local\"", &["`a\\u{1b}[31m`: use letters"]),
    ];
    for (from, to, words) in cases {
        let text = own.replacen(from, to, 1);
        assert_ne!(text, own, "{from}");
        dir.write("wrong.toml", text);
        let refused = dir.quell(&["run", "wrong.toml"]).refused(2);
        says(&refused, &[words, &["wrong.toml"]].concat());
        assert!(refused.contains(", line "), "{from}: {refused}");
    }
}

#[test]
fn another_version_an_ssh_that_says_nothing_and_a_way_by_ipv6() {
    let Some(machines) = Machines::new(1) else { return };
    let server = &machines.others[0];
    machines.dir.write("small.toml", small("1s"));
    let hello = AgentSaid::<Event>::Hello { version: 99, monotonic_ns: 0 };
    std::fs::write(server.folder.join("hello"), frame::encode(&hello).unwrap()).unwrap();
    let (program, hello) = (server.folder.join("bin/quell"), server.folder.join("hello"));
    std::fs::write(&program, format!("#!/bin/sh\ncat {}\nexec cat >/dev/null\n", hello.display()))
        .unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let refused = machines.quell(&["run", "small.toml"]).refused(3);
    says(&refused, &["nothing was sent", "`server`", "speaks version 99", "--install"]);

    let silent = machines.dir.path("bin-silent");
    std::fs::create_dir(&silent).unwrap();
    std::fs::write(silent.join("ssh"), "#!/bin/sh\nexec sleep 60\n").unwrap();
    std::fs::set_permissions(silent.join("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
    let refused = machines.quell_by("silent", &["run", "small.toml"]).refused(3);
    says(&refused, &["nothing was sent", "`server`", "no agent began there"]);
    assert!(!machines.dir.path("runs").exists(), "nothing was begun");

    let v6 = small("1s").replace("10.99.1.2", "[fd99:1::2]");
    machines.dir.write("v6.toml", v6);
    if !Path::new("/proc/net/if_inet6").exists() {
        return left_out::kernel_lacks("the kernel has no IPv6");
    }
    let ran = machines.quell(&["run", "v6.toml", "--install"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.error);
    assert!(row(&machines.json(), "ping")["received"].as_u64().unwrap() > 3);
}
