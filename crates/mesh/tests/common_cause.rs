//! Random networks with a fault or two: what is named is at fault, or nobody can tell.
//!
//! ```text
//!   agents of a site ── its gateway ── core routers (a tree with a few links more) ── gateway ── agents
//! ```

use quell_mesh::common_cause::{
    Cause, CommonCause, Directions, Observation, Segment, Topology, common_cause,
};
use quell_mesh::events::MeshFindings;
use quell_mesh::folder::{MINUTE_NS, Pair};
use quell_mesh::history::MeshHistory;
use quell_model::sketch::{Sketch, bucket};
use quell_stats::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

struct World {
    topology: Topology,
    /// Agent and peer of each probe.
    pairs: Vec<(String, String)>,
}

/// A fault: a segment, from its first end to its second as these stand here, the reverse, or both.
type Fault = (Segment, Directions);

fn pick<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.below(of.len() as u64) as usize]
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let sites = 3 + rng.below(5);
        let cores = 2 + rng.below(4);
        let mut links: Vec<(String, String)> = Vec::new();
        for core in 1..cores {
            links.push((format!("core{core}"), format!("core{}", rng.below(core))));
        }
        links.push(("core0".into(), format!("core{}", 1 + rng.below(cores - 1))));
        let mut topology = Topology::default();
        for site in 0..sites {
            links.push((format!("gw{site}"), format!("core{}", rng.below(cores))));
            for agent in 0..1 + rng.below(4) {
                let name = format!("s{site}-{agent}");
                links.push((name.clone(), format!("gw{site}")));
                topology.sites.insert(name, format!("s{site}"));
            }
        }
        let agents: Vec<String> = topology.sites.keys().cloned().collect();
        let peers = 3 + rng.below(agents.len() as u64);
        let mut pairs = BTreeSet::new();
        for agent in &agents {
            for _ in 0..peers {
                let peer = pick(rng, &agents);
                if peer != agent {
                    pairs.insert((agent.clone(), peer.clone()));
                }
            }
        }
        for (a, b) in pairs.iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            topology.paths.insert((a.clone(), b.clone()), vec![hops(&links, a, b)]);
        }
        Self { topology, pairs: pairs.into_iter().collect() }
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let directions = *pick(rng, &[Directions::Up, Directions::Down, Directions::Both]);
        let (a, b) = pick(rng, &self.pairs);
        let site = |agent: &String| self.topology.sites[agent].clone();
        let segment = match rng.below(4) {
            0 => Segment::Agent(a.clone()),
            1 => Segment::Site(site(a)),
            2 if site(a) != site(b) => Segment::Sites(site(a), site(b)),
            _ => {
                let nodes = self.nodes(a, b);
                let at = rng.below(nodes.len() as u64 - 1) as usize;
                Segment::Link(nodes[at].clone(), nodes[at + 1].clone())
            }
        };
        (segment, directions)
    }

    fn nodes(&self, from: &str, to: &str) -> Vec<String> {
        let hops = &self.topology.paths[&(from.to_owned(), to.to_owned())][0];
        [&[from.to_owned()], &hops[..], &[to.to_owned()]].concat()
    }

    /// Whether packets from one agent to another meet the fault.
    fn meets(&self, from: &str, to: &str, (segment, directions): &Fault) -> bool {
        let group = |agent: &str| [agent.to_owned(), self.topology.sites[agent].clone()];
        let (from_group, to_group) = (group(from), group(to));
        let [up, down] = match segment {
            Segment::Agent(agent) => [from == agent, to == agent],
            Segment::Site(site) => {
                let [leaves, enters] = [from_group.contains(site), to_group.contains(site)];
                [leaves && !enters, enters && !leaves]
            }
            Segment::Sites(a, b) => [
                from_group.contains(a) && to_group.contains(b),
                from_group.contains(b) && to_group.contains(a),
            ],
            // Of a row of links all are crossed by the same packets.
            Segment::Link(a, b) => {
                let nodes = self.nodes(from, to);
                let at = |node| nodes.iter().position(|n| n == node);
                match (at(a), at(b)) {
                    (Some(a), Some(b)) => [a < b, b < a],
                    _ => [false, false],
                }
            }
        };
        match directions {
            Directions::Up => up,
            Directions::Down => down,
            Directions::Both => up || down,
        }
    }

    /// What each probe would see of these faults, each direction by itself.
    fn seen(&self, faults: &[Fault]) -> Vec<Observation> {
        let mut seen = Vec::new();
        for (agent, peer) in &self.pairs {
            for (directions, from, to) in
                [(Directions::Up, agent, peer), (Directions::Down, peer, agent)]
            {
                let bad = faults.iter().any(|fault| self.meets(from, to, fault));
                let (agent, peer, class) = (agent.clone(), peer.clone(), "probe".into());
                seen.push(Observation { agent, peer, class, directions, bad });
            }
        }
        seen
    }

    /// The same where only round trips are seen.
    fn round_trips(&self, faults: &[Fault]) -> Vec<Observation> {
        let both = self.seen(faults);
        let join = |ways: &[Observation]| Observation {
            directions: Directions::Both,
            bad: ways.iter().any(|way| way.bad),
            ..ways[0].clone()
        };
        both.chunks(2).map(join).collect()
    }
}

