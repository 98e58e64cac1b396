//! Stories of who gets a place, and who gives it back.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn one() -> IpAddr {
    ip("192.0.2.1")
}

fn other() -> IpAddr {
    ip("192.0.2.2")
}

type Book = PlaceTable<&'static str>;

impl Silence for &str {
    fn is_silent(&self) -> bool {
        *self != "speaks"
    }
}

fn begin(places: &mut Book, limits: &Limits, ip: IpAddr) -> Result<u64, Full> {
    places.begin(limits, ip, 0, "").map(|(number, _)| {
        places.moved(number, 0, u64::MAX).unwrap();
        number
    })
}

#[test]
fn one_address_can_not_take_all_places() {
    let limits = Limits { sessions: 3, sessions_of_one: 2, ..Limits::default() };
    let mut places = Book::default();
    let first = begin(&mut places, &limits, one()).unwrap();
    begin(&mut places, &limits, one()).unwrap();
    assert_eq!(begin(&mut places, &limits, one()), Err(Full::SessionsOfOne));
    let other = ip("198.51.100.1");
    assert!(begin(&mut places, &limits, other).is_ok());
    assert_eq!(begin(&mut places, &limits, other), Err(Full::Sessions));
    places.leave(first);
    assert!(begin(&mut places, &limits, other).is_ok());
}

#[test]
fn one_host_with_all_addresses_of_its_network_is_one_client() {
    let limits = Limits::default();
    let mut places = Book::default();
    let mut takes = |ip: &dyn Fn(u32) -> String| {
        (0..100).filter(|n| begin(&mut places, &limits, self::ip(&ip(*n))).is_ok()).count()
    };
    assert_eq!(takes(&|n| format!("2001:db8::{n:x}")), 8, "a /64 is one client");
    assert_eq!(takes(&|n| format!("2001:db8:0:{n:x}::1")), 8, "a /56 has two clients' places");
    assert_eq!(takes(&|n| format!("2001:db8:0:{n:x}00::1")), 0, "and a /48 half of the server");
    assert_eq!(takes(&|n| format!("2001:db8:{n:x}::1")), 16, "others have the other half");
}

#[test]
fn a_mapped_address_is_the_ipv4_address_that_it_stands_for() {
    assert_eq!(client(ip("::ffff:192.0.2.1")), one());
    assert_ne!(client(ip("::ffff:192.0.2.1")), client(ip("::ffff:192.0.2.2")));
    assert_eq!(client(ip("2001:db8::1")), client(ip("2001:db8::ffff:0:0:2")));
}

#[test]
fn who_holds_the_most_half_handshakes_loses_the_oldest_and_a_newcomer_is_let_in() {
    let limits = Limits { half_open: 3, half_open_of_one: 2, ..Limits::default() };
    let mut places = Book::default();
    assert_eq!(places.half_open(&limits, one(), "a").1, [""; 0]);
    assert_eq!(places.half_open(&limits, one(), "b").1, [""; 0]);
    assert_eq!(places.half_open(&limits, one(), "c").1, ["a"], "its own oldest");
    let (newcomer, gone) = places.half_open(&limits, ip("198.51.100.1"), "d");
    assert_eq!(gone, [""; 0]);
    assert_eq!(places.half_open(&limits, ip("203.0.113.1"), "e").1, ["b"]);
    assert!(places.has(newcomer));
    assert!(begin(&mut places, &limits, other()).is_ok(), "sessions have places of their own");
}

/// A test's streams come at once and say whose they are; threads that read it are not there yet.
#[test]
fn whoever_has_said_a_word_is_not_pushed_out_for_silent_ones_of_many_networks() {
    let limits = Limits { half_open: 6, half_open_of_one: 6, ..Limits::default() };
    let mut places = Book::default();
    for n in 0..6 {
        places.half_open(&limits, ip(&format!("10.{n}.0.1")), "silent");
    }
    let good = ip("198.51.100.1");
    let streams: Vec<_> = (0..4).map(|_| places.half_open(&limits, good, "speaks")).collect();
    assert!(streams.iter().all(|(_, gone)| *gone == ["silent"]));
    assert!(streams.iter().all(|(number, _)| places.has(*number)));
    // Where all say something, the oldest of the most goes, as among silent ones.
    for n in 0..2 {
        places.half_open(&limits, ip(&format!("10.{n}.1.1")), "speaks");
    }
    let (_, gone) = places.half_open(&limits, ip("10.9.0.1"), "speaks");
    assert_eq!((gone, places.has(streams[0].0)), (vec!["speaks"], false));
}

