//! A trial before anything is touched: in a namespace of its own, with interfaces of the same names and numbers, all is made that is
//! there, then all that is wanted, then what was there once more.
//!
//! What a kernel refuses it refuses there, and what does not come back as it was is found out: red, whose table no dump has, and kinds that
//! nobody here knows.

use crate::installed::settled;
use crate::steps::{Machine, Now, steps};
use crate::{ActError, Before, DeviceGoal, Goal, Kernel, Refusal, SysctlGoal};
use nix::errno::Errno;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{Link, VethEnd};
use quell_netlink::{Stack, sysctl, tc};
use quell_sys::netns::NetNs;
use quell_tc::observed::Raw;
use quell_tc::{Handle, Place, Places, Qdisc, Seen, Step, Thing};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

/// Tries the way there and back, and says what would not come back as it was.
///
/// # Errors
/// [`ActError::Trial`] where the kernel refuses what is wanted, with its answer. Any other: no trial could be held.
pub fn try_it(before: &Before, goal: &Goal, now: &Now) -> Result<Vec<String>, ActError> {
    let system = |e: &dyn std::fmt::Display| ActError::System(e.to_string());
    let real = Stack::open().and_then(|mut stack| stack.links()).map_err(|e| system(&e))?;
    let (space, beyond) = (NetNs::new(), NetNs::new());
    let (space, beyond) = (space.map_err(|e| system(&e))?, beyond.map_err(|e| system(&e))?);
    space.run(|| in_there(before, goal, now, &real, &beyond)).map_err(|e| system(&e))?
}

/// Whether the kernel has a kind of queue. None where that can't be tried.
pub fn kernel_has(qdisc: Qdisc) -> Option<bool> {
    // Bare, so without what a tree must have for packets to pass.
    kernel_takes(&[Thing::Step(Step::Qdisc {
        parent: Handle::ROOT,
        handle: Handle::qdisc(1),
        qdisc,
    })])
}

/// Whether the kernel takes queues and filters; tried on a cable in a namespace of its own. None where that can't be tried.
pub fn kernel_takes(things: &[Thing]) -> Option<bool> {
    let on_a_cable = || {
        let mut stack = Stack::open().ok()?;
        let end = |name: &str| Some(VethEnd::new(name.parse().ok()?));
        stack.create_veth(&end("here")?, &end("there")?).ok()?;
        let index = stack.index_of(&"here".parse().ok()?).ok()?;
        let mut socket = Socket::open(Protocol::Route).ok()?;
        Some(tc::lead_to(&mut socket, index, things, Places::ALL).is_ok())
    };
    NetNs::new().ok()?.run(on_a_cable).ok()?
}

fn in_there(
    before: &Before,
    goal: &Goal,
    now: &Now,
    real: &[Link],
    beyond: &NetNs,
) -> Result<Vec<String>, ActError> {
    let system = |e: &dyn std::fmt::Display| ActError::System(e.to_string());
    for setting in &goal.sysctls {
        try_setting(setting)?;
    }
    let mut stack = Stack::open().map_err(|e| system(&e))?;
    // As many as anybody redirects to; a machine with thousands of tunnels is not built again.
    let most = if goal.devices.is_empty() { 0 } else { MOST };
    for link in real.iter().filter(|link| link.name != "lo").take(most) {
        stand_in(&mut stack, link, beyond).map_err(|e| system(&e))?;
    }
    let mut kernel = Kernel::open().map_err(|e| system(&e))?;
    let was = Goal::from(before);
    let mut lost = Vec::new();
    for device in &was.devices {
        lost.extend(make(&mut kernel, device)?);
    }
    if !lost.is_empty() {
        return Ok(lost);
    }
    let queues = Goal {
        links: to_be_made(goal, now),
        devices: goal.devices.clone(),
        host_tables: goal.host_tables.clone(),
        ..Goal::default()
    };
    let refused = |(step, Refusal(why))| ActError::Trial(format!("{step}: {why}"));
    lead(&mut kernel, &queues).map_err(refused)?;
    let left = kernel.read(&queues).map_err(|Refusal(why)| ActError::System(why))?;
    if let Some(step) = steps(&queues, &left).first() {
        return Err(ActError::Trial(format!("after all steps there was still to do: {step}")));
    }
    Ok(Vec::new())
}

