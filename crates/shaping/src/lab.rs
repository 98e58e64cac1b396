//! Experiments for a person's line: `home-link` with that line and the queues that would be applied, tried or proven in the lab.

use crate::CommandError;
use quell_policy::{DeviceTraits, LinePath, LinePolicy, LineRates, PolicyName, PrefixText, Tell};
use quell_units::Rate;
use toml::{Table, Value};

/// The addresses of home-link's hosts, which stand in for whoever shares the line.
const STAND_INS: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.1.1", "fd00:0:0:1::1"]];

struct HomeLink {
    pub line: LineRates,
    pub changes: Vec<String>,
    /// The queues' names, as a list in TOML.
    pub names: String,
    pub remarks: Vec<String>,
}

/// Faster lines take the lab minutes for each measurement, or are more than it can load.
const FASTEST: Rate = Rate::from_bps(1_000_000_000);

fn home_link(
    all: &LinePolicy,
    policy: PolicyName,
    path: LinePath,
) -> Result<HomeLink, CommandError> {
    let (up, down) = all.rates();
    let mut remarks = Vec::new();
    if all.follow.is_some() {
        remarks.push(
            "the line does not vary here, and nobody follows it: these are the queues at the ceilings"
                .to_owned(),
        );
    }
    let line = all.line.unwrap_or_else(|| {
        let line = |shaped: Option<Rate>, usual: u64| {
            shaped.map_or(Rate::from_bps(usual), |rate| Rate::from_bps(rate.bps() / 95 * 100))
        };
        let line = LineRates { up: line(up, 2_500_000), down: line(down, 8_000_000) };
        let text = String::from(line);
        remarks
            .push(format!("the line is taken to be {text}, of which 95 % are used; --line tells"));
        line
    });
    if line.up.max(line.down) > FASTEST {
        return Err(CommandError::usage(format!(
            "a line of {} Mbit/s is more than the lab tries in a person's time. Take --line with at most {FASTEST} in each \
         direction: the same subscribers, hosts and tiers share less",
            String::from(line)
        )));
    }
    let all = stand_in(all, policy, &mut remarks);
    let mut queues = Vec::new();
    let ways = [("up", "out", Tell::Source, up), ("down", "in", Tell::Destination, down)];
    for (name, direction, tell, rate) in ways {
        let Some(rate) = rate else { continue };
        let policy = all.policy(policy, tell, rate, DeviceTraits::default());
        let policy = Value::try_from(policy).map_err(CommandError::system)?;
        queues.push(Value::Table(Table::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("on".to_owned(), Value::from("router:wan")),
            ("direction".to_owned(), Value::from(direction)),
            ("policy".to_owned(), policy),
        ])));
    }
    let names: Vec<Value> = queues.iter().map(|queue| queue["name"].clone()).collect();
    let mut changes = path.changes(line);
    changes.push(format!("queue={}", Value::Array(queues)));
    Ok(HomeLink { line, changes, names: Value::Array(names).to_string(), remarks })
}

/// What of home-link is otherwise where a policy is tried: the line, the queues, the flood, what others published of another line. And what there
/// is to say.
pub fn rehearsal(
    all: &LinePolicy,
    policy: PolicyName,
    path: LinePath,
) -> Result<(Vec<String>, Vec<String>), CommandError> {
    let HomeLink { line, mut changes, names, remarks } = home_link(all, policy, path)?;
    let flood = Rate::from_bps(line.up.bps() / 10 * 32);
    changes.extend([
        "name=shape-try".to_owned(),
        format!("title=\"A line of {}: as it is and shaped\"", String::from(line)),
        "about=\"What `quell shape try` was asked for; the network is that of home-link.\"".into(),
        "expect=[]".into(),
    ]);
    let tcp = |name: &str, way: &str| {
        format!(
            "{{ name = \"{name}\", kind = \"tcp\", from = \"a\", to = \"server\", connections = 3, direction = \"{way}\" }}"
        )
    };
    let udp = format!(
        "{{ name = \"flood\", kind = \"udp\", from = \"a\", to = \"server\", rate = \"{flood}\", size = \"1400B\" }}"
    );
    changes.push(format!("load=[{}, {}, {udp}]", tcp("bulk", "up"), tcp("download", "down")));
    let mut scenarios = Vec::new();
    for (name, title) in [
        ("unloaded", "nothing else on the line".to_owned()),
        ("bulk", "three uploads from A".to_owned()),
        ("download", "three downloads to A".to_owned()),
        ("flood", format!("UDP flood from A, {flood}")),
    ] {
        let loads = if name == "unloaded" { String::new() } else { format!("\"{name}\"") };
        scenarios.push(format!("{{ name = \"{name}\", title = \"{title}\", loads = [{loads}] }}"));
        scenarios.push(format!(
            "{{ name = \"{name}-shaped\", title = \"{title}, shaped\", loads = [{loads}], queues = {names} }}"
        ));
    }
    changes.push(format!("scenario=[{}]", scenarios.join(", ")));
    Ok((changes, remarks))
}