#[test]
fn half_handshakes_renewed_from_many_addresses_keep_nobody_out() {
    let limits = Limits::default();
    let mut places = Book::default();
    for n in 0..2_000 {
        places.half_open(&limits, ip(&format!("192.0.2.{}", 1 + n % 6)), "hostile");
        if n % 50 == 0 && n > 600 {
            let (good, _) = places.half_open(&limits, ip("198.51.100.1"), "good");
            for m in 0..40 {
                places.half_open(&limits, ip(&format!("2001:db8:0:{m:x}::1")), "hostile");
            }
            assert!(places.has(good));
            assert_eq!(places.leave(good), Some("good"));
        }
        assert!(places.places.len() <= limits.half_open);
    }
}

/// Asking the kernel of each who is there whether it is silent is what giving way costs.
#[test]
fn a_flood_of_silent_connections_is_not_looked_through_for_each_of_them() {
    use std::cell::Cell;
    #[derive(Debug, Clone)]
    struct Asked<'a>(&'a Cell<usize>);
    impl Silence for Asked<'_> {
        fn is_silent(&self) -> bool {
            self.0.set(self.0.get() + 1);
            true
        }
    }
    for nets in [1, 250] {
        let (asked, limits) = (Cell::new(0), Limits::default());
        let mut places = PlaceTable::default();
        let (good, _) = places.half_open(&limits, one(), Asked(&asked));
        for n in 0..10_000 {
            let from = format!("10.{}.0.1", n % nets);
            let (newest, gone) = places.half_open(&limits, ip(&from), Asked(&asked));
            assert!(places.has(newest) && gone.len() <= limits.half_open / AT_ONCE);
        }
        assert!(asked.get() < 10_000 * 20, "{} for 10,000 of {nets} networks", asked.get());
        assert!(places.has(good), "who is of another network stays");
        assert!(places.half_opens.all <= limits.half_open);
        assert_eq!(places.half_opens.all, places.places.len());
    }
}

#[test]
fn a_session_at_rest_gives_its_place_to_one_who_has_fewer() {
    let limits = Limits { sessions: 4, sessions_of_one: 4, ..Limits::default() };
    let mut places = Book::default();
    begin(&mut places, &limits, one()).unwrap();
    let (idle, _) = places.begin(&limits, one(), 0, "idle").unwrap();
    assert_eq!(begin(&mut places, &limits, other()).map(drop), Ok(()));
    places.begin(&limits, one(), 0, "also idle").unwrap();
    let third = ip("198.51.100.3");
    assert_eq!(places.begin(&limits, third, 1, "third").unwrap().1, ["idle"]);
    assert_eq!(places.moved(idle, 1, 1), Err(Full::SentAway));
    assert_eq!(places.streams(&limits, idle, 1, 1), Err(Full::SentAway));
}

#[test]
fn who_is_silent_the_longest_gives_its_place_to_a_newcomer_and_who_works_keeps_it() {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let mut places = Book::default();
    let (slow, _) = places.begin(&limits, one(), 0, "slow but talking").unwrap();
    places.begin(&limits, other(), 1, "silent").unwrap();
    places.heard(slow, 2);
    let third = ip("192.0.2.3");
    let (number, gone) = places.begin(&limits, third, 3, "third").unwrap();
    assert_eq!(gone, ["silent"]);
    for working in [slow, number] {
        places.moved(working, 100, 50).unwrap();
    }
    assert_eq!(places.begin(&limits, other(), 149, "").err(), Some(Full::Sessions));
    places.moved(slow, 149, 50).unwrap();
    let (_, gone) = places.begin(&limits, ip("198.51.100.1"), 150, "").unwrap();
    assert_eq!(gone, ["third"], "its bytes stood still");
    assert_eq!(places.moved(slow, 160, 50), Ok(()), "the other's moved");
}

