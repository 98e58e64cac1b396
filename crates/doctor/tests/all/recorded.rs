//! Faults that no lab here can make, from facts of machines with real hardware. Where a story's figures come from a public report, it names it.

use crate::host::{findings, host, later, names, only, outcome, text, with};
use quell_doctor::CheckOutcome;
use quell_doctor::{ConnectionLooks, Facts, examine, named};
use quell_finding::Severity;
use quell_host::Device;
use quell_netlink::ethtool::Coalescing;
use std::collections::BTreeMap;

#[test]
fn a_good_card_has_no_finding() {
    assert_eq!(findings(None, &host()), []);
    assert_eq!(findings(Some(&host()), &later(host())), []);
}

#[test]
fn what_was_not_read_is_not_fine() {
    let mut blind = host();
    blind.texts.0.remove("/proc/net/netstat");
    blind.devices = Err("could not list the interfaces".to_owned());
    assert!(matches!(outcome("listen-overflow", &blind), CheckOutcome::CouldNotLook(_)));
    assert!(matches!(outcome("damaged-frames", &blind), CheckOutcome::CouldNotLook(_)));
    assert!(matches!(outcome("ecn-bleached", &blind), CheckOutcome::NotApplicable(_)));
    // As in a container, where the file is missing.
    let hint = "in its first network namespace only";
    assert!(
        matches!(outcome("neighbour-table", &blind), CheckOutcome::CouldNotLook(why) if why.contains(hint))
    );
}

#[test]
fn counters_that_can_not_be_end_no_check() {
    let most = |snapshot: &mut quell_host::Snapshot| {
        let device = snapshot.devices.as_mut().unwrap().get_mut("eth0").unwrap();
        let stats = &mut device.link.stats;
        for counter in [
            &mut stats.rx_packets,
            &mut stats.tx_packets,
            &mut stats.rx_errors,
            &mut stats.tx_errors,
            &mut stats.rx_dropped,
            &mut stats.tx_dropped,
            &mut stats.rx_crc_errors,
            &mut stats.rx_fifo_errors,
            &mut stats.rx_missed_errors,
            &mut stats.rx_over_errors,
        ] {
            *counter = u64::MAX;
        }
        device.hardware.uncorrectable = Some(u64::MAX);
        for number in 0..4 {
            device.counters.insert(format!("rx_queue_{number}_packets"), u64::MAX);
            device.counters.insert(format!("rx_missed_{number}"), u64::MAX);
        }
        for (path, text) in [
            ("/proc/stat", "cpu0 9 9 9 9 9 9 9 9\nctxt 9\n".replace('9', &u64::MAX.to_string())),
            ("/proc/meminfo", format!("MemTotal: {} kB\n", u64::MAX)),
            ("/proc/net/softnet_stat", "ffffffffffffffff ffffffffffffffff 1 0\n".repeat(3)),
            ("/proc/sys/net/core/netdev_max_backlog", u64::MAX.to_string()),
        ] {
            snapshot.texts.0.insert(path.to_owned(), Ok(text));
        }
    };
    let mut now = later(host());
    most(&mut now);
    assert!(!findings(Some(&host()), &now).is_empty());
    let mut before = host();
    most(&mut before);
    findings(Some(&before), &now);
    assert!(now.cpus().unwrap_err().contains("18446744073709551615 ticks"));
}

/// github.com/istoreos/istoreos issue 1293: a port of 2.5 Gbit/s at 100 Mbit/s; the driver does not tell the other end's modes.
#[test]
fn a_gigabit_port_at_a_hundred_megabits_is_a_warning() {
    const MODES: [&str; 4] = ["10baseT/Full", "100baseT/Full", "1000baseT/Full", "2500baseT/Full"];
    let slow = |speed, peer: &'static [&str]| {
        with(move |device| {
            let told = device.hardware.modes.as_mut().unwrap();
            (told.speed, told.supported, told.peer) = (Some(speed), names(&MODES), names(peer));
        })
    };
    assert_eq!(only("link-speed", None, &slow(100, &[])).severity, Severity::Warning);
    // A port of 2.5 Gbit/s at a switch of 1 Gbit/s is as fast as it can be.
    assert_eq!(only("link-speed", None, &slow(1000, &[])).severity, Severity::Note);
    assert_eq!(findings(None, &slow(1000, &["100baseT/Full", "1000baseT/Full"])), []);
    assert_eq!(only("link-speed", None, &slow(100, &MODES)).severity, Severity::Serious);
    let half = with(|device| device.hardware.modes.as_mut().unwrap().duplex = Some(0));
    assert_eq!(only("link-speed", None, &half).says, "the link is half duplex");
}

