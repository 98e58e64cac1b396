//! A run in parts is the run of one machine, byte for byte, whoever starts the parts and however often: GNU parallel, Slurm, make, and what
//! Kubernetes would start.

use crate::left_out;
use crate::support::{QUELL, TestFolder};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Four rates, so many times each: the cheapest cells that there are.
fn cells(repeat: u32) -> String {
    format!(
        r#"
name     = "cells"
duration = "200ms"
repeat   = {repeat}
sweep    = {{ "topology.link.line.up.rate" = ["1Mbit", "2Mbit", "5Mbit", "10Mbit"] }}
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "line"
ends = ["a", "b"]
up   = {{ rate = "2Mbit", delay = "5ms", buffer = "30p" }}
down = {{ delay = "5ms" }}
[[scenario]]
name = "plain"
[[probe]]
name = "ping"
kind = "ping"
interval = "20ms"
from = "a"
to   = "b"
"#
    )
}

/// All of a run that is not of its machine.
fn measured(run: &Path) -> (Vec<Vec<u8>>, Value) {
    let read = |name: &str| fs::read(run.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let tables =
        ["samples.parquet", "flows.parquet", "queues.parquet", "outputs.jsonl", "facts.jsonl"];
    let mut manifest: Value =
        serde_json::from_slice(&read("manifest.json")).expect("a manifest is JSON");
    for of_the_machine in ["run", "started", "machine", "wall_s"] {
        manifest[of_the_machine].take();
    }
    let cells = manifest["cells"].as_array_mut().expect("cells");
    cells.iter_mut().for_each(|cell| drop(cell["wall_s"].take()));
    (tables.map(read).to_vec(), manifest)
}

#[track_caller]
fn went_well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A folder with the experiment, and a `quell` of which the first try of parts 3 and 7 is killed once a first scenario is done.
struct Fleet {
    lab: TestFolder,
    path: String,
}

impl Fleet {
    fn new(text: &str, before: &Path) -> Self {
        let lab = TestFolder::new();
        lab.file("cells.toml", text);
        let script = format!(
            r#"#!/bin/sh
part=$(echo "$*" | sed -n 's|.*--part \([37]\)/10.*|\1|p')
if [ -n "$part" ] && mkdir tried-$part 2>/dev/null; then
    mkfifo tried-$part/said
    {QUELL} "$@" 2>tried-$part/said & pid=$!
    read line <tried-$part/said
    # A requeued job is ended by its scheduler; the other is as if its machine had lost its power.
    [ $part = 3 ] || kill -9 $pid
    [ -z "$SLURM_JOB_ID" ] || {{ scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$part"; wait; }}
    kill -9 $pid
    exit 137
fi
exec {QUELL} "$@"
"#
        );
        let own = lab.file("quell", &script);
        fs::set_permissions(own, fs::Permissions::from_mode(0o755)).expect("it is a program");
        let rest = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{rest}", lab.path().display(), before.display());
        Self { lab, path }
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).env("PATH", &self.path).current_dir(self.lab.path());
        command.stdin(Stdio::null());
        command
    }

    /// The recipe for ten parts, as a file.
    fn recipe(&self, scheduler: &str) -> &'static str {
        let split = ["run", "cells.toml", "--split", "10", "--for", scheduler];
        self.lab.file("recipe", &went_well(&self.lab.quell(&split)));
        "recipe"
    }

    fn whole(&self) -> (Vec<Vec<u8>>, Value) {
        for part in [3, 7] {
            assert!(self.lab.path().join(format!("tried-{part}")).exists(), "{part} was killed");
        }
        let parts = fs::read_dir(self.lab.path().join("parts")).expect("parts").count();
        assert_eq!(parts, 12, "ten, and what two left that were killed");
        measured(&self.lab.path().join("whole"))
    }
}

/// Where `make test` unpacks servers of others. None, and said so, where this one is not there.
fn unpacked(program: &str) -> Option<PathBuf> {
    let target = Path::new(QUELL).ancestors().nth(2).expect("target/debug/quell");
    let folder = target.join("unpacked");
    let is_there = folder.join(program).exists();
    if !is_there {
        left_out::for_want_of(format!("{} is not unpacked (make test does it)", program));
    }
    is_there.then_some(folder)
}

/// Ten parts of four times so many cells, started by GNU parallel and by Slurm, beside one machine.
fn ten_parts_are_one_machine(repeat: u32) {
    let text = cells(repeat);
    let one = TestFolder::new();
    one.file("cells.toml", &text);
    went_well(&one.quell(&["run", "cells.toml"]));
    let one = measured(&one.only_run());
    assert_eq!(one.1["cells"].as_array().map(Vec::len), Some(4 * repeat as usize));

    if let Some(unpacked) = unpacked("usr/bin/parallel") {
        let fleet = Fleet::new(&text, &unpacked.join("usr/bin"));
        fleet.lab.file("machines.txt", ":\n");
        let recipe = fleet.recipe("parallel");
        let said = went_well(&fleet.command("sh", &[recipe]).output().expect("sh"));
        assert!(said.ends_with("complete, from 10 parts.\nrun     whole\n"), "{said}");
        assert!(fleet.whole() == one, "GNU parallel's parts are another run");
    }
    if let Some(unpacked) = unpacked("usr/sbin/slurmctld-wlm") {
        let fleet = Fleet::new(&text, &unpacked.join("usr/bin"));
        let recipe = fleet.recipe("slurm");
        let cluster = match Cluster::start(&unpacked) {
            Ok(cluster) => cluster,
            Err(why) => return left_out::kernel_lacks(why),
        };
        // A node that takes no job lets it wait for ever.
        let ask = |limit: &str, words: &[&str]| {
            let mut command = fleet.command("timeout", &[&[limit], words].concat());
            cluster.known_to(&mut command).output().expect("timeout")
        };
        let told = |words: &[&str]| String::from_utf8_lossy(&ask("10", words).stdout).into_owned();
        let first = ask("60", &["srun", "true"]);
        if !first.status.success() {
            let error = String::from_utf8_lossy(&first.stderr).into_owned();
            let node = told(&["sinfo", "-o", "%n %T %E"]);
            return left_out::kernel_lacks(format!("Slurm runs no job here: {error}{node}"));
        }
        let sent = ask("300", &["sbatch", "--wait", recipe]);
        assert_ne!(sent.status.code(), Some(124), "jobs wait: {}", told(&["squeue", "-r"]));
        went_well(&sent);
        let gather = "quell data gather parts/* -o whole --audit 10%";
        let said = went_well(&fleet.command("sh", &["-c", gather]).output().expect("sh"));
        let audited = (4 * repeat).div_ceil(10);
        assert!(
            said.contains(&format!("{audited} measurements run again here: the same bytes")),
            "{said}"
        );
        assert!(fleet.whole() == one, "Slurm's parts are another run");
    }
}

#[test]
fn ten_parts_two_of_them_killed_or_requeued_are_the_run_of_one_machine() {
    ten_parts_are_one_machine(10);
}

#[test]
#[ignore = "takes ten minutes; `make test-long` runs it"]
fn ten_parts_of_a_thousand_cells_are_the_run_of_one_machine() {
    ten_parts_are_one_machine(250);
}

/// Slurm listens where the machine's name leads, which is another address in each Debian: here it is loopback.
const OWN_HOSTS: &str = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";

/// A Slurm cluster of this machine: loopback alone, keys and ports of its own.
struct Cluster {
    folder: TestFolder,
    libraries: String,
    unpacked: PathBuf,
    /// In the order in which they end.
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(unpacked: &Path) -> Result<Self, String> {
        let folder = TestFolder::new();
        let library = unpacked.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let libraries = format!("{0}:{0}/slurm-wlm", library.display());
        let mut cluster =
            Self { folder, libraries, unpacked: unpacked.to_owned(), daemons: Vec::new() };
        let at = cluster.folder.path().display().to_string();
        let key: Vec<u8> = (0..128).collect();
        let file = cluster.folder.path().join("key");
        fs::write(&file, key).map_err(|e| e.to_string())?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).map_err(|e| e.to_string())?;
        for name in ["state", "spool"] {
            fs::create_dir(cluster.folder.path().join(name)).map_err(|e| e.to_string())?;
        }
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
        let user = user.ok_or("this user has no name")?.name;
        // Both are free, and nobody takes them while they are held.
        let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port of loopback"));
        let [control, node] = held.map(|it| it.local_addr().expect("its address").port());
        let host = nix::unistd::gethostname().map_err(|e| e.to_string())?;
        let hosts = format!("127.0.0.1 localhost {}\n", host.display());
        cluster.folder.file("hosts", &hosts);
        cluster.folder.file(
            "slurm.conf",
            &format!(
                "ClusterName=quell\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={control}\nSlurmdPort={node}\n\
                 CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\nSlurmUser={user}\nSlurmdUser={user}\n\
                 AuthType=auth/munge\nAuthInfo=socket={at}/munge,cred_expire=5\nPluginDir={}/slurm-wlm\n\
                 StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/c.pid\nSlurmdPidFile={at}/d.pid\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nMpiDefault=none\nSlurmdParameters=config_overrides\n\
                 SchedulerParameters=bf_interval=1\nKillWait=5\n\
                 NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\nPartitionName=all Nodes=localhost Default=YES MaxTime=30\n",
                library.display()
            ),
        );
        let own =
            |name: &str| format!("--{name}={at}/{}", &name[..name.find('-').unwrap_or(name.len())]);
        let files = ["key-file", "pid-file", "log-file", "seed-file"].map(own);
        let socket = format!("--socket={at}/munge");
        let mut munged = vec!["-F", "--force", &socket];
        munged.extend(files.iter().map(String::as_str));
        cluster.daemon("munged", &munged, "Created socket")?;
        cluster.daemon("slurmctld-wlm", &["-D"], "Running as primary controller")?;
        let step = unpacked.join("usr/sbin/slurmstepd-wlm").display().to_string();
        cluster.daemon("slurmd-wlm", &["-D", "-N", "localhost", "-d", &step], " started on ")?;
        Ok(cluster)
    }

    fn known_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("SLURM_CONF", self.folder.path().join("slurm.conf"))
    }

    /// Starts one, and waits until it says that it is ready.
    fn daemon(&mut self, name: &str, words: &[&str], ready: &str) -> Result<(), String> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", OWN_HOSTS, "sh"]);
        command
            .arg(self.folder.path().join("hosts"))
            .arg(self.unpacked.join("usr/sbin").join(name));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.known_to(&mut command).spawn().map_err(|e| format!("{name}: {e}"))?;
        let said = BufReader::new(child.stderr.take().expect("it is piped"));
        self.daemons.insert(0, child);
        // It is read to its end, so that the daemon never waits for a reader.
        let (lines, said_lines) = mpsc::channel();
        std::thread::spawn(move || {
            said.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line)));
        });
        let end = Instant::now() + Duration::from_secs(60);
        let mut last = String::new();
        while let Ok(line) = said_lines.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if line.contains(ready) {
                return Ok(());
            }
            last = line;
        }
        Err(format!("{name} does not start: {last}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A part of a machine that computes otherwise is taken by what its manifest says; an audit finds it by its bytes, and names the machine.
#[test]
fn an_audit_names_the_machine_whose_bytes_are_others() {
    let lab = TestFolder::new();
    lab.file("cells.toml", &cells(2));
    let makefile = went_well(&lab.quell(&["run", "cells.toml", "--split", "2", "--for", "make"]));
    lab.file("recipe", &makefile);
    let make = |command: &mut Command| command.env("PATH", crate::support::path()).output();
    let mut command = Command::new("make");
    command.args(["-f", "recipe"]).current_dir(lab.path()).stdin(Stdio::null());
    went_well(&make(&mut command).expect("make"));
    let part = |number: u32| {
        let entries = fs::read_dir(lab.path().join("parts")).expect("parts");
        let mut entries = entries.map(|e| e.expect("an entry").path());
        let end = format!("-part-{number}-of-2");
        entries.find(|p| p.to_string_lossy().ends_with(&end)).expect("it is there")
    };
    let [first, honest] = [1, 2].map(part);

    // What a container of Kubernetes would start.
    let job = went_well(&lab.quell(&[
        "run",
        "cells.toml",
        "--split",
        "2",
        "--for",
        "k8s",
        "--out",
        "k8s",
    ]));
    let line = job.lines().find_map(|l| l.trim().strip_prefix("command: [sh, -c, ")).expect("it");
    let script: String = serde_json::from_str(line.trim_end_matches(']')).expect("a text");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("JOB_COMPLETION_INDEX", "1").current_dir(lab.path());
    went_well(&make(&mut command).expect("sh"));
    let again = fs::read_dir(lab.path().join("k8s")).expect("a part").next().expect("a part");
    assert!(measured(&again.expect("an entry").path()) == measured(&honest));

    let other = ["run", "cells.toml", "--part", "2/2", "--out", "other"];
    went_well(&lab.quell(&[&other[..], &["--set", "probe.ping.interval=19ms"]].concat()));
    let other = fs::read_dir(lab.path().join("other")).expect("a part").next().expect("a part");
    let other = other.expect("an entry").path();
    let text = |folder: &Path| fs::read(folder.join("manifest.json")).expect("a manifest");
    let json = |folder: &Path| serde_json::from_slice::<Value>(&text(folder)).expect("JSON");
    let (mut forged, honest) = (json(&other), json(&honest));
    forged["machine"]["name"] = "broken".into();
    for told in ["experiment_text", "part"] {
        forged[told] = honest[told].clone();
    }
    fs::write(other.join("manifest.json"), forged.to_string()).expect("it can be written");
    let mut longer = json(&first);
    longer["cells"][0]["window_ns"] = (1_u64 << 63).into();
    fs::write(first.join("manifest.json"), longer.to_string()).expect("it can be written");
    let gather = |more: &[&str]| {
        let parts = [&*first.to_string_lossy(), &*other.to_string_lossy()].map(str::to_owned);
        let words = ["data", "gather", &parts[0], &parts[1]];
        lab.quell(&[&words[..], more].concat())
    };
    went_well(&gather(&["-o", "believed"]));
    let audited = gather(&["-o", "audited", "--audit", "100%"]);
    let said = String::from_utf8_lossy(&audited.stderr).into_owned();
    assert_eq!(audited.status.code(), Some(1), "{said}");
    assert!(said.contains("5 of 8 measurements run again here have other bytes"), "{said}");
    assert_eq!(said.matches("samples").count(), 4, "{said}");
    assert_eq!(said.matches(": manifest; ").count(), 1, "{said}");
    assert_eq!(said.matches("measured by broken").count(), 4, "{said}");
}
