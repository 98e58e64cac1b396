//! The cures of single routes: shown as commands, or applied and taken back with the rest.
//!
//! ```text
//!   --route 198.51.100.0/24 ─► the route by which packets go there now ─► the same way, for that prefix, with the cures' words
//! ```
//!
//! A prefix that has a route of its own keeps it: what the kernel shows of one is not all that it was made of (metric, protocol, nexthops),
//! so that it could not be brought back as it was.

use crate::CommandError;
use crate::{RouteCure, Tuning};
use quell_act::{Log, OwnRoute, RouteGoal, own_routes};
use quell_netlink::route::Route;
use quell_netlink::{Prefix, Stack};

/// A route of its own for each of these prefixes, by the way that packets there go now; none where the plan has no cure of a route.
pub fn wanted(plan: &Tuning, prefixes: &[Prefix]) -> Result<Vec<RouteGoal>, CommandError> {
    let cures: Vec<&RouteCure> = plan.cures.iter().filter_map(|cure| cure.route.as_ref()).collect();
    if cures.is_empty() || prefixes.is_empty() {
        return Ok(Vec::new());
    }
    let mut stack = Stack::open().map_err(CommandError::system)?;
    let (routes, links) = (
        stack.routes().map_err(CommandError::system)?,
        stack.links().map_err(CommandError::system)?,
    );
    let one = |prefix: &Prefix| {
        let leads = |route: &&Route| route.to.holds(prefix.address());
        let best = routes.iter().filter(leads).max_by_key(|route| route.to.length());
        let device = best.and_then(|route| route.dev);
        let device = links.iter().find(|link| Some(link.index) == device);
        let (Some(route), Some(device)) = (best, device) else {
            return Err(CommandError::usage(format!("this machine has no route to {prefix}")));
        };
        let mut own = OwnRoute {
            via: route.via,
            device: device.name.clone(),
            quick_ack: None,
            initial_cwnd: None,
            ecn: None,
            congestion_control: None,
        };
        for cure in &cures {
            match cure {
                RouteCure::CongestionControl(name) => own.congestion_control = Some(name.clone()),
                RouteCure::QuickAck => own.quick_ack = Some(true),
                RouteCure::Ecn => own.ecn = Some(true),
                RouteCure::FirstWindow(segments) => own.initial_cwnd = Some(*segments),
            }
        }
        Ok(RouteGoal { to: prefix.network().to_string(), route: Some(own) })
    };
    prefixes.iter().map(one).collect()
}

/// Each as one command: a second one would take away what the first one said.
pub fn commands(wanted: &[RouteGoal]) -> Vec<String> {
    let command = |goal: &RouteGoal| {
        let route = goal.route.as_ref()?;
        Some(format!("ip route replace {} {route}", goal.to))
    };
    wanted.iter().filter_map(command).collect()
}

/// Refuses prefixes whose own route is not ours.
pub fn refuse_others(wanted: &[RouteGoal], log: Option<&Log>) -> Result<(), CommandError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let routes =
        Stack::open().and_then(|mut stack| stack.routes()).map_err(CommandError::system)?;
    let ours = |to: &str| log.is_some_and(|log| log.origin().routes.iter().any(|r| r.to == to));
    for goal in wanted {
        let there = routes.iter().any(|route| route.to.to_string() == goal.to);
        if there && !ours(&goal.to) {
            return Err(CommandError::system(format!(
                "{0} has a route of its own already, which could not be brought back as it was; nothing was changed. \
                 Name a part of it, or change it by hand: {1}",
                goal.to,
                commands(std::slice::from_ref(goal)).join("")
            )));
        }
    }
    Ok(())
}

/// The routes that were applied, as they are now; none where one is gone.
pub fn as_they_are(log: Option<&Log>) -> Vec<RouteGoal> {
    let Some(log) = log.filter(|log| !log.origin().routes.is_empty()) else { return Vec::new() };
    let applied = &log.origin().routes;
    let wanted = |to: &str| applied.iter().any(|route| route.to == to);
    let mut there =
        Stack::open().and_then(|mut stack| own_routes(&mut stack, wanted)).unwrap_or_default();
    let one = |goal: &RouteGoal| RouteGoal { to: goal.to.clone(), route: there.remove(&goal.to) };
    applied.iter().map(one).collect()
}
