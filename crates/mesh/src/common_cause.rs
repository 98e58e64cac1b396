//! What is common to all that is bad: which agent, site, link or pair of sites, and in which direction.
//!
//! ```text
//!   observations ──► what each could be the fault of ──► classes that no observation tells apart
//!   (pair, direction,                                              │
//!    good or bad)      fewest mistakes of one class or two ◄───────┘
//!                            └──► a cause with its evidence, or "can't tell" with the candidates
//! ```
//!
//! It is a weighted set cover: a cause costs as much as [`PRICE`] observations that it does not explain, and each good observation that crosses it
//! speaks against it. Up is what an agent or a site sends, or from the first of two to the second.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What one cause costs, in observations: one bad pair alone has nothing in common with any other. Between whole numbers, so that one cause never ties with two.
const PRICE: f64 = 1.5;
/// Candidates of which two are tried together; the best of them.
const MOST_IN_TWOS: usize = 200;

/// What a probe from an agent to its peer tells of the directions that its packets took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub agent: String,
    pub peer: String,
    pub class: String,
    pub directions: Directions,
    pub bad: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    Up,
    Down,
    Both,
}

/// A part of the network that can be at fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Segment {
    Agent(String),
    /// What leaves or enters a site of several agents.
    Site(String),
    /// Between two sites, or agents that are alone at theirs; by name.
    Sites(String, String),
    /// From hop to hop, an end being an agent's name; by name.
    Link(String, String),
}

/// Where agents are, and which hops are on the way from one to another; what is not known is left out.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// The site of an agent.
    pub sites: BTreeMap<String, String>,
    /// From agent to peer: the hops between them that answered; several paths where there were several.
    pub paths: BTreeMap<(String, String), Vec<Vec<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suspect {
    pub segment: Segment,
    /// None where no observation tells them apart.
    pub directions: Option<Directions>,
}

/// One thing that explains what is bad.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// More than one where no observation tells them apart.
    pub suspects: Vec<Suspect>,
    /// The hops in a row that all of its packets pass, and nobody else's.
    pub hops: Vec<String>,
    /// Pairs that cross it, and how many of them are bad.
    pub bad: usize,
    pub of: usize,
    /// All other pairs, and how many of them are bad.
    pub others_bad: usize,
    pub others: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommonCause {
    /// So many pairs are bad, and have nothing in common.
    Nothing { bad: usize },
    /// One cause, or two at once.
    Found(Vec<Cause>),
    /// Each explains what is bad as well as the others.
    CannotTell(Vec<Vec<Cause>>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cover(Vec<u64>);

impl Cover {
    fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64)])
    }

    fn set(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] & (1 << (bit % 64)) != 0
    }

    fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    /// How many bits both have.
    fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }
}

/// Candidates that the same observations cross.
struct Class {
    cover: Cover,
    members: Vec<(Segment, Directions)>,
}

/// The class that alone is bad, where another one is good between the same two: what is good of others absolves nobody.
pub fn only_class(observations: &[Observation]) -> Option<&str> {
    fn way(o: &Observation) -> (&str, &str, Directions) {
        (&o.agent, &o.peer, o.directions)
    }
    let (bad, good): (Vec<_>, Vec<_>) = observations.iter().partition(|o| o.bad);
    let class = bad.first()?.class.as_str();
    let ways: BTreeSet<_> = bad.iter().copied().map(way).collect();
    let is_only = bad.iter().all(|o| o.class == class)
        && good.iter().any(|o| o.class != class && ways.contains(&way(o)));
    is_only.then_some(class)
}

/// The cause of what is bad, within its class where that alone is. Observations that are neither good nor bad for certain are left out by the caller.
pub fn common_cause(observations: &[Observation], topology: &Topology) -> CommonCause {
    let class = only_class(observations);
    let of_class = observations.iter().filter(|o| class.is_none_or(|class| o.class == class));
    let observations = &of_class.cloned().collect::<Vec<_>>()[..];
    let mut bad = Cover::new(observations.len());
    let mut good = bad.clone();
    for (at, observation) in observations.iter().enumerate() {
        if observation.bad { bad.set(at) } else { good.set(at) }
    }
    let mistakes = |cover: &Cover| bad.common(&bad) - cover.common(&bad) + cover.common(&good);
    let classes = classes(observations, topology, &bad, &good);
    let nothing = Cover::new(observations.len());
    let mut hypotheses = vec![(mistakes(&nothing) as f64, Vec::new())];
    for (at, class) in classes.iter().enumerate() {
        hypotheses.push((mistakes(&class.cover) as f64 + PRICE, vec![at]));
        for (second, other) in classes[..at.min(MOST_IN_TWOS)].iter().enumerate() {
            let both = class.cover.with(&other.cover);
            hypotheses.push((mistakes(&both) as f64 + 2.0 * PRICE, vec![second, at]));
        }
        if at >= MOST_IN_TWOS {
            break;
        }
    }
    let best =
        hypotheses.iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("nothing is one").clone();
    let is_part = |a: &[usize], b: &[usize]| a.iter().all(|class| b.contains(class));
    // One observation that was misjudged decides nothing.
    let as_good = hypotheses
        .iter()
        .filter(|(cost, h)| *cost < best.0 + 1.0 && !is_part(h, &best.1) && !is_part(&best.1, h))
        .map(|(_, h)| h);
    let told = |h: &Vec<usize>| h.iter().map(|at| cause(&classes[*at], observations)).collect();
    let found: Vec<Cause> = told(&best.1);
    let rivals: Vec<Vec<Cause>> = as_good.map(told).collect();
    if found.is_empty() {
        let bad = pairs(observations, |at| bad.has(at)).len();
        CommonCause::Nothing { bad }
    } else if rivals.is_empty() && found.iter().all(|cause| cause.suspects.len() == 1) {
        CommonCause::Found(found)
    } else {
        CommonCause::CannotTell([vec![found], rivals].concat())
    }
}

