//! What `quell tune` prints for a person.

use crate::text::{columns, lines};
use quell_tuning::conf::Override;
use quell_tuning::proof::{DirectionMeasurement, Proof, ProofVerdict};
use quell_tuning::report::{AppliedStatus, PlanLine, PlanReport, StatusReport};
use quell_units::fmt::rate;

/// The plan: what would change and what that gives; with `all` every setting that was looked at, with its reason and source.
pub fn plan(plan: &PlanReport<'_>, all: bool) -> String {
    let set = || plan.lines.iter().filter(|line| line.action == "set");
    let count = set().count();
    let mut text = format!("{}: ", plan.wanted);
    text += &match (count, plan.in_force) {
        (0, _) => "all is as it should be\n".to_owned(),
        (_, true) => "all of it is in force\n".to_owned(),
        (1, false) => "1 setting would change\n".to_owned(),
        (count, false) => format!("{count} settings would change\n"),
    };
    if let (Some(now), Some(then)) = (plan.one_transfer_now, plan.one_transfer_then) {
        let (from, to) = (rate(now.bits_per_second), rate(then.bits_per_second));
        let words = match from == to {
            true => format!("one transfer reaches {from} as it is, held up by {}", now.limited_by),
            false => format!(
                "one transfer: {from} → {to}, predicted; now held up by {}, then by {}",
                now.limited_by, then.limited_by
            ),
        };
        text += &lines("", &words, columns());
    }
    let sealed = plan.lines.iter().filter(|line| line.action == "cannot");
    if all {
        text.extend(plan.lines.iter().map(|line| format!("\n{}", plan_line(line))));
        text.push('\n');
    } else {
        let width = set().map(|line| line.key.len()).max().unwrap_or(0);
        text.extend(set().map(|line| {
            let (now, value) = (line.now.unwrap_or("–"), line.value.unwrap_or_default());
            format!("  {:width$}  {now} → {value}\n", line.key)
        }));
        text.extend(sealed.map(plan_line));
    }
    text += &cures(plan, all);
    text.extend(plan.proof.map(proof));
    text += &remarks(plan.remarks);
    let others = plan.lines.len() - count;
    if !all && others > 0 {
        text += &format!("{others} others stay as they are; reasons and sources: --all\n");
    }
    if count > 0 && !plan.in_force {
        text += "nothing was touched; quell tune apply sets them\n";
    }
    text
}

/// What helps one route or one connection, where a setting for all would be too much.
fn cures(plan: &PlanReport<'_>, all: bool) -> String {
    let mut text = String::new();
    if !plan.cures.is_empty() && (all || !plan.routes.is_empty()) {
        text += "for one route or one connection (apply --route PREFIX):\n";
        for cure in plan.cures {
            let route = cure.route.as_ref().map(ToString::to_string);
            let words: Vec<&str> = route.as_deref().into_iter().chain(cure.socket).collect();
            text += &format!("  {}\n", words.join(", or a program's "));
            if all {
                text += &lines("    ", &cure.why, columns());
                text += &lines("    ", &format!("source: {}", cure.source), columns());
            }
        }
        text += &listed(&plan.routes);
    }
    text
}

fn plan_line(line: &PlanLine<'_>) -> String {
    let PlanLine { key, .. } = line;
    let now = line.now.unwrap_or("–");
    let mut text = match line.action {
        "set" => format!("{key} = {}\n  now      {now}\n", line.value.unwrap_or_default()),
        "keep" => format!("{key}: stays {now}\n"),
        "leave" => format!("{key}: left alone, {now}\n"),
        _ => format!("{key}: can't be set here, {now}\n"),
    };
    if let (Some(default), Some(from), "set") = (line.default, line.default_from, line.action) {
        text += &format!("  default  {default} ({from})\n");
    }
    text += &lines("  why      ", line.why, columns());
    text + &lines("  source   ", line.source, columns())
}

/// A line each.
pub fn listed(steps: &[String]) -> String {
    steps.iter().map(|step| format!("  {step}\n")).collect()
}

/// A paragraph each.
pub fn remarks(said: &[String]) -> String {
    said.iter().map(|remark| lines("", remark, columns())).collect()
}

/// What was applied.
pub fn applied(wanted: &str, steps: &[String], said: &[String]) -> String {
    let how = match steps.len() {
        0 => format!("{wanted}: all was as wanted\n"),
        1 => format!("{wanted}: as wanted, by 1 step\n"),
        count => format!("{wanted}: as wanted, by {count} steps\n"),
    };
    listed(steps) + &how + &remarks(said)
}

/// What was measured.
pub fn proof(proof: &Proof) -> String {
    let ways: String = proof.ways.iter().map(measured).collect();
    let word = if proof.helped() { "it helps" } else { "that it helps is not shown" };
    format!("measured {}:\n{ways}{word}\n", proof.place)
}

fn measured(measured: &DirectionMeasurement) -> String {
    let way = measured.way;
    let predicted = measured.predicted.map_or([None, None], |both| both.map(Some));
    let mut text = String::new();
    let both = ["as it is", "as planned"].into_iter().zip(measured.means()).zip(predicted);
    for ((name, (mean, interval)), predicted) in both {
        let few = format!(" (of {} no interval: it needs 3)", measured.now.len());
        let within =
            |i: quell_stats::Interval| format!(", 95 % within {} to {}", rate(i.low), rate(i.high));
        let spread = interval.map_or(few, within);
        let predicted = predicted.map(|p| format!("; predicted {}", rate(p)));
        text += &format!(
            "  {way} {name:<10}  {}{}{}\n",
            rate(mean),
            spread,
            predicted.unwrap_or_default()
        );
    }
    let word = match measured.verdict() {
        ProofVerdict::Faster => "faster",
        ProofVerdict::Slower => "SLOWER",
        ProofVerdict::Unknown => "no difference is certain",
    };
    text + &format!("  {way} {word}\n")
}

/// That another file sets something else at boot.
pub fn overriding(other: &Override) -> String {
    let Override { key, file, value } = other;
    format!("{file} sets {key} to {value} at boot, after ours")
}

/// How things stand; `options` are those that name other folders.
pub fn status(status: &StatusReport, options: &str) -> String {
    match status {
        StatusReport::Nothing { standing, .. } => match standing {
            Some(how) => format!("{how}\n"),
            None => "nothing of `quell tune` is in force\n".to_owned(),
        },
        StatusReport::Applied(status) => applied_status(status, options),
    }
}

fn applied_status(status: &AppliedStatus, options: &str) -> String {
    let mut text = lines("", &format!("{}; {}", status.wanted, status.standing), columns());
    for setting in &status.settings {
        let (key, set) = (&setting.key, &setting.set);
        let value = setting.now.as_deref().unwrap_or("–");
        text += &match setting.state {
            "as set" => format!("  {key} = {value}\n"),
            "as before" => format!("  {key} = {value}: as before Quell, no longer {set}\n"),
            "gone" => format!("  {key}: the kernel has no such setting any more\n"),
            _ => format!("  {key} = {value}: somebody changed it since, from {set}\n"),
        };
    }
    for goal in &status.routes {
        text += &match &goal.route {
            Some(route) => format!("  route {} {route}\n", goal.to),
            None => format!("  the route to {} is gone\n", goal.to),
        };
    }
    text += &lines("  ", &status.file, columns());
    for other in &status.overridden {
        text += &lines("  ", &overriding(other), columns());
    }
    if !status.in_order && !status.waiting {
        text += &format!("quell tune apply{options} again, or quell tune revert{options}\n");
    }
    text
}
