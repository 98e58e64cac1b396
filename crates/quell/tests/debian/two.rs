//! Two real Debian machines with a cable between them, an experiment between them by ssh, and the same line in the lab.
//!
//! ```text
//!   first machine: host, quell run ══ eth1 ══ second machine: router ══ wan ══ server, sshd (a namespace)
//!                                                        1.6/0.4 Mbit/s, 15 ms each way
//! ```

use crate::left_out;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A twelfth of what `rrul` has: each instruction of these machines is emulated.
const LINE: [&str; 2] = [
    "topology.link.wan.up={ rate = \"400kbit\", delay = \"15ms\", buffer = \"20p\" }",
    "topology.link.wan.down={ rate = \"1600kbit\", delay = \"15ms\", buffer = \"40p\" }",
];

const TWO: &str = "[machines]\nhost = { on = \"local\", address = [\"10.9.0.1\"] }\n\
     server = { on = \"ssh://root@10.9.1.2:2222\", address = [\"10.9.1.2\"] }\nlost-after = \"60s\"\n";

/// OpenSSH of the machine on which the tests run, which is the same Debian, with its libraries.
const SSH: &str = r#"
chmod 600 ssh/key ssh/host
mkdir -p ~/.ssh
printf 'Host *\n IdentityFile /share/ssh/key\n UserKnownHostsFile /share/ssh/known\n StrictHostKeyChecking yes\n' >~/.ssh/config
export LD_LIBRARY_PATH=/share/ssh/lib PATH=/share/ssh/bin:/share:$PATH
"#;

/// Queues count packets of the wire's size only where nothing makes larger ones of them.
const SECOND: &str = r#"
ip link set eth1 up gso_max_segs 1 gro_max_size 1500
ip addr add 10.9.0.2/24 dev eth1
sysctl -qw net.ipv4.ip_forward=1
ip netns add server
ip link add wan type veth peer name wan netns server
ip addr add 10.9.1.1/24 dev wan
ip link set wan up gso_max_segs 1
ip -n server link set lo up
ip -n server addr add 10.9.1.2/24 dev wan
ip -n server link set wan up gso_max_segs 1
ip -n server route add default via 10.9.1.1
# A timer here may be ten packets late: what it missed is sent then.
line() {
    tc $1 qdisc add dev wan root handle 1: netem delay 15ms limit 100000
    tc $1 qdisc add dev wan parent 1:1 handle 2: htb default 1
    tc $1 class add dev wan parent 2: classid 2:1 htb rate $2 ceil $2 burst 16k cburst 16k
    tc $1 qdisc add dev wan parent 2:1 pfifo limit $3
}
line "" 400kbit 20
line "-n server" 1600kbit 40
mkdir -p /run/sshd
grep -q ^sshd: /etc/passwd || echo sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin >>/etc/passwd
printf 'Port 2222\nHostKey /share/ssh/host\nPidFile none\nAuthorizedKeysFile /share/ssh/key.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv PATH=/share:/usr/bin:/bin\n' >/run/sshd.conf
ip netns exec server /share/ssh/bin/sshd -D -e -f /run/sshd.conf 2>sshd.said &
timeout 1200 sh -c 'until [ -e /share/over ]; do sleep 0.2; done'
tc -s qdisc show >queues; tc -n server -s qdisc show >>queues
"#;

const FIRST: &str = r#"
ip link set eth1 up gso_max_segs 1 gro_max_size 1500
ip addr add 10.9.0.1/24 dev eth1
ip route add 10.9.1.0/24 via 10.9.0.2
timeout 600 sh -c 'until ssh -p 2222 root@10.9.1.2 true; do sleep 0.2; done'
"#;

/// Copies a program and what it is linked with, but for the C library, which is the machine's own.
fn carry(program: &Path, share: &Path) {
    let name = program.file_name().expect("a name");
    std::fs::copy(program, share.join("ssh/bin").join(name)).expect("it is there");
    let unpacked = unpacked().join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let mut ldd = Command::new("ldd");
    let linked = ldd.arg(program).env("LD_LIBRARY_PATH", unpacked).output().expect("ldd");
    for word in String::from_utf8_lossy(&linked.stdout).split_whitespace() {
        let library = Path::new(word);
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        if library.is_absolute() && !name.starts_with("libc.so") && !name.starts_with("ld-linux") {
            std::fs::copy(library, share.join("ssh/lib").join(&*name)).expect("it is there");
        }
    }
}

fn unpacked() -> std::path::PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_quell")).ancestors().nth(2);
    target.expect("it lies in target/debug").join("unpacked")
}