/// Those with more bad than good observations, the best first.
fn classes(
    observations: &[Observation],
    topology: &Topology,
    bad: &Cover,
    good: &Cover,
) -> Vec<Class> {
    let mut covers: BTreeMap<(Segment, Directions), Cover> = BTreeMap::new();
    let mut agents: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for agent in observations.iter().flat_map(|o| [&o.agent, &o.peer]) {
        if let Some(site) = topology.sites.get(agent) {
            agents.entry(site).or_default().insert(agent);
        }
    }
    for (at, observation) in observations.iter().enumerate() {
        let (a, b) = (observation.agent.as_str(), observation.peer.as_str());
        let ways = match observation.directions {
            Directions::Up => &[(a, b)][..],
            Directions::Down => &[(b, a)],
            Directions::Both => &[(a, b), (b, a)],
        };
        for (segment, direction) in ways.iter().flat_map(|(a, b)| crossed(a, b, topology, &agents))
        {
            for directions in [direction, Directions::Both] {
                let key = (segment.clone(), directions);
                covers.entry(key).or_insert_with(|| Cover::new(observations.len())).set(at);
            }
        }
    }
    let mut classes: BTreeMap<Cover, Vec<(Segment, Directions)>> = BTreeMap::new();
    for (member, cover) in covers {
        if cover.common(bad) > cover.common(good) {
            classes.entry(cover).or_default().push(member);
        }
    }
    let mut classes: Vec<Class> =
        classes.into_iter().map(|(cover, members)| Class { cover, members }).collect();
    classes.sort_by_key(|c| c.cover.common(good) as isize - c.cover.common(bad) as isize);
    classes
}

/// What packets from one agent to another could meet, and in which of its directions.
fn crossed(
    from: &str,
    to: &str,
    topology: &Topology,
    agents: &BTreeMap<&str, BTreeSet<&str>>,
) -> Vec<(Segment, Directions)> {
    let mut all = vec![
        (Segment::Agent(from.into()), Directions::Up),
        (Segment::Agent(to.into()), Directions::Down),
    ];
    let sites = [from, to].map(|agent| topology.sites.get(agent).map(String::as_str));
    if sites[0].is_none() || sites[0] != sites[1] {
        for (site, direction) in sites.into_iter().zip([Directions::Up, Directions::Down]) {
            // That of an agent alone is the agent's.
            let site = site.filter(|site| agents[site].len() > 1);
            all.extend(site.map(|site| (Segment::Site(site.into()), direction)));
        }
        let [from, to] = [sites[0].unwrap_or(from), sites[1].unwrap_or(to)];
        all.push(ordered(Segment::Sites, from, to));
    }
    for hops in topology.paths.get(&(from.to_owned(), to.to_owned())).into_iter().flatten() {
        let hops = hops.iter().map(String::as_str);
        let nodes: Vec<&str> = std::iter::once(from).chain(hops).chain([to]).collect();
        all.extend(nodes.windows(2).map(|ends| ordered(Segment::Link, ends[0], ends[1])));
    }
    all
}

fn ordered(of: fn(String, String) -> Segment, from: &str, to: &str) -> (Segment, Directions) {
    match from <= to {
        true => (of(from.into(), to.into()), Directions::Up),
        false => (of(to.into(), from.into()), Directions::Down),
    }
}

fn pairs(observations: &[Observation], is_meant: impl Fn(usize) -> bool) -> BTreeSet<(&str, &str)> {
    let meant = observations.iter().enumerate().filter(|(at, _)| is_meant(*at));
    meant.map(|(_, o)| (o.agent.as_str(), o.peer.as_str())).collect()
}

