//! A machine without a kernel.

#[path = "../../../tc/tests/all/after.rs"]
mod after;

use after::KernelModel;
use quell_act::{
    Change, DeviceGoal, DeviceTarget, FileGoal, Goal, HostTableGoal, LinkGoal, LinkNow, Machine,
    Now, OwnRoute, Refusal, RouteGoal, SysctlGoal,
};
use quell_tc::observed::{ObservedQdisc, Raw, Snapshot, Stats};
use quell_tc::{Handle, Places, Tree, seen};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Trees that are wanted on eth0.
pub const TREES: [&str; 4] = [
    r#"queue = { kind = "fq_codel", limit = 100 }"#,
    r#"[queue]
       kind = "htb"
       default = "1:2"
       class = [ { id = "1:1", rate = "5Mbit", queue = "fq_codel" }, { id = "1:2", rate = "2Mbit" } ]
       filter = [ { kind = "fw", handle = 1, class = "1:1" } ]"#,
    r#"[queue]
       kind = "htb"
       default = "1:2"
       class = [ { id = "1:1", rate = "4Mbit", queue = "sfq" }, { id = "1:2", rate = "2Mbit", queue = "pfifo" } ]"#,
    r#"queue = { kind = "htb", handle = "8001:", class = [ { id = "8001:1", rate = "1Mbit" } ] }"#,
];

const ETH0: u32 = 2;
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// What is wanted of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    pub tree: usize,
    pub download: bool,
    pub sysctl: u8,
    pub file: u8,
}

fn things(text: &str) -> Vec<quell_tc::Thing> {
    toml::from_str::<Tree>(text).unwrap().plan().unwrap().things()
}

impl Scene {
    pub fn goal(&self) -> Goal {
        let mut eth0 = DeviceGoal {
            name: "eth0".into(),
            index: Some(ETH0),
            places: Places { root: true, ingress: false },
            things: things(TREES[self.tree]),
        };
        let mut goal = Goal::default();
        if self.download {
            goal.links.push(LinkGoal { name: "ifb".into(), mac: OURS, there: true });
            goal.devices.push(DeviceGoal {
                name: "ifb".into(),
                index: None,
                places: Places { root: true, ingress: false },
                things: things(TREES[1]),
            });
            eth0.places.ingress = true;
            eth0.things.extend(things(
                r#"ingress = { filter = [{ kind = "matchall", action = { redirect = "ifb" } }] }"#,
            ));
        }
        goal.devices.push(eth0);
        if self.sysctl > 0 {
            goal.sysctls.push(SysctlGoal { key: "a/b".into(), value: self.sysctl.to_string() });
            let on = self.sysctl == 1;
            let device = "eth0".to_owned();
            let route = on.then_some(OwnRoute {
                via: None,
                device,
                quick_ack: Some(true),
                initial_cwnd: None,
                ecn: None,
                congestion_control: None,
            });
            goal.routes.push(RouteGoal { to: "192.0.2.0/24".into(), route });
            goal.host_tables.push(HostTableGoal { device: "eth0".into(), there: on });
        }
        if self.file > 0 {
            let content = (self.file == 1).then(|| (b"new".to_vec(), 0o644));
            goal.files.push(FileGoal { path: "/etc/x".into(), content });
        }
        goal
    }
}

/// Links, queues, settings and files.
#[derive(Debug, Clone)]
pub struct Model {
    now: Now,
    next: u32,
    refuse: Option<usize>,
    die: Option<usize>,
    second_look: Option<String>,
}

impl Model {
    /// A machine with a queue of somebody's: none, of a kind that nobody knows, the kernel's own and a hook, one that hides something.
    pub fn new(there_was: usize) -> Self {
        let mut snapshot = Snapshot::default();
        let mut put = |handle, parent, kind: &str, hidden: Option<&str>| {
            let raw = Raw {
                options: Some(vec![1, 2, 3]),
                hidden: hidden.map(str::to_owned),
                ..Raw::default()
            };
            snapshot.qdiscs.push(ObservedQdisc {
                ifindex: ETH0,
                handle: Handle::qdisc(handle),
                parent,
                kind: kind.to_owned(),
                options: None,
                stats: Stats::default(),
                extra: None,
                raw,
            });
        };
        match there_was {
            1 => put(0x8001, Handle::ROOT, "odd", None),
            2 => {
                put(0, Handle::ROOT, "pfifo_fast", None);
                put(u16::MAX, Handle::INGRESS, "clsact", None);
            }
            3 => put(0x8002, Handle::ROOT, "netem", Some("its secret")),
            _ => {}
        }
        let mut now = Now::default();
        let eth0 = LinkNow { index: ETH0, kind: None, mac: None, up: true };
        now.links.insert("eth0".into(), eth0);
        now.queues.insert(ETH0, snapshot);
        now.sysctls.insert("a/b".into(), "0".into());
        now.files.insert("/etc/x".into(), Some((b"old".to_vec(), 0o600)));
        Model { now, next: 10, refuse: None, die: None, second_look: None }
    }

