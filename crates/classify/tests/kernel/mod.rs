//! The program in this kernel beside its twin in plain Rust.
//!
//! Loading it needs root outside of containers. Tests are skipped where the kernel refuses even a program of two instructions, and only
//! there; they say so beside libtest, which shows nothing that a passed test prints.

#![allow(dead_code, reason = "each test program uses its own part")]

// Some who have this file have that one too.
#[allow(clippy::duplicate_mod)]
#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;

use crate::twin::{Packet, Routes, Twin};
use quell_classify::{Classifier, Config, Parts, Way};
use quell_units::Span;
use quell_wire::layers::{Layer, packet};
use std::net::IpAddr;

/// Says what a test leaves out, and why.
pub fn skipped(what: &str, why: &dyn std::fmt::Display) {
    left_out::kernel_lacks(format!("{what}: {why}"));
}

/// The classifier, unless this process may load nothing here.
pub fn load(config: &Config) -> Option<Classifier> {
    match Classifier::load(config) {
        Ok(classifier) => Some(classifier),
        Err(error) if error.proves_no_program_loads() => {
            let test = std::thread::current();
            skipped(test.name().unwrap_or("a test of the classifier"), &error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub fn config(parts: Parts) -> Config {
    Config::new(parts).unwrap()
}

/// The program and its twin, side by side.
pub struct Pair {
    pub program: Classifier,
    pub twin: Twin,
    way: Way,
    now: u64,
}

impl Pair {
    pub fn new(config: &Config) -> Option<Self> {
        Some(Pair {
            program: load(config)?,
            twin: Twin::new(config),
            way: Way::default(),
            now: 1 << 40,
        })
    }

    pub fn configure(&mut self, config: &Config) {
        self.program.tables().configure(config).unwrap();
        self.twin.configure(config);
    }

    /// Tells the twin what this thread's namespace answers the program, for packets that go that way.
    pub fn among(&mut self, routes: Routes) {
        self.way = routes.way;
        self.twin.set_routes(routes);
    }

    /// Tells both whose address is whose, in place of all that was known: all addresses with one number are one host.
    pub fn set_neighbours(&mut self, known: &[(IpAddr, u64)]) {
        let mut owners = self.program.tables().owners();
        for address in owners.keys().collect::<Result<Vec<_>, _>>().unwrap() {
            owners.remove(&address).unwrap();
        }
        for (address, host) in known {
            let bits = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            let for_ever = [*host, u64::MAX];
            owners.insert([(bits >> 64) as u64, bits as u64], for_ever, 0).unwrap();
        }
        self.twin.set_neighbours(known.iter().copied());
    }

    /// Lets both think that time has gone by.
    pub fn wait(&mut self, time: Span) {
        self.program.tables().age(time).unwrap();
        self.now += time.nanos();
    }

    /// The class that both give, or what each says where they differ.
    pub fn try_class(&mut self, frame: &[u8], mark: u32) -> Result<u32, String> {
        let packet = Packet { mark, ..Packet::of_frame(frame).expect("a frame") };
        let wanted = self.twin.classify(&packet, self.now);
        let got = self.program.test_run_on(frame, mark, self.way, 1);
        let got = got.map_err(|e| format!("{e}: {frame:02x?}"))?;
        let priority = wanted.priority.unwrap_or(0);
        if (got.class, got.priority) == (wanted.class, priority) {
            Ok(got.class)
        } else {
            Err(format!("program {got:x?}, twin {wanted:x?}: {frame:02x?}"))
        }
    }

    pub fn class(&mut self, layers: &[Layer]) -> u32 {
        self.try_class(&packet(layers), 0).unwrap()
    }
}