/// github.com/netdata/netdata issue 988: of 3811442771 packets the card missed 4954, and had no buffer for 527.
#[test]
fn a_ring_that_was_too_small_is_told_with_the_drivers_figures() {
    let missed = |count| {
        with(|device| {
            device.counters.insert("rx_no_buffer_count".to_owned(), 527);
            device.counters.insert("rx_missed_errors".to_owned(), count);
            device.link.stats.rx_packets = 3_811_442_771;
        })
    };
    let mut now = missed(4954);
    let finding = only("ring-missed", None, &now);
    assert!(finding.evidence.iter().any(|seen| seen.name == "rx_missed_errors"), "{finding:#?}");
    // On 6.12 larger rings are no advice.
    assert!(finding.remedies.iter().all(|r| !r.to_string().starts_with("ethtool -G")));
    text(&mut now, "/proc/sys/kernel/osrelease", "6.12", "6.1");
    let finding = only("ring-missed", None, &now);
    assert_eq!(finding.remedies[0].to_string(), "ethtool -G eth0 rx 4096");
    // Over a year that is fewer than one an hour; while watching, one is enough.
    text(&mut now, "/proc/uptime", "3600.00", "31536000.00");
    assert_eq!(findings(None, &now), []);
    let mut next = later(now.clone());
    next.devices
        .as_mut()
        .unwrap()
        .get_mut("eth0")
        .unwrap()
        .counters
        .insert("rx_missed_errors".into(), 4955);
    only("ring-missed", Some(&now), &next);
}

/// A container of a minute on a host that is up for a year: its own counters are a minute old, those of the host a year.
#[test]
fn counters_of_a_young_container_are_not_spread_over_the_hosts_year() {
    let mut now = host();
    text(&mut now, "/proc/uptime", "3600.00", "31536000.00");
    text(&mut now, "/proc/net/netstat", "100000 2 0 0 0 0 0 0 0", "100000 2 0 20 0 0 0 0 0");
    text(&mut now, "/proc/net/softnet_stat", "000f4240 00000000", "000f4240 00000064");
    assert_eq!(findings(None, &now), []);
    now.first_address_cs = Some(3_153_594_000);
    only("paws", None, &now);
}

#[test]
fn what_a_card_reports_is_told_by_its_kind() {
    let damaged = with(|device| device.link.stats.rx_crc_errors = 40);
    only("damaged-frames", None, &damaged);
    let uncorrectable = with(|device| device.hardware.uncorrectable = Some(40));
    only("damaged-frames", None, &uncorrectable);
    let errors = with(|device| device.link.stats.tx_errors = 40);
    only("device-errors", None, &errors);
    let flaps = with(|device| device.link.carrier_changes = Some(40));
    only("carrier-lost", None, &flaps);
    let drops = with(|device| device.link.stats.rx_dropped = 30_000);
    only("drop-ratio", None, &drops);
    let paused = with(|device| device.hardware.pause.as_mut().unwrap().rx_frames = Some(100_000));
    only("pause-frames", None, &paused);
}

#[test]
fn what_a_card_is_set_to_is_told_with_the_command() {
    // Asked for, and not to be had: `ethtool -K` would change nothing.
    let lacking = with(|device| {
        device.hardware.features.as_mut().unwrap().active.remove("tx-generic-segmentation");
    });
    assert_eq!(findings(None, &lacking), []);
    let off = with(|device| {
        let features = device.hardware.features.as_mut().unwrap();
        features.active.remove("rx-gro");
        features.wanted.remove("rx-gro");
    });
    assert_eq!(only("offloads", None, &off).remedies[0].to_string(), "ethtool -K eth0 rx-gro on");
    let mut lro = with(|device| {
        let features = device.hardware.features.as_mut().unwrap();
        features.active.insert("rx-lro".into());
        features.wanted.insert("rx-lro".into());
        features.changeable.insert("rx-lro".into());
    });
    assert_eq!(findings(None, &lro), []);
    text(&mut lro, "/proc/sys/net/ipv4/ip_forward", "0", "1");
    assert_eq!(only("offloads", None, &lro).remedies[0].to_string(), "ethtool -K eth0 rx-lro off");
    let fast = |device: &mut Device| {
        let modes = device.hardware.modes.as_mut().unwrap();
        modes.speed = Some(40_000);
    };
    let at_once = with(|device| {
        fast(device);
        device.hardware.coalescing =
            Some(Coalescing { adaptive_rx: Some(false), rx_usecs: Some(0) });
    });
    assert_eq!(only("coalescing", None, &at_once).severity, Severity::Note);
    let unpaused = with(|device| {
        fast(device);
        let pause = device.hardware.pause.as_mut().unwrap();
        (pause.rx, pause.tx) = (Some(false), Some(false));
    });
    assert_eq!(only("pause-frames", None, &unpaused).severity, Severity::Note);
    let jumbo = with(|device| device.link.mtu = 9000);
    assert_eq!(only("mtu-probing", None, &jumbo).severity, Severity::Note);
}

