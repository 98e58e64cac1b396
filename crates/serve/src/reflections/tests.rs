//! Who is answered where a rate is limited.

use super::*;
use quell_sys::clock::thread_cpu_ns;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Of a client's pings of 64 bytes, one each 10 ms for four seconds, how many are answered while strangers ask for so many bytes each so
/// many ms, and how many bytes the strangers get.
fn beside(client: &str, strangers: &[&str], bytes: usize, each_ms: u64) -> (usize, usize) {
    let both =
        [true, false].map(|is_known| beside_of(is_known, client, strangers, (bytes, each_ms)));
    assert_eq!(both[0].0, both[1].0, "whether all are known or none");
    both[0]
}

fn beside_of(
    is_known: bool,
    client: &str,
    strangers: &[&str],
    (bytes, each_ms): (usize, u64),
) -> (usize, usize) {
    let mut reflections = Reflections::new(500_000, 400 * MS);
    let (mut answered, mut strange) = (0, 0);
    for ms in 0..4000 {
        for stranger in strangers {
            if ms % each_ms == 0 && reflections.may(ip(stranger), is_known, bytes, ms * MS) {
                strange += bytes;
            }
        }
        if ms % 10 == 0 {
            answered += usize::from(reflections.may(ip(client), is_known, 64, ms * MS));
        }
    }
    (answered, strange)
}

#[test]
fn a_stranger_with_large_or_many_packets_takes_no_answer_from_a_client_within_its_part() {
    for (bytes, each_ms) in [(1400, 20), (60_000, 200), (1400, 1), (44, 1)] {
        let (answered, strange) = beside("192.0.2.1", &["198.51.100.1"], bytes, each_ms);
        assert_eq!(answered, 400, "{bytes} bytes each {each_ms} ms");
        assert!(strange <= 250_000 + 25_000, "{strange} bytes in 4 s of 500 kbit/s");
    }
    let neighbours = beside("192.0.2.1", &["192.0.2.9"], 1400, 1);
    assert_eq!(neighbours.0, 400, "in one network each client has its part too");
    let crowd = ["198.51.100.1", "203.0.113.1", "2001:db8::1", "2001:db8:1::1"];
    assert_eq!(beside("192.0.2.1", &crowd, 1400, 20).0, 400, "so have five networks");
}

#[test]
fn addresses_of_one_network_get_the_part_of_one() {
    let many: Vec<String> = (1..=40).map(|n| format!("198.51.100.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(beside("192.0.2.1", &many, 300, 5).0, 400);
}

#[test]
fn who_is_alone_has_the_whole_rate_and_not_more() {
    let (_, alone) = beside("192.0.2.1", &["198.51.100.1"], 1000, 1);
    assert!((215_000..=250_000).contains(&alone), "{alone} of 250,000 less 25,600 for pings");
}

#[test]
fn a_flood_of_forged_addresses_takes_bounded_memory() {
    let mut reflections = Reflections::new(1_000_000_000, 400 * MS);
    let forged = (0..20_000u32).map(|n| IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes()));
    let answered = forged.filter(|ip| reflections.may(*ip, false, 44, 0)).count();
    assert_eq!(answered, MOST);
    assert_eq!(reflections.strangers.clients, MOST);
    assert!(reflections.may(ip("192.0.2.1"), false, 44, 1000 * MS), "it empties");
    assert_eq!(reflections.strangers.clients, 1);
}

/// Of a hundred packets of so many bytes each so many µs, at 100 kbit/s, how many are answered beside 44 bytes of a new address each so many: of one
/// client that is known, or each of a newcomer.
fn beside_forged(is_known: bool, (bytes, each_us): (usize, u64), forged_us: u64) -> usize {
    let mut reflections = Reflections::new(100_000, 400 * MS);
    let mut answered = 0;
    // Two seconds until the room is full.
    let mut next_us = 2_000_000 + each_us;
    for n in 0.. {
        if n * forged_us > next_us {
            let now = next_us * 1000;
            let new = if is_known { 0 } else { (n << 8) as u32 };
            let from = IpAddr::from((0xc000_0000 + new).to_be_bytes());
            answered += usize::from(reflections.may(from, is_known, bytes, now));
            next_us += each_us;
        }
        if next_us > 2_000_000 + 100 * each_us {
            break;
        }
        let forged = IpAddr::from((0x0b00_0000 + (n << 8) as u32).to_be_bytes());
        reflections.may(forged, false, 44, n * forged_us * 1000);
    }
    answered
}

#[test]
fn who_is_known_to_be_there_is_answered_whatever_comes_from_forged_addresses() {
    for (bytes, forged_us) in [(44, 2000), (56, 2000), (56, 200), (62, 2000)] {
        let answered = beside_forged(true, (bytes, 10_070), forged_us);
        assert_eq!(answered, 100, "{bytes}, each {forged_us} us");
    }
}

#[test]
fn among_strangers_a_larger_packet_finds_room_as_often_as_a_small_one() {
    // Of 500 a second 284 are paid for.
    let sizes = [44, 56, 62];
    let [small, usual, more] = sizes.map(|size| beside_forged(false, (size, 50_070), 2000));
    assert!((15..80).contains(&small), "{small} of 100");
    assert!(usual >= small / 2 && more >= small / 2, "{usual}, {more} beside {small}");
}

#[test]
fn forged_addresses_are_answered_with_their_part_and_not_more_than_the_rate() {
    let mut reflections = Reflections::new(100_000, 400 * MS);
    let mut bytes = 0;
    for n in 0..20_000u32 {
        let from = IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes());
        bytes += 44 * usize::from(reflections.may(from, false, 44, u64::from(n) * MS / 2));
    }
    assert!((120_000..=125_000 + 12_100).contains(&bytes), "{bytes} of 125,000 in 10 s");
}