/// The routers on a shortest path.
fn hops(links: &[(String, String)], from: &str, to: &str) -> Vec<String> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::from([(from, from)]);
    let mut open = VecDeque::from([from]);
    while let Some(at) = open.pop_front() {
        for (a, b) in links.iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            if a == at && !before.contains_key(b.as_str()) {
                before.insert(b, at);
                open.push_back(b);
            }
        }
    }
    let mut path = Vec::new();
    let mut at = before[to];
    while at != from {
        path.push(at.to_owned());
        at = before[at];
    }
    path.reverse();
    path
}

/// Whether exactly what was seen as bad is what meets the causes.
fn explains(world: &World, observations: &[Observation], causes: &[Cause]) -> bool {
    let faults: Option<Vec<Fault>> = causes
        .iter()
        .map(|cause| Some((cause.suspects[0].segment.clone(), cause.suspects[0].directions?)))
        .collect();
    faults.is_some_and(|faults| world.seen(&faults) == observations)
}

/// Whether this is where the fault is.
fn is_at(cause: &Cause, (segment, directions): &Fault) -> bool {
    let turned = match directions {
        Directions::Up => Directions::Down,
        Directions::Down => Directions::Up,
        Directions::Both => Directions::Both,
    };
    let alone = |site: &str| format!("{site}-0");
    cause.suspects.iter().any(|suspect| match (&suspect.segment, segment) {
        (Segment::Agent(a), Segment::Site(site)) => *a == alone(site),
        (Segment::Sites(a, b), Segment::Sites(c, d)) if (a, b) == (d, c) => {
            suspect.directions.is_none_or(|d| d == turned)
        }
        (a, b) => a == b && suspect.directions.is_none_or(|d| d == *directions),
    }) || match segment {
        Segment::Link(a, b) => {
            cause.hops.windows(2).any(|h| [[a, b], [b, a]].contains(&[&h[0], &h[1]]))
        }
        _ => false,
    }
}

#[derive(Default)]
struct Tally {
    right: usize,
    unknown: usize,
}

impl Tally {
    /// One fault was there: it is named, or it is among what can't be told apart.
    fn count(&mut self, told: &CommonCause, fault: &Fault, is_right: impl Fn(&[Cause]) -> bool) {
        match told {
            CommonCause::Found(causes) => {
                assert!(causes.len() == 1 && is_right(causes), "{fault:?}: {told} {causes:?}");
                self.right += 1;
            }
            CommonCause::CannotTell(sets) => {
                assert!(sets.concat().iter().any(|c| is_at(c, fault)), "{fault:?}: {told}");
                self.unknown += 1;
            }
            CommonCause::Nothing { .. } => panic!("{fault:?}: {told}"),
        }
    }

    #[track_caller]
    fn is_good(&self) {
        let Tally { right, unknown } = self;
        println!("{right} right, {unknown} can't tell");
        assert!(*right >= 9 * unknown && *right > 0, "{right} right, {unknown} can't tell");
    }
}