#[test]
fn where_a_card_sits_is_told() {
    let slot = |width: &'static str, speed| {
        with(move |device| {
            for (name, value) in [
                ("current_link_speed", "8.0 GT/s PCIe"),
                ("current_link_width", width),
                ("max_link_speed", "8.0 GT/s PCIe"),
                ("max_link_width", "8"),
            ] {
                device.bus.insert(name.into(), value.into());
            }
            device.hardware.modes.as_mut().unwrap().speed = Some(speed);
        })
    };
    // 8 GT/s x4 carries 31.5 Gbit/s: too little for 40, more than enough for 10.
    only("pcie-slot", None, &slot("4", 40_000));
    assert_eq!(findings(None, &slot("4", 10_000)), []);
    assert_eq!(findings(None, &slot("8", 40_000)), []);
    let node = |serving: &'static str| {
        with(move |device| {
            for (name, value) in
                [("numa_node", "0"), ("local_cpulist", "0-7,16-23"), ("interrupt_cpus", serving)]
            {
                device.bus.insert(name.into(), value.into());
            }
        })
    };
    only("numa", None, &node("3,9"));
    assert_eq!(findings(None, &node("3,17")), []);
}

#[test]
fn cpus_are_judged_by_what_they_did_while_we_watched() {
    let before = host();
    let mut busy = later(host());
    text(&mut busy, "/proc/stat", "cpu0 100 0 100 9000 0 0 10 0", "cpu0 102 0 100 9000 0 0 105 0");
    only("softirq-on-one-core", Some(&before), &busy);
    let full = later(with(|device| device.link.stats.rx_bytes = 120_000_000));
    only("link-utilisation", Some(&before), &full);
    let queues = |most: u64| {
        with(move |device| {
            for (queue, packets) in [(0, most), (1, 10), (2, 10), (3, 10)] {
                device.counters.insert(format!("rx_queue_{queue}_packets"), packets);
            }
        })
    };
    only("queue-imbalance", Some(&queues(0)), &later(queues(50_000)));
    assert_eq!(findings(Some(&queues(0)), &later(queues(500))), []);
    let mut squeezed = host();
    text(
        &mut squeezed,
        "/proc/net/softnet_stat",
        "000f4240 00000000 00000000",
        "000f4240 00000000 00002000",
    );
    only("time-squeeze", None, &squeezed);
    let mut saving = host();
    let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    saving.texts.0.insert(governor.into(), Ok("powersave\n".into()));
    only("cpu-power", None, &saving);
    let mut translated = host();
    text(&mut translated, "/proc/cmdline", "root", "intel_iommu=on root");
    only("cpu-power", None, &translated);
}

#[test]
fn counters_of_the_stack_are_told_by_their_names() {
    for (check, from, to) in [
        ("paws", "100000 2 0 0 0", "100000 2 0 90 0"),
        ("sack-reneging", "100000 2 0 0 0", "100000 2 0 0 7"),
        ("memory-aborts", "100000 2 0 0 0 0", "100000 2 0 0 0 3"),
        ("reordering", "100000 2 0 0 0 0 0", "100000 2 0 0 0 0 900"),
    ] {
        let mut now = host();
        text(&mut now, "/proc/net/netstat", from, to);
        only(check, None, &now);
    }
    let mut spurious = host();
    text(&mut spurious, "/proc/net/netstat", "100000 2 0 0 0 0 0 0", "100000 2 0 0 0 0 0 80");
    text(&mut spurious, "/proc/net/snmp", "Tcp: 100 5 0", "Tcp: 100 200 0");
    only("spurious-retransmissions", None, &spurious);
}

#[test]
fn context_switches_are_compared_with_the_time_before() {
    let before = host();
    let mut now = later(host());
    text(&mut now, "/proc/stat", "ctxt 1000", "ctxt 61000");
    let (looks, owners) = (ConnectionLooks::default(), BTreeMap::new());
    let look = |quiet_switches| {
        let before = Some(&before);
        let facts = Facts {
            before,
            now: &now,
            looks: &looks,
            owners: &owners,
            quiet_switches,
            peer: None,
            drops: None,
            reported: &[],
        };
        examine(&facts, named("context-switches")).remove(0).outcome
    };
    assert_eq!(look(Some(1000.0)).findings().len(), 1);
    assert_eq!(look(Some(50_000.0)), CheckOutcome::Fine);
    assert!(matches!(look(None), CheckOutcome::NotApplicable(_)));
}

#[test]
fn a_table_of_neighbours_that_were_entered_by_hand_is_not_full() {
    let table = |entries: u32, forced: u32, full: u32| {
        let mut snapshot = host();
        let text = format!(
            "entries  allocs forced_gc_runs table_fulls\n{entries:08x}  00000001 {forced:08x} {full:08x}\n"
        );
        for (path, text) in [
            ("/proc/net/stat/arp_cache", text.as_str()),
            ("/proc/net/stat/ndisc_cache", "entries  allocs\n00000001  00000001\n"),
            ("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n"),
            ("/proc/sys/net/ipv6/neigh/default/gc_thresh3", "1024\n"),
        ] {
            snapshot.texts.0.insert(path.to_owned(), Ok(text.to_owned()));
        }
        snapshot
    };
    // Those take no room: the kernel never had to clear the table.
    assert_eq!(findings(None, &table(4000, 0, 0)), []);
    let nearly = only("neighbour-table", None, &table(900, 40, 0));
    assert!(
        nearly.evidence.iter().any(|evidence| evidence.name == "forced_gc_runs"),
        "{nearly:#?}"
    );
    assert_eq!(findings(None, &table(600, 40, 0)), []);
    only("neighbour-table", None, &table(100, 40, 3));
}