/// What `tools/debian` says of a machine's day.
fn day(share: &Path, own: &str, other: &str, commands: &str) -> std::process::Child {
    std::fs::write(share.join("day"), format!("{SSH}{commands}")).expect("the day's commands");
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/debian");
    let folder = share.parent().expect("a folder");
    let at = |name| folder.join(name).display().to_string();
    let mut command = Command::new(tool);
    command.args(["--limit", "1500", "--cable", &format!("{}:{}", at(own), at(other))]);
    command.arg(share).args(["bash", "day"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tools/debian")
}

/// The sum of goodput up and down in Mbit/s, and the median round trip in ms.
fn figures(shown: &[u8]) -> [f64; 3] {
    let shown: Value = serde_json::from_slice(shown).expect("it is JSON");
    let rows = shown["results"].as_array().expect("results");
    let of = |name: &str, key: &str| {
        let its = rows.iter().filter(|r| r["stream"].as_str().is_some_and(|s| s.starts_with(name)));
        its.map(|row| row.pointer(key).and_then(Value::as_f64).expect("a figure")).sum()
    };
    [of("up-", "/goodput_mbps"), of("down-", "/goodput_mbps"), of("ping-cs0", "/rtt_ms/p50")]
}

#[test]
#[ignore = "two machines boot and measure for minutes; `make test-long` runs it"]
fn an_experiment_between_two_machines_gives_the_figures_that_the_same_line_gives_in_the_lab() {
    let sshd = unpacked().join("usr/sbin/sshd");
    if !sshd.exists() || !Path::new("/usr/bin/ssh").exists() {
        return left_out::for_want_of(
            "openssh-client and -server, below target/unpacked (make test)",
        );
    }
    let kept = tempfile::Builder::new().prefix("two").tempdir().expect("a folder");
    let shares = ["first", "second"].map(|name| kept.path().join(name));
    for share in &shares {
        for folder in ["ssh/bin", "ssh/lib"] {
            std::fs::create_dir_all(share.join(folder)).expect("a folder");
        }
        std::fs::copy(env!("CARGO_BIN_EXE_quell"), share.join("quell")).expect("the program");
        carry(&sshd, share);
        carry(Path::new("/usr/bin/ssh"), share);
    }
    for key in ["key", "host"] {
        let path = kept.path().join(key);
        let mut made = Command::new("ssh-keygen");
        let made = made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        assert!(made.expect("OpenSSH's client is there").success());
        for (share, ending) in shares.iter().flat_map(|s| [(s, ""), (s, ".pub")]) {
            let name = format!("{key}{ending}");
            std::fs::copy(kept.path().join(&name), share.join("ssh").join(&name)).expect("a key");
        }
    }
    let host = std::fs::read_to_string(kept.path().join("host.pub")).expect("a key");
    std::fs::write(shares[0].join("ssh/known"), format!("[10.9.1.2]:2222 {host}")).expect("a file");
    std::fs::write(shares[0].join("two.toml"), TWO).expect("a file");

    let changes: String = LINE.map(|change| format!("--set '{change}' ")).concat();
    let measure = format!(
        "quell run rrul --only fifo {changes} --on two.toml --out runs >ran 2>&1; echo $? >>ran\n\
         quell show --json >shown\n"
    );
    let second = day(&shares[1], "b", "a", SECOND);
    let first = day(&shares[0], "a", "b", &format!("{FIRST}{measure}"));
    let first = first.wait_with_output().expect("it ends");
    std::fs::write(shares[1].join("over"), "").expect("a file");
    let ended: [Output; 2] = [first, second.wait_with_output().expect("it ends")];
    if ended.iter().any(|day| day.status.code() == Some(3)) {
        return left_out::for_want_of(String::from_utf8_lossy(&ended[0].stderr));
    }
    let said = |index: usize, name: &str| {
        std::fs::read_to_string(shares[index].join(name)).unwrap_or_default()
    };
    let told = format!("{}{}{}{ended:?}", said(0, "ran"), said(1, "sshd.said"), said(1, "queues"));
    let shown = std::fs::read(shares[0].join("shown")).unwrap_or_else(|e| panic!("{e}: {told}"));
    let real = figures(&shown);

    let quell = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(arguments).current_dir(kept.path()).output().expect("the program")
    };
    let set = LINE.map(|change| ["--set", change]).concat();
    let lab = quell(&[&["run", "rrul", "--only", "fifo", "--out", "runs"], &set[..]].concat());
    assert!(lab.status.success(), "{}", String::from_utf8_lossy(&lab.stderr));
    let lab = figures(&quell(&["show", "--json"]).stdout);
    eprintln!("two machines: {real:?}, the lab: {lab:?} (Mbit/s up, down; ms)");
    for ((real, lab), may_differ) in real.iter().zip(&lab).zip([0.1, 0.1, 0.15]) {
        assert!((real - lab).abs() <= may_differ * lab, "{real} and {lab}\n{told}");
    }
}