    /// The step of this number from now is refused, from 0.
    pub fn refuse_step(&mut self, number: usize) {
        self.refuse = Some(number);
    }

    /// Before the step of this number from now the process dies.
    pub fn die_at_step(&mut self, number: usize) {
        self.die = Some(number);
    }

    /// Somebody puts a root queue there after the first look.
    pub fn at_second_look(&mut self, tree: &str) {
        self.second_look = Some(tree.to_owned());
    }

    /// Somebody else puts a root queue there.
    pub fn put_root(&mut self, device: &str, tree: &str) {
        let index = self.now.links[device].index;
        let snapshot = self.now.queues.entry(index).or_default();
        let places = Places { root: true, ingress: false };
        for change in quell_tc::changes(&things(tree), places, snapshot) {
            snapshot.carry_out(&change);
        }
    }

    /// All of it, without the numbers of links that come and go and without an order.
    pub fn state(&self) -> BTreeMap<String, Vec<String>> {
        let mut state = BTreeMap::new();
        for (name, link) in &self.now.links {
            let things = self.now.queues.get(&link.index).map(seen).unwrap_or_default();
            let mut lines: Vec<String> = things.iter().map(|t| format!("{t:?}")).collect();
            lines.sort();
            state.insert(name.clone(), lines);
        }
        let Now { sysctls, routes, host_tables, .. } = &self.now;
        // No file, looked for or not.
        let files: Vec<_> =
            self.now.files.iter().filter(|(_, content)| content.is_some()).collect();
        state.insert(
            "others".into(),
            vec![format!("{sysctls:?} {routes:?} {files:?} {host_tables:?}")],
        );
        state
    }

    fn index(&self, target: &DeviceTarget) -> Result<u32, Refusal> {
        let by_name = || self.now.links.get(&target.name).map(|link| link.index);
        target.index.or_else(by_name).ok_or_else(|| Refusal(format!("no {}", target.name)))
    }
}

/// True once, at its number.
fn counted(number: &mut Option<usize>) -> bool {
    match number {
        Some(0) => number.take().is_some(),
        Some(more) => {
            *more -= 1;
            false
        }
        None => false,
    }
}

impl Machine for Model {
    fn read(&mut self, goal: &Goal) -> Result<Now, Refusal> {
        let now = self.now.clone();
        // A look at the interfaces alone is none at the queues.
        if !goal.devices.is_empty()
            && let Some(tree) = self.second_look.take()
        {
            self.put_root("eth0", &tree);
        }
        Ok(now)
    }

    fn carry_out(&mut self, change: &Change) -> Result<(), Refusal> {
        assert!(!counted(&mut self.die), "dead");
        if counted(&mut self.refuse) {
            return Err(Refusal("the model would not".into()));
        }
        match change {
            Change::MakeIfb { name, mac, index } => {
                self.next += 1;
                let (kind, mac) = (Some("ifb".into()), Some(*mac));
                let link = LinkNow { index: index.unwrap_or(self.next), kind, mac, up: true };
                if self.now.links.insert(name.clone(), link).is_some() {
                    return Err(Refusal(format!("{name} is there")));
                }
            }
            Change::SwitchOn(target) => {
                self.now.links.get_mut(&target.name).expect("it is there").up = true;
            }
            Change::DeleteIfb(target) => {
                let index = self.index(target)?;
                self.now.links.retain(|_, link| link.index != index);
                self.now.queues.remove(&index);
            }
            Change::Queue { device, change } => {
                let index = self.index(device)?;
                self.now.queues.entry(index).or_default().carry_out(change);
            }
            Change::Sysctl(SysctlGoal { key, value }) => {
                self.now.sysctls.insert(key.clone(), value.clone());
            }
            Change::Route(RouteGoal { to, route: Some(route) }) => {
                self.now.routes.insert(to.clone(), route.clone());
            }
            Change::Route(RouteGoal { to, route: None }) => drop(self.now.routes.remove(to)),
            Change::HostTable(HostTableGoal { device, there: true }) => {
                self.now.host_tables.insert(device.clone());
            }
            Change::HostTable(HostTableGoal { device, there: false }) => {
                assert!(self.now.host_tables.remove(device), "it is there");
            }
            Change::File(FileGoal { path, content }) => {
                self.now.files.insert(PathBuf::from(path), content.clone());
            }
        }
        Ok(())
    }
}
