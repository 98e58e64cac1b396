//! The program by itself.

use std::net::Ipv6Addr;

use quell_classify::{Classifier, Config, HostKey, Keys, Parts};
use quell_wire::layers::{Layer, packet};

use crate::summed_up;

/// Runs of the program in a round: few enough to be over, mostly, before another program gets the CPU.
const REPEAT: u32 = 5_000;
/// So many more rounds than of what takes longer.
const MORE: usize = 20;

fn v6(last: u16) -> Layer {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    Layer::v6(address(last), address(0xffff))
}

fn v4(last: u8) -> Layer {
    Layer::v4([192, 0, 2, last], [198, 51, 100, 1])
}

/// The packets, by name; the goal in ns where there is one.
pub fn packets() -> Vec<(&'static str, Vec<u8>, Option<u32>)> {
    let tcp = || vec![Layer::Tcp { src: 40000, dst: 443 }, Layer::payload(1200)];
    let frame = |tunnel: &[Layer], inner: Layer| {
        packet(&[&[Layer::Ethernet], tunnel, &[inner], &tcp()[..]].concat())
    };
    let gre = Layer::Gre { checksum: false, key: true, sequence: false };
    let vxlan =
        [v4(9), Layer::Udp { src: 50000, dst: 4789 }, Layer::Vxlan { network: 7 }, Layer::Ethernet];
    vec![
        ("plain, IPv4", frame(&[], v4(1)), Some(60)),
        ("plain, IPv6", frame(&[], v6(1)), Some(60)),
        ("IP in IP", frame(&[v4(9)], v4(1)), Some(120)),
        ("IPv4 in IPv6", frame(&[v6(9)], v4(1)), Some(120)),
        ("IPv6 in IPv6", frame(&[v6(9)], v6(1)), Some(120)),
        ("GRE with a key", frame(&[v4(9), gre], v4(1)), Some(120)),
        ("VXLAN", frame(&vxlan, v4(1)), Some(120)),
        ("IP in IP in IP", frame(&[v4(9), v4(8)], v4(1)), None),
    ]
}

/// What it is told to do, by name.
pub fn tasks() -> Result<Vec<(&'static str, Config)>, String> {
    let flows = |keys| Config::new(Parts { keys, ..Parts::flows(1, 1024) });
    let all = [
        ("flow of five keys", flows(Keys::OUTER)),
        ("flow of ten keys", flows(Keys::ALL_FLOWS)),
        ("host and flow, for CAKE", Config::cake(HostKey::TunnelSrc)),
    ];
    all.into_iter().map(|(name, c)| Ok((name, c.map_err(|e| e.to_string())?))).collect()
}

pub fn run(rounds: usize) -> Result<(), String> {
    let rounds = rounds * MORE;
    println!(
        "\nthe program alone, ns a packet: median [quartiles] of {rounds} rounds of {REPEAT} runs"
    );
    let tasks = tasks()?;
    let mut loaded = Vec::new();
    for (name, config) in &tasks {
        loaded.push((name, Classifier::load(config).map_err(|e| e.to_string())?));
    }
    for (what, frame, goal) in packets() {
        let mut taken = vec![Vec::new(); loaded.len()];
        for _ in 0..rounds {
            for (at, (_, classifier)) in loaded.iter().enumerate() {
                let run = classifier.test_run(&frame, 0, REPEAT).map_err(|e| e.to_string())?;
                taken[at].push(run.took.as_nanos() as f64);
            }
        }
        let goal = goal.map_or(String::new(), |goal| format!("   (goal: under {goal})"));
        println!("{what}{goal}");
        for ((name, _), taken) in loaded.iter().zip(taken) {
            // The least is what it takes where nobody else has the CPU's other half.
            let least = taken.iter().copied().fold(f64::INFINITY, f64::min);
            println!("  {name:<26} {}, least {least:.1}", summed_up(taken));
        }
    }
    Ok(())
}