/// Sets a setting in the namespace of the trial, if it has its own. What the whole machine has one of is missing there, or can't be
/// written there (`ensure_safe_net_sysctl`, net/sysctl_net.c).
fn try_setting(wanted: &SysctlGoal) -> Result<(), ActError> {
    let SysctlGoal { key, value } = wanted;
    let refused = |why: String| ActError::Trial(format!("set {key} to {value}: {why}"));
    if sysctl::read(key).is_err_and(|e| e.errno() == Some(Errno::ENOENT)) {
        return Ok(());
    }
    match sysctl::write(key, value) {
        Ok(()) => {}
        Err(error) => match error.errno() {
            Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => return Ok(()),
            _ => return Err(refused(error.to_string())),
        },
    }
    let then = sysctl::read(key).map_err(|e| refused(e.to_string()))?;
    if then.split_whitespace().eq(value.split_whitespace()) {
        return Ok(());
    }
    Err(refused(format!("the kernel makes {then} of it")))
}

/// Interfaces that are made, at most.
const MOST: usize = 200;

/// The IFBs that are to be made. Those that are there already have a stand-in, which no IFB is.
fn to_be_made(goal: &Goal, now: &Now) -> Vec<crate::LinkGoal> {
    let made = |link: &&crate::LinkGoal| link.there && !now.links.contains_key(&link.name);
    goal.links.iter().filter(made).cloned().collect()
}

fn stand_in(
    stack: &mut Stack,
    link: &Link,
    beyond: &NetNs,
) -> Result<(), quell_netlink::NetlinkError> {
    let Ok(name) = link.name.parse() else { return Ok(()) };
    let here = VethEnd {
        index: Some(link.index),
        tx_queues: link.tx_queues.unwrap_or(1).clamp(1, 64),
        tx_queue_len: link.tx_queue_len,
        mtu: Some(link.mtu.clamp(68, 65_535)),
        ..VethEnd::new(name)
    };
    let there = VethEnd { namespace: Some(beyond.as_fd()), ..VethEnd::new(here.name.clone()) };
    stack.create_veth(&here, &there)
}

/// Makes what an interface has, and says what of it did not come out as it is.
fn make(kernel: &mut Kernel, device: &DeviceGoal) -> Result<Vec<String>, ActError> {
    if device.things.is_empty() {
        return Ok(Vec::new());
    }
    let one = Goal { devices: vec![device.clone()], ..Goal::default() };
    if let Err((step, Refusal(why))) = lead(kernel, &one) {
        return Ok(vec![format!("{step}: {why}")]);
    }
    let now = kernel.read(&one).map_err(|Refusal(why)| ActError::System(why))?;
    let made = now.before(&one);
    let mut known: BTreeMap<(Place, &str), Vec<&Raw>> = BTreeMap::new();
    for seen in made.devices.iter().flat_map(|d| &d.things) {
        known.entry((settled(seen.place, &seen.kind), &seen.kind)).or_default().push(&seen.raw);
    }
    let is_made = |seen: &Seen| {
        let same = known.get(&(settled(seen.place, &seen.kind), seen.kind.as_str()));
        same.is_some_and(|raws| raws.contains(&&seen.raw))
    };
    let differs = device.things.iter().filter_map(|thing| match thing {
        Thing::Seen(seen) if !is_made(seen) => {
            Some(format!("{thing} on {}: made again it is another", device.name))
        }
        _ => None,
    });
    Ok(differs.collect())
}

fn lead(kernel: &mut Kernel, goal: &Goal) -> Result<(), (String, Refusal)> {
    let now = kernel.read(goal).map_err(|why| ("looking".to_owned(), why))?;
    let todo = steps(goal, &now);
    kernel.carry_all_out(&todo).map_err(|(number, why)| (todo[number].to_string(), why))
}
