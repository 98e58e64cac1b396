//! What is set so that it costs speed.

use super::Story;
use super::net::{Net, evidence, finds, first, set, transfer};

pub const STORIES: &[Story] = &[
    Story { name: "a healthy pair of hosts has no finding", tell: healthy },
    Story {
        name: "buffers below the kernel's own are named with the file that set them",
        tell: lowered,
    },
    Story { name: "SACK, timestamps and window scaling that are off are named", tell: options_off },
    Story { name: "settings without effect are notes", tell: dead },
    Story { name: "a congestion control that is not there is named", tell: congestion },
    Story { name: "pages that were meant as bytes are noticed", tell: bytes },
    Story { name: "pfifo_fast is a note where nothing waits", tell: pfifo_fast },
    Story { name: "ECN that no queue can mark is a note", tell: ecn },
    Story { name: "classes that packets pass by, and a burst below one, are found", tell: classes },
    Story { name: "probing each path's MTU is a note", tell: probing },
];

fn healthy(net: &Net) {
    transfer(net, 3_000_000);
    finds(&net.here, &[], &["--severity", "note"]);
    finds(&net.there, &[], &["--severity", "note"]);
}

/// Files in a folder that is the guest's own, gone when it is dropped.
struct Conf(std::path::PathBuf);

impl Conf {
    fn new(text: &str) -> Self {
        let path = std::path::PathBuf::from("/run/sysctl.d/90-story.conf");
        std::fs::create_dir_all("/run/sysctl.d").expect("the guest's /run is its own");
        std::fs::write(&path, text).expect("a file");
        Conf(path)
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn lowered(net: &Net) {
    let _conf = Conf::new("# of old\nnet.ipv4.tcp_rmem = 4096 16384 32768\n");
    set(&net.here, "net/ipv4/tcp_rmem", "4096 16384 32768");
    let found = finds(&net.here, &["lowered-setting"], &[]);
    let seen = evidence(&found, "lowered-setting");
    assert!(seen.contains("net.ipv4.tcp_rmem") && seen.contains("90-story.conf"), "{seen}");
    assert!(seen.contains("line 2"), "{seen}");
}

fn options_off(net: &Net) {
    for name in ["tcp_sack", "tcp_timestamps", "tcp_window_scaling"] {
        let key = format!("net/ipv4/{name}");
        set(&net.here, &key, "0");
        let found = finds(&net.here, &["tcp-options-off"], &[]);
        assert_eq!(found[0]["subject"], name);
        set(&net.here, &key, "1");
    }
    finds(&net.here, &[], &[]);
}

fn dead(net: &Net) {
    let _conf = Conf::new("net.ipv4.tcp_tw_recycle=1\nnet.ipv4.tcp_fack=1\n");
    finds(&net.here, &[], &[]);
    let found = finds(&net.here, &["dead-knobs"], &["--severity", "note"]);
    assert_eq!(found.len(), 2, "{found:#?}");
}

fn congestion(net: &Net) {
    let _conf = Conf::new("net.ipv4.tcp_congestion_control=fastest\n");
    finds(&net.here, &["congestion-control"], &[]);
}

fn bytes(_: &Net) {
    let first = first();
    let was = first.run(|| quell_netlink::sysctl::read("net/ipv4/tcp_mem")).expect("it is there");
    set(&first, "net/ipv4/tcp_mem", "150000000 150000000 150000000");
    let found = finds(&first, &["tcp-mem-in-bytes"], &[]);
    set(&first, "net/ipv4/tcp_mem", &was);
    assert!(evidence(&found, "tcp-mem-in-bytes").contains("572"), "{found:#?}");
}

fn pfifo_fast(net: &Net) {
    net.queue("a0", "{ kind = \"pfifo_fast\" }");
    transfer(net, 100_000);
    finds(&net.here, &[], &[]);
    finds(&net.here, &["pfifo-fast"], &["--severity", "note"]);
}

fn classes(net: &Net) {
    let with = |default: &str, burst: u32| {
        let class =
            format!("{{ id = \"1:1\", rate = \"50Mbit\", burst = {burst}, queue = \"fq_codel\" }}");
        net.queue("a0", &format!("{{ kind = \"htb\"{default}, class = [{class}] }}"));
    };
    with(", default = \"1:1\"", 1600);
    finds(&net.here, &[], &[]);
    with("", 1600);
    finds(&net.here, &["queue-classes"], &[]);
    with(", default = \"1:1\"", 600);
    finds(&net.here, &["queue-classes"], &[]);
    net.queue("a0", "{ kind = \"fq_codel\" }");
}

fn ecn(net: &Net) {
    set(&net.here, "net/ipv4/tcp_ecn", "1");
    net.queue("a0", "{ kind = \"pfifo\", limit = 100 }");
    finds(&net.here, &["ecn-without-marks"], &["--severity", "note"]);
    net.queue("a0", "{ kind = \"fq_codel\" }");
    finds(&net.here, &[], &["--severity", "note"]);
}

fn probing(net: &Net) {
    set(&net.here, "net/ipv4/tcp_mtu_probing", "2");
    finds(&net.here, &["mtu-probing"], &["--severity", "note"]);
}