#[test]
fn who_stood_still_for_long_gives_way_to_a_larger_network_too() {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let mut places = Book::default();
    places.begin(&limits, one(), 0, "alone").unwrap();
    places.begin(&limits, other(), 0, "its neighbour").unwrap();
    let large = [ip("198.51.100.1"), ip("198.51.100.2")];
    let (number, gone) = places.begin(&limits, large[0], 1, "").unwrap();
    assert_eq!(gone, ["alone"]);
    let again = places.begin(&limits, large[1], 2, "");
    assert_eq!(again.err(), Some(Full::Sessions), "each network has one");
    places.heard(number, LONG_NS);
    assert_eq!(places.begin(&limits, large[1], LONG_NS, "").unwrap().1, ["its neighbour"]);
}

#[test]
fn between_its_calls_a_connection_gives_way_and_in_a_call_it_does_not() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let mut places = Book::default();
    let (calls, _) = places.begin(&limits, one(), 0, "calls").unwrap();
    places.moved(calls, 1, LONG_NS).unwrap();
    assert_eq!(places.begin(&limits, other(), 2, "").err(), Some(Full::Sessions));
    places.rests(calls, 3);
    assert_eq!(places.begin(&limits, other(), 4, "").unwrap().1, ["calls"]);
}

#[test]
fn a_network_has_half_of_the_places_whatever_it_does_with_them() {
    let limits = Limits::default();
    let mut places = Book::default();
    let took = (1..=40)
        .filter(|n| begin(&mut places, &limits, ip(&format!("192.0.2.{n}"))).is_ok())
        .count();
    assert_eq!(took, 16);
    assert!(begin(&mut places, &limits, ip("192.0.3.1")).is_ok());
}

#[test]
fn what_the_system_has_nothing_left_for_goes_where_nothing_is_done_with_it() {
    let limits = Limits::default();
    let mut places = Book::default();
    assert_eq!(places.relieve(0), None);
    begin(&mut places, &limits, one()).unwrap();
    places.begin(&limits, one(), 0, "agreeing").unwrap();
    places.half_open(&limits, other(), "silent");
    assert_eq!([0; 3].map(|now| places.relieve(now)), [Some("silent"), Some("agreeing"), None]);
}

/// Forty attackers, each with ever new half-agreed tests, 200 in a second of all; whoever else comes has 70 ms to agree.
fn keeps_its_place_among(attackers: impl Fn(u64) -> String, good: &str) {
    let limits = Limits::default();
    let mut places = Book::default();
    let mut served = 0;
    for n in 0..1_000 {
        let now = n * 5_000_000;
        let _ = places.begin(&limits, ip(&attackers(n % 40)), now, "hostile");
        if n > 100 && n % 50 == 0 {
            let (number, _) = places.begin(&limits, ip(good), now, "good").unwrap();
            for m in n + 1..n + 15 {
                let now = m * 5_000_000;
                let _ = places.begin(&limits, ip(&attackers(m % 40)), now, "hostile");
            }
            assert_eq!(places.moved(number, now, 1), Ok(()), "it came when {n} had come");
            places.leave(number);
            served += 1;
        }
    }
    assert_eq!(served, 17);
}

#[test]
fn half_agreed_tests_of_more_addresses_than_there_are_places_keep_nobody_out() {
    keeps_its_place_among(|n| format!("10.9.53.{}", n + 1), "198.51.100.1");
    keeps_its_place_among(|n| format!("10.9.{n}.1"), "198.51.100.1");
    keeps_its_place_among(|n| format!("10.{n}.53.1"), "198.51.100.1");
    keeps_its_place_among(|n| format!("10.9.53.{}", n + 1), "10.9.53.200");
    keeps_its_place_among(|n| format!("2001:db8:{n:x}::1"), "2001:db8:ffff::1");
}