/// A world with a fault that more than one probe meets.
fn faulty(seed: u64) -> Option<(Rng, World, Fault)> {
    let mut rng = Rng::new(seed);
    let world = World::new(&mut rng);
    let fault = world.fault(&mut rng);
    let met = world.seen(std::slice::from_ref(&fault)).iter().filter(|o| o.bad).count();
    (met > 1).then_some((rng, world, fault))
}

#[test]
fn one_fault_is_named_or_nobody_can_tell() {
    let mut tally = Tally::default();
    for (_, world, fault) in (0..60).filter_map(faulty) {
        let seen = world.seen(std::slice::from_ref(&fault));
        let told = common_cause(&seen, &world.topology);
        tally.count(&told, &fault, |causes| explains(&world, &seen, causes));
    }
    tally.is_good();
}

#[test]
fn without_sites_and_paths_an_agents_fault_is_named_all_the_same() {
    let mut tally = Tally::default();
    for (_, world, fault) in (0..60).filter_map(faulty) {
        if matches!(fault.0, Segment::Agent(_)) {
            let seen = world.seen(std::slice::from_ref(&fault));
            let told = common_cause(&seen, &Topology::default());
            tally.count(&told, &fault, |causes| explains(&world, &seen, causes));
        }
    }
    tally.is_good();
}

#[test]
fn where_only_round_trips_are_seen_no_direction_is_named() {
    let mut tally = Tally::default();
    for (_, world, fault) in (100..160).filter_map(faulty) {
        let seen = world.round_trips(std::slice::from_ref(&fault));
        if seen.iter().filter(|o| o.bad).count() < 2 {
            continue;
        }
        let told = common_cause(&seen, &world.topology);
        tally.count(&told, &fault, |causes| is_at(&causes[0], &fault));
        if let CommonCause::Found(causes) = &told {
            let directed = causes[0].suspects[0].directions.is_some_and(|d| d != Directions::Both);
            assert!(!directed || matches!(fault.0, Segment::Link(..)), "{told}");
        }
    }
    tally.is_good();
}

#[test]
fn of_two_faults_both_are_named_or_nobody_can_tell() {
    let (mut both, mut unknown) = (0, 0);
    for (mut rng, world, fault) in (200..260).filter_map(faulty) {
        let faults = [fault, world.fault(&mut rng)];
        let seen = world.seen(&faults);
        match common_cause(&seen, &world.topology) {
            CommonCause::Found(causes) => {
                // What one probe alone meets beside the rest is no cause of its own.
                let told: Vec<Fault> = causes
                    .iter()
                    .filter_map(|c| {
                        Some((c.suspects[0].segment.clone(), c.suspects[0].directions?))
                    })
                    .collect();
                let explained = world.seen(&told);
                let wrong = explained.iter().zip(&seen).filter(|(a, b)| a.bad != b.bad);
                assert!(wrong.count() <= 1, "{faults:?}: {causes:?}");
                both += 1;
            }
            CommonCause::CannotTell(_) => unknown += 1,
            told => panic!("{faults:?}: {told}"),
        }
    }
    println!("{both} named, {unknown} can't tell");
    assert!(both > unknown, "{both} named, {unknown} can't tell");
}

const LENGTH: i64 = 40;
const FAULT: std::ops::Range<i64> = 20..32;