#[test]
fn where_a_network_is_full_those_of_it_that_were_paid_for_make_room() {
    let mut reflections = Reflections::new(1_000_000_000, 400 * MS);
    let of_one = |n: usize| ip(&format!("2001:db8:0:{n:x}::1"));
    assert!((0..MOST).all(|n| reflections.may(of_one(n), true, 44, 0)));
    // The network stays, for one of its clients has much.
    assert!(reflections.may(of_one(0), true, 2_000_000, 0));
    assert!(!reflections.may(ip("192.0.2.1"), true, 44, 0), "no place");
    let later = 11 * MS / 10;
    assert!(!reflections.may(ip("192.0.2.1"), true, 44, later), "not looked at again so soon");
    assert!(reflections.may(ip("192.0.2.1"), true, 44, SWEEP_NS));
    assert_eq!(reflections.known.clients, 2);
}

#[test]
fn a_packet_costs_no_more_where_a_thousand_networks_are_queued() {
    // In nanoseconds of CPU time: others may have the CPU meanwhile.
    let cost = |networks: u32| -> u64 {
        let mut reflections = Reflections::new(1_000_000, 400 * MS);
        let from = |n: u32| IpAddr::from((0x0b00_0000 + ((n % networks) << 8)).to_be_bytes());
        // 5,000 a second: more than the rate pays for.
        let mut ask = |numbers: std::ops::Range<u32>| {
            numbers.filter(|n| reflections.may(from(*n), false, 60, u64::from(*n) * MS / 5)).count()
        };
        ask(0..5000);
        let rounds = (5..10).map(|round| {
            let began = thread_cpu_ns().unwrap();
            ask(round * 1000..round * 1000 + 1000);
            thread_cpu_ns().unwrap() - began
        });
        rounds.min().unwrap()
    };
    let (one, many) = (cost(1), cost(1000));
    assert!(many < 8 * one, "{many} ns for a thousand packets, {one} ns beside nobody");
}

/// The same by its definition: all that is queued is gone through for each packet.
struct Slow {
    rate: f64,
    room: f64,
    at_ns: u64,
    known: BTreeMap<IpAddr, BTreeMap<IpAddr, f64>>,
    strangers: BTreeMap<IpAddr, BTreeMap<IpAddr, f64>>,
}