/// The same where a proof is foretold: a flow each way, as it sends them, and pings beside.
pub fn prediction(all: &LinePolicy, policy: PolicyName) -> Result<Vec<String>, CommandError> {
    let HomeLink { mut changes, names, .. } = home_link(all, policy, LinePath::default())?;
    let load = |way| {
        format!(
            "{{ name = \"{way}\", kind = \"tcp\", from = \"a\", to = \"server\", direction = \"{way}\" }}"
        )
    };
    let scenario = |way| format!("{{ name = \"{way}\", loads = [\"{way}\"], queues = {names} }}");
    changes.extend([
        "name=shape-prediction".to_owned(),
        "title=\"What the twin of a line foretells\"".into(),
        "about=\"What `quell shape prove --twin` was asked for; the network is that of home-link.\"".into(),
        "expect=[]".into(),
        "probes-run=together".into(),
        "warm-up=0s".into(),
        format!("load=[{}, {}]", load("up"), load("down")),
        "probe=[{ name = \"ping\", kind = \"ping\", from = \"a\", to = \"server\", interval = \"50ms\" }]".into(),
        format!("scenario=[{}, {}]", scenario("up"), scenario("down")),
    ]);
    Ok(changes)
}

/// The lab's hosts in the place of those who are named.
fn stand_in(all: &LinePolicy, policy: PolicyName, said: &mut Vec<String>) -> LinePolicy {
    let mut all = all.clone();
    if policy != PolicyName::Subscribers {
        return all;
    }
    if all.is_lazy(policy) && all.subscribers.len() > STAND_INS.len() {
        let others = all.subscribers.len() - STAND_INS.len();
        said.push(format!("the {others} others are not there, and so have no classes"));
        all.subscribers.truncate(STAND_INS.len());
    }
    for ((one, with), name) in all.subscribers.iter_mut().zip(STAND_INS).zip(["a", "b"]) {
        said.push(format!("host {name} plays {}", one.name));
        let prefixes = with.iter().filter_map(|text| (*text).to_owned().try_into().ok());
        one.prefixes = prefixes.collect();
    }
    // Somebody else's may be the lab's.
    let here = STAND_INS.len().min(all.subscribers.len());
    let (stand_ins, others) = all.subscribers.split_at_mut(here);
    let lab: Vec<PrefixText> = stand_ins.iter().flat_map(|one| one.prefixes.clone()).collect();
    others.iter_mut().for_each(|one| one.prefixes.retain(|prefix| !lab.contains(prefix)));
    all.subscribers.retain(|one| !one.prefixes.is_empty());
    all
}

/// The same where what a policy promises is proven, on a line like the person's: what burdens it, and what must hold. What can't be measured on a
/// real line with one host beyond it follows from the queues alone, and the lab's kernel has the same ones.
///
/// ```text
///   a: four uploads ──┐                                   shares:  B has as much as A           (host-fair, cake)
///                     ├── router ── modem ════ server      bounds:  nobody above a ceiling, all above a floor
///   b: one            ┘        wan       dsl               order:   bulk makes room for normal, a ping of the high tier waits for neither
/// ```
pub fn proof(
    all: &LinePolicy,
    policy: PolicyName,
) -> Result<(Vec<String>, Vec<String>), CommandError> {
    let HomeLink { line, mut changes, names, remarks } =
        home_link(all, policy, LinePath::default())?;
    let mut proof = Proof::default();
    let (up, down) = all.rates();
    if up.is_some() {
        proof.shares("up", all, policy);
        // Of what comes CAKE looks at no tier: senders far away set those.
        proof.order(policy);
    }
    if down.is_some() {
        proof.shares("down", all, policy);
    }
    changes.extend([
        "name=shape-proof".to_owned(),
        format!("title=\"A line of {}: what its queues promise\"", String::from(line)),
        "about=\"What `quell shape prove --in-lab` was asked for; the network is that of home-link.\"".into(),
        "probes-run=together".into(),
        format!("expect=[{}]", proof.claims.join(", ")),
        format!("load=[{}]", proof.loads.join(", ")),
        format!("probe=[{}]", proof.probes()),
        format!("scenario=[{}]", proof.scenarios(&names)),
    ]);
    Ok((changes, remarks))
}

