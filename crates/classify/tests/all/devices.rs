//! The classifier on devices of several kinds, and what becomes of it when the process that loaded it is gone.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::kernel::{config, load, skipped};
use crate::namespace::{Namespace, ip, name};
use crate::twin::{Packet, Twin};
use quell_classify::{Classifier, ClassifyError, Config, HostKey, Hosts, Keys, Parts};
use quell_netlink::Stack;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, NewLink};
use quell_netlink::tc::{self, ApplyError};
use quell_tc::{Handle, Tree};
use quell_wire::layers::{Layer, packet};

const CLASSES: u16 = 32;

/// Flows in HTB's classes 1:1 to 1:20, inside of tunnels as well; the rest in 1:99.
fn flows() -> Config {
    let parts = Parts::flows(1, CLASSES);
    config(Parts { keys: Keys::ALL_FLOWS, other: Some(Handle::class(1, 0x99)), ..parts })
}

/// Puts HTB with these classes and the classifier on a device; false, and says so, where the kernel proves that it lacks something of it.
fn shape(index: u32, classifier: &Classifier) -> bool {
    let classes: Vec<String> = (1..=CLASSES)
        .chain([0x99])
        .map(|minor| format!(r#"{{ id = "1:{minor:x}", rate = "1Gbit" }}"#))
        .collect();
    let classes = classes.join(",");
    let text = format!(r#"queue = {{ kind = "htb", handle = "1:", class = [ {classes} ] }}"#);
    let mut tree: Tree = toml::from_str(&text).unwrap();
    tree.queue.as_mut().expect("it has a queue").filters =
        classifier.filters(Some(Handle::class(1, 0x99)));
    match tc::apply(&mut Socket::open(Protocol::Route).unwrap(), index, &tree) {
        Ok(()) => true,
        Err(ApplyError::Kernel(error) | ApplyError::Left(error))
            if error.proves_kernel_lacks_feature() =>
        {
            skipped("HTB with the classifier", &error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// A device `q0` whose queue is under test; `None`, and says so, where the kernel has no such devices.
fn device(link: &NewLink<'_>) -> Option<u32> {
    match Stack::open().unwrap().create_link(link) {
        Err(error) if error.proves_kernel_lacks_feature() => {
            skipped("the queue of a device", &error);
            return None;
        }
        made => made.unwrap(),
    }
    let index = crate::namespace::bring_up("q0", &[]);
    crate::namespace::wait_until_it_carries("q0");
    Some(index)
}

/// How many packets came to a class: those that left it, and those that wait, as where no time goes by.
fn count(index: u32, class: u32) -> u64 {
    let mut socket = Socket::open(Protocol::Route).unwrap();
    let classes = tc::dump_classes(&mut socket, index).unwrap();
    let stats = &classes.iter().find(|c| c.id.to_u32() == class).expect("it is there").stats;
    stats.packets + u64::from(stats.backlog_packets)
}

fn twins_class(config: &Config, packet: &Packet<'_>) -> u32 {
    Twin::new(config).classify(packet, 1).class
}

#[test]
fn on_a_device_without_mac_headers_flows_have_the_same_classes() {
    let config = flows();
    let Some(classifier) = load(&config) else { return };
    Namespace::new().run(|| {
        let _device = match crate::tun::device("t0", crate::tun::Carries::Packets) {
            Ok(device) => device,
            Err(error) => return skipped("flows on a tun device", &error),
        };
        let index = crate::namespace::bring_up("t0", &["10.7.0.1/24"]);
        if !shape(index, &classifier) {
            return;
        }
        for port in 1000..1008 {
            let layers = [
                Layer::v4([10, 7, 0, 1], [10, 7, 0, 2]),
                Layer::Udp { src: port, dst: 9 },
                Layer::payload(20),
            ];
            let bytes = packet(&layers);
            let packet = Packet { protocol: 0x0800, bytes: &bytes, vlan: None, mark: 0 };
            let class = twins_class(&config, &packet);
            let before = count(index, class);
            let outbox = UdpSocket::bind((ip("10.7.0.1"), port)).unwrap();
            outbox.send_to(&[0; 20], (ip("10.7.0.2"), 9)).unwrap();
            assert_eq!(count(index, class), before + 1, "port {port} is in class {class:x}");
        }
    });
}

#[test]
fn a_tag_that_the_kernel_keeps_beside_the_packet_counts_like_one_in_it() {
    let hosts = Hosts::new(HostKey::Vlan, CLASSES);
    let config = config(Parts::hosts(1, 1, hosts, 1, Handle::class(1, 0x99)));
    let Some(classifier) = load(&config) else { return };
    Namespace::new().run(|| {
        let Some(index) = device(&NewLink::new(name("q0"), LinkKind::Ifb)) else { return };
        if !shape(index, &classifier) {
            return;
        }
        let id = quell_netlink::link::VlanId::new(5).unwrap();
        let kind = LinkKind::Vlan { parent: index, id };
        let made = Stack::open().unwrap().create_link(&NewLink::new(name("q0.5"), kind));
        if crate::namespace::lacking("a VLAN device", made) {
            return;
        }
        crate::namespace::bring_up("q0.5", &["10.7.5.1/24"]);
        crate::namespace::wait_until_it_carries("q0.5");
        let layers = [
            Layer::Ethernet,
            Layer::Vlan { id: 5, service: false },
            Layer::v4([10, 7, 5, 1], [10, 7, 5, 2]),
            Layer::Udp { src: 1, dst: 2 },
        ];
        let frame = packet(&layers);
        let class = twins_class(&config, &Packet::of_frame(&frame).unwrap());
        let before = count(index, class);
        let outbox = UdpSocket::bind((ip("10.7.5.1"), 0)).unwrap();
        outbox.send_to(&[0; 20], (ip("10.7.5.2"), 9)).unwrap();
        assert_eq!(count(index, class), before + 1);
    });
}

/// Sends a frame of which only the Ethernet header lies in the linear part of the kernel's buffer: a packet socket does that with a header
/// that says so before a frame of more than a page (`packet_alloc_skb`).
fn send_scattered(index: u32, frame: &[u8]) {
    const PACKET_VNET_HDR: i32 = 15;
    let on: i32 = 1;
    let mut bytes = vec![0u8; 10];
    bytes[2..4].copy_from_slice(&14u16.to_ne_bytes());
    bytes.extend(frame);
    // SAFETY: all that is pointed to lives through the calls, and the sizes are its own.
    let sent = unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(socket >= 0, "a packet socket: {}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let fd = socket.as_raw_fd();
        let set =
            libc::setsockopt(fd, libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), 4);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = u16::from_ne_bytes([frame[12], frame[13]]);
        to.sll_ifindex = index as i32;
        let size = size_of_val(&to) as u32;
        libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), 0, (&raw const to).cast(), size)
    };
    assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

#[test]
fn headers_that_lie_in_fragments_of_the_kernels_buffer_are_read_all_the_same() {
    let config = flows();
    let Some(classifier) = load(&config) else { return };
    Namespace::new().run(|| {
        let link = NewLink { mtu: Some(9000), ..NewLink::new(name("q0"), LinkKind::Ifb) };
        let Some(index) = device(&link) else { return };
        if !shape(index, &classifier) {
            return;
        }
        for port in 1000..1004 {
            let layers = [
                Layer::Ethernet,
                Layer::v4([10, 7, 0, 1], [10, 7, 0, 2]),
                Layer::v4([10, 9, 0, 1], [10, 9, 0, 2]),
                Layer::Udp { src: port, dst: 9 },
                Layer::payload(6000),
            ];
            let frame = packet(&layers);
            let class = twins_class(&config, &Packet::of_frame(&frame).unwrap());
            let before = count(index, class);
            send_scattered(index, &frame);
            assert_eq!(count(index, class), before + 1, "port {port} is in class {class:x}");
        }
    });
}

/// What somebody is told who has none of the capabilities that this process may have, or of them only that one.
fn refused_with_no_more_than(capability: Option<u32>) -> ClassifyError {
    /// `struct __user_cap_header_struct`; thread 0 is this one.
    #[repr(C)]
    struct Header {
        version: u32,
        thread: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, thread: 0 };
    // Effective, permitted, inheritable: capabilities 0 to 31, then 32 to 63.
    let mut sets = [[0u32; 3]; 2];
    let told = std::thread::spawn(move || {
        // SAFETY: both lie here through the calls, with the layout of the third version; they change this thread alone.
        let changed = unsafe {
            let got = libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr());
            assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
            for (set, first) in sets.iter_mut().zip([0, 32]) {
                let bit = capability.and_then(|at| at.checked_sub(first)).filter(|at| *at < 32);
                let kept = set[1] & bit.map_or(0, |bit| 1 << bit);
                *set = [kept, kept, 0];
            }
            libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr())
        };
        assert_eq!(changed, 0, "{}", std::io::Error::last_os_error());
        Classifier::load(&flows()).err()
    });
    told.join().unwrap().expect("that is too little")
}

#[test]
fn who_may_not_load_programs_is_told_what_it_takes() {
    const CAP_BPF: u32 = 39;
    // Who may use bpf(2) but not change networks may make tables, and no classifier.
    for capability in [None, Some(CAP_BPF)] {
        let error = refused_with_no_more_than(capability);
        assert!(error.proves_no_program_loads(), "{error}");
        let not_allowed = matches!(error, ClassifyError::NotAllowed(_));
        assert!(!not_allowed || error.to_string().contains("Be root"), "{error}");
    }
}