/// What each gets of so much, where all get the same but nobody more than it has.
fn fair(queues: &[f64], much: f64) -> Vec<f64> {
    let mut by_size: Vec<usize> = (0..queues.len()).collect();
    by_size.sort_by(|one, other| queues[*one].total_cmp(&queues[*other]));
    let (mut left, mut got) = (much, vec![0.0; queues.len()]);
    for (place, index) in by_size.iter().enumerate() {
        got[*index] = queues[*index].min(left / (queues.len() - place) as f64);
        left -= got[*index];
    }
    got
}

impl Slow {
    fn pay(networks: &mut BTreeMap<IpAddr, BTreeMap<IpAddr, f64>>, parts: &[f64]) {
        for (clients, paid) in networks.values_mut().zip(parts) {
            let queued: Vec<f64> = clients.values().copied().collect();
            for (queued, paid) in clients.values_mut().zip(fair(&queued, *paid)) {
                *queued -= paid;
            }
            clients.retain(|_, queued| *queued > 1e-9);
        }
        networks.retain(|_, clients| !clients.is_empty());
    }

    fn may(&mut self, ip: IpAddr, is_known: bool, bytes: f64, now: u64) -> bool {
        let sum = |clients: &BTreeMap<IpAddr, f64>| clients.values().sum::<f64>();
        let queued = |of: &BTreeMap<IpAddr, BTreeMap<IpAddr, f64>>| -> Vec<f64> {
            of.values().map(sum).collect()
        };
        let paid = (now - self.at_ns) as f64 * self.rate;
        self.at_ns = now;
        let strangers = queued(&self.strangers);
        let all = [queued(&self.known), vec![strangers.iter().sum()]].concat();
        let parts = fair(&all, paid);
        let (of_strangers, of_known) = parts.split_last().unwrap();
        Self::pay(&mut self.known, of_known);
        Self::pay(&mut self.strangers, &fair(&strangers, *of_strangers));
        let strange: f64 = queued(&self.strangers).iter().sum();
        let known: f64 = queued(&self.known).iter().sum();
        let (room, all, networks) = match is_known {
            true => (self.room - strange.min(self.room / 2.0), known, &mut self.known),
            false => (self.room, known + strange, &mut self.strangers),
        };
        let clients = networks.entry(wide(ip)).or_default();
        let of_network = sum(clients);
        let of_one = clients.get(&ip).copied().unwrap_or(0.0);
        let may_network = (room - (all - of_network)) / 2.0;
        let may_one = (may_network - (of_network - of_one)) / 2.0;
        let fits = match is_known {
            true => of_network + bytes <= may_network && of_one + bytes <= may_one,
            false => bytes <= self.room / 4.0 && of_network < may_network && of_one < may_one,
        };
        if fits {
            *clients.entry(ip).or_default() += bytes;
        }
        fits
    }
}

#[test]
fn who_is_answered_is_who_would_be_if_all_were_gone_through_for_each_packet() {
    let mut seed = 7u64;
    let mut random = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for (networks, gap_us) in [(1, 200), (3, 900), (20, 300), (200, 100), (200, 2000)] {
        let mut fast = Reflections::new(2_000_000, 400 * MS);
        let (rate, room) = (fast.rate, fast.room);
        let (known, strangers) = (BTreeMap::new(), BTreeMap::new());
        let mut slow = Slow { rate, room, at_ns: 0, known, strangers };
        let (mut now, mut answered) = (0, 0);
        for n in 0..4000 {
            // Now and then all is paid for.
            now += random(gap_us * 2000) + if n % 1000 == 999 { 1000 * MS } else { 0 };
            let from = 0x0b00_0000 + (random(networks) << 8) + random(3);
            let from = IpAddr::from((from as u32).to_be_bytes());
            let (is_known, bytes) = (random(3) > 0, 44 + random(1400) as usize);
            let may = fast.may(from, is_known, bytes, now);
            assert_eq!(may, slow.may(from, is_known, bytes as f64, now), "{networks}, {n}");
            answered += usize::from(may);
        }
        assert!((400..=4000).contains(&answered), "{answered} of 4,000 beside {networks}");
    }
}