fn cause(class: &Class, observations: &[Observation]) -> Cause {
    let of = pairs(observations, |at| class.cover.has(at));
    let bad = pairs(observations, |at| class.cover.has(at) && observations[at].bad);
    let all = pairs(observations, |_| true);
    let all_bad = pairs(observations, |at| observations[at].bad);
    let mut by_segment: BTreeMap<&Segment, Vec<Directions>> = BTreeMap::new();
    for (segment, directions) in &class.members {
        by_segment.entry(segment).or_default().push(*directions);
    }
    let (links, others): (Vec<_>, Vec<_>) =
        by_segment.into_iter().partition(|(segment, _)| matches!(segment, Segment::Link(..)));
    let hops = row(&links);
    // What else only its packets cross is a place within that of an agent or a site.
    let listed = if others.is_empty() { links } else { others };
    let only = |d: &[Directions]| (d.len() == 1).then(|| d[0]);
    let suspects = match (&listed[0], &hops[..]) {
        ((Segment::Link(a, b), directions), [first, .., last]) => {
            // Along the row, whichever end has the first name.
            let along = hops.windows(2).any(|ends| ends[0] == *a && ends[1] == *b);
            let turned = only(directions).map(|d| if along { d } else { d.turned() });
            let segment = Segment::Link(first.clone(), last.clone());
            vec![Suspect { segment, directions: turned }]
        }
        _ => listed
            .iter()
            .map(|(s, d)| Suspect { segment: (*s).clone(), directions: only(d) })
            .collect(),
    };
    Cause {
        suspects,
        hops,
        bad: bad.len(),
        of: of.len(),
        others_bad: all_bad.difference(&of).count(),
        others: all.difference(&of).count(),
    }
}

/// The hops of links that hang together in one row; empty where they don't.
fn row(links: &[(&Segment, Vec<Directions>)]) -> Vec<String> {
    let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (segment, _) in links {
        if let Segment::Link(a, b) = segment {
            beside.entry(a).or_default().push(b);
            beside.entry(b).or_default().push(a);
        }
    }
    let Some(mut at) = beside.iter().find(|(_, next)| next.len() == 1).map(|(hop, _)| *hop) else {
        return Vec::new();
    };
    let mut hops = vec![at];
    while let Some(next) = beside[at].iter().find(|hop| !hops.contains(hop)) {
        at = next;
        hops.push(at);
    }
    let is_all = hops.len() == beside.len() && links.len() + 1 == hops.len();
    if is_all { hops.into_iter().map(str::to_owned).collect() } else { Vec::new() }
}

impl Directions {
    fn turned(self) -> Self {
        match self {
            Directions::Up => Directions::Down,
            Directions::Down => Directions::Up,
            Directions::Both => Directions::Both,
        }
    }
}

impl Suspect {
    /// As the end of a sentence.
    fn location(&self) -> String {
        let between = |a: &str, b: &str| match self.directions {
            Some(Directions::Up) => format!("from {a} to {b}"),
            Some(Directions::Down) => format!("from {b} to {a}"),
            Some(Directions::Both) => format!("between {a} and {b}, both directions"),
            None => format!("between {a} and {b}"),
        };
        let of = |who: String| match self.directions {
            Some(Directions::Up) => format!("{who}, up"),
            Some(Directions::Down) => format!("{who}, down"),
            Some(Directions::Both) => format!("{who}, both directions"),
            None => who,
        };
        match &self.segment {
            Segment::Agent(agent) => of(format!("at {agent}")),
            Segment::Site(site) => of(format!("on the uplink of {site}")),
            Segment::Sites(a, b) => format!("on the path {}", between(a, b)),
            Segment::Link(a, b) => format!("on the link {}", between(a, b)),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.suspects.iter().map(Suspect::location).collect();
        write!(f, "{} ({} of {} pairs", names.join(" or "), self.bad, self.of)?;
        match self.others {
            0 => write!(f, ")"),
            others => write!(f, ", {} of {others} others)", self.others_bad),
        }
    }
}

impl fmt::Display for CommonCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |causes: &[Cause]| {
            causes.iter().map(Cause::to_string).collect::<Vec<_>>().join(" and ")
        };
        match self {
            CommonCause::Nothing { bad: 0 } => write!(f, "no pair is bad"),
            CommonCause::Nothing { bad } => {
                write!(f, "of {} with nothing in common", quell_units::fmt::plural(*bad, "pair"))
            }
            CommonCause::Found(causes) => write!(f, "{}", all(causes)),
            CommonCause::CannotTell(sets) => {
                let sets: Vec<String> = sets.iter().map(|set| all(set)).collect();
                write!(f, "at a place unknown: {}", sets.join(", or "))
            }
        }
    }
}