#[test]
fn a_larger_network_does_not_push_out_a_smaller_one() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let mut places = Book::default();
    places.begin(&limits, ip("198.51.100.1"), 0, "small").unwrap();
    places.begin(&limits, ip("10.9.1.1"), 1, "large").unwrap();
    places.begin(&limits, ip("10.9.2.1"), 2, "also large").unwrap();
    let newcomer = places.begin(&limits, ip("10.9.3.1"), 3, "").unwrap();
    assert_eq!(newcomer.1, ["large"], "its own");
    let newcomer = places.begin(&limits, ip("203.0.113.1"), 4, "").unwrap();
    assert_eq!(newcomer.1, ["also large"]);
}

#[test]
fn streams_are_bounded_for_each_client_each_network_and_in_all() {
    let limits = Limits { sessions: 100, ..Limits::default() };
    let mut places = Book::default();
    let mut ask = |ip: &str, streams| {
        let number = begin(&mut places, &limits, self::ip(ip)).unwrap();
        places.streams(&limits, number, 0, streams).map(drop)
    };
    assert_eq!(
        [128, 128, 1].map(|n| ask("192.0.2.1", n)),
        [Ok(()), Ok(()), Err(Full::StreamsOfOne)]
    );
    assert_eq!(ask("192.0.2.2", 256), Ok(()));
    assert_eq!(ask("192.0.2.3", 1), Err(Full::StreamsOfOne), "its network has half");
    assert_eq!(ask("192.0.3.1", 256), Ok(()));
    assert_eq!(ask("192.0.4.1", 256), Ok(()));
    assert_eq!(ask("192.0.5.1", 1), Err(Full::Streams));
}

#[test]
fn streams_that_nobody_uses_are_a_newcomers() {
    let limits = Limits { sessions_of_one: 32, ..Limits::default() };
    let mut places = Book::default();
    for n in 0..4 {
        let (number, _) = places.begin(&limits, ip(&format!("10.{n}.0.1")), n, "half").unwrap();
        assert_eq!(places.streams(&limits, number, n, 256), Ok(vec![]));
    }
    let mut good = || {
        let number = begin(&mut places, &limits, one()).unwrap();
        places.streams(&limits, number, 9, 128)
    };
    assert_eq!(good(), Ok(vec!["half"]));
    assert_eq!(good(), Ok(vec![]), "that left enough for another");
    let (number, _) = places.begin(&limits, other(), 9, "").unwrap();
    assert_eq!(places.streams(&limits, number, 9, 256), Ok(vec!["half"]));
    let (attacker, _) = places.begin(&limits, ip("10.0.0.1"), 10, "again").unwrap();
    let gone = places.streams(&limits, attacker, 10, 256);
    assert_eq!(gone, Ok(vec!["half"]), "one attacker's for another's");
    let (large, _) = places.begin(&limits, ip("10.0.0.1"), 11, "more").unwrap();
    let gone = places.streams(&limits, large, 11, 1);
    assert_eq!(gone, Err(Full::StreamsOfOne), "its own are too young to go");
}

#[test]
fn two_callers_of_one_wide_network_keep_their_places_among_idle_ones_of_many() {
    let limits = Limits::default();
    let mut places = Book::default();
    let mut now = 0;
    let honest: Vec<u64> = ["192.0.2.1", "192.0.77.1"]
        .iter()
        .map(|of| places.begin(&limits, ip(of), now, "").expect("a place").0)
        .collect();
    // Seven a second, each of a network of its own, which make a call and are at rest.
    for n in 0..700u64 {
        let of = ip(&format!("{}.{}.0.1", 20 + n % 100, n / 100));
        let idle = places.begin(&limits, of, now, "").expect("somebody idle gives way").0;
        places.moved(idle, now, u64::MAX).unwrap();
        places.rests(idle, now);
        now += 143_000_000;
        for caller in &honest {
            places.moved(*caller, now, 5_000_000_000).expect("it calls on");
            places.rests(*caller, now);
        }
        // One more of their network comes now and then, and goes.
        if n % 10 == 0 {
            let more = places.begin(&limits, ip("192.0.99.1"), now, "").expect("it is let in").0;
            places.leave(more);
        }
    }
}