/// Minutes of 60 packets each way of all pairs, with a fault that loses so many of those that meet it.
fn measured(world: &World, fault: Option<&Fault>, loss: f64, rng: &mut Rng) -> MeshHistory {
    let mut mesh = MeshHistory::new(0, LENGTH * MINUTE_NS);
    for (agent, peer) in &world.pairs {
        let key = Pair {
            agent: agent.as_str().into(),
            peer: peer.as_str().into(),
            class: "probe".into(),
        };
        let minutes: Vec<Sketch> = (0..LENGTH)
            .map(|minute| {
                let mut lost = |from: &str, to: &str| {
                    let meets = fault.is_some_and(|f| world.meets(from, to, f));
                    let p = if meets && FAULT.contains(&minute) { loss } else { 1e-4 };
                    (0..60).filter(|_| rng.f64() < p).count() as u64
                };
                let (lost_up, lost_down) = (lost(agent, peer), lost(peer, agent));
                let buckets = vec![(bucket(20_000_000), 60 - (lost_up + lost_down).min(59) as u32)];
                Sketch {
                    sent: 60,
                    lost_up,
                    lost_down,
                    buckets,
                    ..Sketch::new(minute * MINUTE_NS, MINUTE_NS as u64)
                }
            })
            .collect();
        mesh.add(key.clone(), &minutes);
        let hops = world.topology.paths[&(agent.clone(), peer.clone())][0].clone();
        mesh.add_path(key, 0, hops);
    }
    mesh
}

#[test]
fn a_loss_of_packets_is_found_with_its_begin_and_its_cause() {
    let mut tally = Tally::default();
    for (mut rng, world, fault) in (300..312).filter_map(faulty) {
        let loss = *pick(&mut rng, &[0.1, 0.2, 0.4]);
        let mesh = measured(&world, Some(&fault), loss, &mut rng);
        let found = MeshFindings::of(&mesh).incidents;
        assert_eq!(found.len(), 1, "{fault:?}: {found:#?}");
        let begin = found[0].from_ns / MINUTE_NS;
        assert!((FAULT.start..FAULT.start + 3).contains(&begin), "{begin}: {fault:?}");
        let end = found[0].to_ns.expect("it is over") / MINUTE_NS;
        assert!((FAULT.end - 3..=FAULT.end + 1).contains(&end), "{end}: {fault:?}");
        assert!((0.5..1.5).contains(&(found[0].after / loss)), "{}", found[0].after);
        // Down no path is known where the peer does not measure too: of a gateway's link, the site's uplink is named.
        let seen = world.seen(std::slice::from_ref(&fault));
        tally.count(&found[0].cause, &fault, |causes| {
            is_at(&causes[0], &fault) || explains(&world, &seen, causes)
        });
    }
    tally.is_good();
}

#[test]
fn where_nothing_is_wrong_nothing_is_named() {
    for seed in 0..3 {
        let mut rng = Rng::new(seed);
        let world = World::new(&mut rng);
        assert_eq!(MeshFindings::of(&measured(&world, None, 0.0, &mut rng)).incidents, []);
        let told = common_cause(&world.seen(&[]), &world.topology);
        assert_eq!(told, CommonCause::Nothing { bad: 0 });
    }
}

#[test]
fn where_one_class_alone_is_hit_the_good_pairs_of_others_absolve_nobody() {
    let sites = ["ams", "fra", "nyc", "sin", "tok"];
    let all = sites.iter().flat_map(|a| sites.iter().map(move |b| (*a, *b)));
    let mut mesh = MeshHistory::new(0, LENGTH * MINUTE_NS);
    for (agent, peer) in all.filter(|(agent, peer)| agent != peer) {
        for class in ["voice", "echo"] {
            // It begins and ends within a minute.
            let lost = |from, minute| match (from, class, minute) {
                ("sin", "voice", 20 | 31) => 4,
                ("sin", "voice", 21..=30) => 15,
                _ => 0,
            };
            let minutes: Vec<Sketch> = (0..LENGTH)
                .map(|minute| Sketch {
                    sent: 60,
                    lost_up: lost(agent, minute),
                    lost_down: lost(peer, minute),
                    buckets: vec![(bucket(20_000_000), 45)],
                    ..Sketch::new(minute * MINUTE_NS, MINUTE_NS as u64)
                })
                .collect();
            let [agent, peer, class] = [agent, peer, class].map(Into::into);
            mesh.add(Pair { agent, peer, class }, &minutes);
        }
    }
    let said: Vec<String> =
        MeshFindings::of(&mesh).incidents.iter().map(|i| i.sentence(mesh.to_ns)).collect();
    let expected = "From 00:20 to 00:32 UTC loss of 25.0 % in voice at sin, up (8 of 8 pairs, 0 of 12 others).";
    assert_eq!(said, [expected]);
}
