//! The same experiment on the running kernel, in namespaces and real time. What that kernel lacks is told before anything starts, and
//! only then may a story end early.

use super::support::{Desk, PING, near};

/// Only what a small kernel has: a token bucket and a FIFO. They stand on a router: a host's own TCP would not fill its own queue.
fn plain() -> String {
    format!(
        "name = \"story\"\nduration = \"4s\"\nwarm-up = \"1s\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\nboth = {{ rate = \"10Mbit\", buffer = \"50p\" }}\n\
         [[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
         [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{PING}"
    )
}

#[test]
fn the_same_file_means_the_same_on_both_backends() {
    let (guest, host) = (Desk::new(), Desk::new());
    let in_guest = guest.run(&plain(), &[]);
    let on_host = host.run(&plain(), &["--kernel", "host"]);
    let wanted = 10.0 * 1448.0 / 1514.0;
    near(in_guest.number("s", "bulk", "goodput_mbps"), wanted, 0.05);
    near(on_host.number("s", "bulk", "goodput_mbps"), wanted, 0.5);
    assert_eq!(on_host.json["kernel"]["backend"], "host");
    assert_eq!(on_host.json["kernel"]["virtual_time"], false);
    assert_eq!(in_guest.json["kernel"]["virtual_time"], true);
    // 50 packets of 1514 bytes at 10 Mbit/s are 61 ms; how full the buffer gets within seconds is up to TCP.
    for results in [&in_guest, &on_host] {
        let p99 = results.number("s", "ping", "rtt_ms.p99");
        assert!((1.0..75.0).contains(&p99), "{p99}");
    }
}

#[test]
fn what_the_running_kernel_lacks_is_named_before_anything_starts() {
    let desk = Desk::new();
    let output = desk.quell(&[
        "run",
        "home-link",
        "--duration",
        "1s",
        "--kernel",
        "host",
        "--only",
        "unloaded",
        "--set",
        "expect=[]",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        // A kernel that has it all carries it out.
        Some(0) => {}
        Some(3) => {
            assert!(said.contains("lacks") && said.contains("--kernel guest"), "{said}");
            assert!(!desk.path().join("runs").exists(), "nothing was begun");
        }
        code => panic!("{code:?}: {said}"),
    }
}