#[derive(Default)]
struct Proof {
    loads: Vec<String>,
    /// Names, and the loads in them.
    scenarios: Vec<(String, Vec<String>)>,
    claims: Vec<String>,
}

impl Proof {
    fn load(&mut self, name: &str, from: &str, way: &str, connections: u32, tos: Option<&str>) {
        let tos = tos.map(|tos| format!(", tos = \"{tos}\"")).unwrap_or_default();
        self.loads.push(format!(
            "{{ name = \"{name}\", kind = \"tcp\", from = \"{from}\", to = \"server\", direction = \"{way}\", \
             connections = {connections}{tos} }}"
        ));
    }

    fn claim(&mut self, text: String) {
        self.claims.push(format!("\"{text}\""));
    }

    /// Host A opens four connections, B one.
    fn shares(&mut self, way: &str, all: &LinePolicy, policy: PolicyName) {
        let (a, b, scenario) = (format!("a-{way}"), format!("b-{way}"), format!("shares-{way}"));
        // What is claimed of a load is claimed of each of its connections; a ceiling is one of them all.
        let many = if policy == PolicyName::Subscribers { 1 } else { 4 };
        self.load(&a, "a", way, many, None);
        self.load(&b, "b", way, 1, None);
        match policy {
            PolicyName::HostFair | PolicyName::Cake => {
                self.claim(format!("{scenario}.{b}.share = 50% ± 3%"));
            }
            // By flows alone: a fifth.
            PolicyName::Tiers => self.claim(format!("{scenario}.{b}.share = 20% ± 3%")),
            PolicyName::Subscribers => {
                for (one, name) in all.subscribers.iter().zip([&a, &b]) {
                    let bounds = if way == "up" { one.up } else { one.down };
                    self.claim(format!("{scenario}.{name}.goodput <= {}", bounds.ceiling));
                    // Of what HTB counts, 1448 of 1514 bytes are a transfer's.
                    let payload = Rate::from_bps(bounds.floor.bps() / 1514 * 1448 / 100 * 97);
                    self.claim(format!("{scenario}.{name}.goodput >= {payload}"));
                }
            }
        }
        self.scenarios.push((scenario, vec![a, b]));
    }

    /// Two transfers of each of two tiers from one host, and a ping of the highest.
    fn order(&mut self, policy: PolicyName) {
        if policy == PolicyName::Subscribers {
            return;
        }
        self.load("normal", "a", "up", 2, None);
        self.load("bulk", "a", "up", 2, Some("CS1"));
        self.claim("order.normal.goodput > 2 * order.bulk.goodput".into());
        self.claim("order.high.rtt.p99 < order.low.rtt.p99".into());
        self.scenarios.push(("order".into(), vec!["normal".into(), "bulk".into()]));
    }

    fn probes(&self) -> String {
        let ping = |(name, tos)| {
            format!(
                "{{ name = \"{name}\", kind = \"ping\", from = \"a\", to = \"server\", tos = \"{tos}\" }}"
            )
        };
        [("high", "EF"), ("low", "CS1")].map(ping).join(", ")
    }

    fn scenarios(&self, queues: &str) -> String {
        let one = |(name, loads): &(String, Vec<String>)| {
            let loads: Vec<String> = loads.iter().map(|load| format!("\"{load}\"")).collect();
            format!("{{ name = \"{name}\", loads = [{}], queues = {queues} }}", loads.join(", "))
        };
        self.scenarios.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
