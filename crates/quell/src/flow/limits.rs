//! What held a sender up, as a finding: its figures for programs, its words as a sentence beside those of its direction.

use super::figures::{bytes, ms, percent, rate};
use quell_finding::{Evidence, Finding, Remedy, Severity, to_do};
use quell_flow::findings::Way;
use quell_flow::held::{Held, Limit};
use quell_flow::{Findings, Outcome, Standing, Vanishing};

/// Where the figures come from.
const KERNEL: &str = "TCP_INFO of the sender";
const SCHEDULER: &str = "/proc/thread-self/schedstat";
const DEVICE: &str = "queues of the own device";

/// What was found, of each direction of a test.
pub fn findings(outcome: &Outcome, findings: &Findings) -> Vec<Finding> {
    let ways = [(&findings.up, "up"), (&findings.down, "down")];
    ways.into_iter().filter_map(|(way, name)| of(outcome, way.as_ref()?, name)).collect()
}

/// What was found of one direction; none where nobody knows, or the test broke off.
pub fn of(outcome: &Outcome, way: &Way, name: &str) -> Option<Finding> {
    if let Some(seen) = &way.vanishing {
        return Some(vanishing(name, seen));
    }
    let (limit, held) = way.limited_by.zip(way.held.as_ref())?;
    let receiver = if name == "up" { "there" } else { "here" };
    let asked = outcome.plan.rate.or(outcome.plan.pacing);
    outcome.broke.is_none().then(|| held_up(way, (limit, held), (name, receiver), asked))
}

/// It in a sentence: what, and what to do.
pub fn sentence(finding: &Finding) -> String {
    let says = &finding.says;
    match to_do(finding) {
        Some(change) if says.contains(": ") => format!("{says}; {change}"),
        Some(change) => format!("{says}: {change}"),
        None => says.clone(),
    }
}

/// What a limit is told by: the name by which the doctor knows it too, how much it matters, why.
fn matters(limit: Limit) -> (&'static str, Severity, &'static str) {
    use Severity::{Note, Warning};
    match limit {
        Limit::ReceiveWindow => {
            ("receiver-window", Warning, "no more than one window arrives each round trip")
        }
        Limit::SendBuffer => (
            "send-buffer",
            Warning,
            "what is not acknowledged has to be kept, and there is no room for more",
        ),
        Limit::Both => (
            "receive-window-and-send-buffer",
            Warning,
            "no more than the window, or the buffer, arrives each round trip",
        ),
        Limit::Rate => ("rate", Note, "it was told to be no faster"),
        Limit::Path => ("path", Note, "the narrowest place of the path carries no more"),
        Limit::OwnQueue => {
            ("own-queue", Note, "what comes behind this host's device is no narrower")
        }
        Limit::SenderCpu => ("sender-cpu", Warning, "what writes the data never slept"),
        Limit::ReceiverCpu => ("receiver-cpu", Warning, "what reads the data never slept"),
        Limit::Unknown => ("unknown", Note, "the facts leave several"),
    }
}

/// Parts of the time, and the rest that the kernel told.
fn seen(way: &Way, held: &Held) -> Vec<Evidence> {
    let share = |name, share: f64, source| Evidence::number(name, share * 100.0, "%", source);
    let mut seen = vec![
        share("receiver's window held it up", held.window, KERNEL),
        share("own send buffer did", held.send_buffer, KERNEL),
        share("congestion window full", held.cwnd, KERNEL),
        share("nothing to send", held.no_data, KERNEL),
    ];
    seen.extend(held.missing.map(|part| share("below the rate", part, "calculated")));
    let queue = [("queue all the time", held.queue), ("at most", held.queue_most)];
    seen.extend(
        queue.into_iter().filter_map(|(name, ms)| Some(Evidence::number(name, ms?, "ms", KERNEL))),
    );
    let cpu = [("sender's CPU", held.sender_cpu), ("receiver's CPU", held.receiver_cpu)];
    seen.extend(cpu.into_iter().filter_map(|(name, part)| Some(share(name, part?, SCHEDULER))));
    if let Some(queue) = &way.own_queue {
        seen.push(Evidence::text("device", &*queue.device, DEVICE));
        seen.push(Evidence::part("packets waited", queue.stood, queue.looks, "looks", DEVICE));
        seen.push(Evidence::amount("most", queue.most, "bytes", DEVICE));
        seen.push(Evidence::amount("dropped", queue.dropped + queue.filtered, "packets", DEVICE));
    }
    seen
}

/// What held a sender up, with the facts.
fn held_up(
    way: &Way,
    (limit, held): (Limit, &Held),
    (name, receiver): (&str, &str),
    asked: Option<u64>,
) -> Finding {
    let (id, severity, why) = matters(limit);
    let (says, change) = told(way, (limit, held), receiver, asked);
    Finding {
        id: id.to_owned(),
        subject: name.to_owned(),
        severity,
        says,
        evidence: seen(way, held),
        why: why.to_owned(),
        remedies: change.map(Remedy::advice).into_iter().collect(),
        source: "tcp_info of include/uapi/linux/tcp.h; net/ipv4/tcp_output.c, tcp_chrono_start"
            .to_owned(),
    }
}

/// What held it up, and what would make it faster.
fn told(
    way: &Way,
    (limit, held): (Limit, &Held),
    receiver: &str,
    asked: Option<u64>,
) -> (String, Option<String>) {
    let rate = if asked.is_some() {
        "the rate that was asked for"
    } else {
        "the rate that the server allows"
    };
    let below = match held.missing {
        Some(missing) => format!("kept {} below {rate}", percent(missing)),
        None => "held up".to_owned(),
    };
    let part = |share: f64| format!("{} of the time", percent(share));
    let says = match limit {
        Limit::ReceiveWindow => {
            let change =
                format!("it could be faster with a larger one (-w, net.ipv4.tcp_rmem {receiver})");
            let who = "the window that the receiver offers";
            return (format!("{below} by {who} ({})", part(held.window)), Some(change));
        }
        Limit::SendBuffer => {
            let change = "it could be faster with a larger one (-w, net.ipv4.tcp_wmem)";
            let who = "the sender's own buffer";
            return (format!("{below} by {who} ({})", part(held.send_buffer)), Some(change.into()));
        }
        Limit::Both => {
            let change = format!(
                "it could be faster with larger ones (-w, net.ipv4.tcp_rmem {receiver}, net.ipv4.tcp_wmem at the sender)"
            );
            let says = format!(
                "{below} by both ends in turn, the window that the receiver offers ({}) and the sender's own buffer ({})",
                part(held.window),
                part(held.send_buffer)
            );
            return (says, Some(change));
        }
        Limit::Rate if held.nothing_else() => format!("held up by {rate}, and by nothing else"),
        Limit::Rate => format!("held up by {rate}"),
        Limit::Path if way.keeps_queue.is_some() => {
            let (who, share) = match way.keeps_queue {
                Some(Limit::SendBuffer) => ("the sender's own buffer", held.send_buffer),
                Some(Limit::Both) => {
                    ("the receiver's window or the sender's buffer", held.window + held.send_buffer)
                }
                _ => ("the receiver's window", held.window),
            };
            match (held.queue, held.queue_most) {
                (Some(least), Some(most)) if !held.is_kept() => format!(
                    "{below} by the path, which is full: its queue stands between {} and {} ms; {who} did for {}",
                    ms(least),
                    ms(most),
                    part(share)
                ),
                (queue, _) => {
                    let queue =
                        queue.map_or(String::new(), |queue| format!(" at {} ms", ms(queue)));
                    format!(
                        "{below} by the path, which is full; {who} ({}) keeps its queue{queue}, which a larger one \
                         would only lengthen",
                        part(share)
                    )
                }
            }
        }
        Limit::Path => {
            format!("{below} by the path (congestion control), not by a window or buffer")
        }
        Limit::OwnQueue => match &way.own_queue {
            Some(queue) => {
                let shows = format!("`quell tree {}` shows it", queue.device);
                return (format!("{below} by {}", own_queue(queue)), Some(shows));
            }
            None => format!("{below} by this host's own queue"),
        },
        Limit::SenderCpu => {
            let says = format!(
                "{below} by the sender's CPU: what writes the data wanted it for {} and waited for room the rest of it",
                part(held.sender_cpu.unwrap_or(1.0))
            );
            return (says, Some("more streams (-P) use more CPUs, -Z copies less".into()));
        }
        Limit::ReceiverCpu => {
            let says = format!(
                "{below} by the receiver's CPU: what reads the data wanted it for {}, and left the window shut for {}",
                part(held.receiver_cpu.unwrap_or(1.0)),
                part(held.window)
            );
            return (says, Some("more streams (-P) use more CPUs".into()));
        }
        Limit::Unknown if way.keeps_queue.is_some() => {
            let queue = held.queue.map_or("unknown".into(), |queue| format!("{} ms", ms(queue)));
            format!(
                "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}, but whether the \
                 path was full meanwhile is not certain (TCP's round trip above its least: {queue})",
                percent(held.window),
                part(held.send_buffer)
            )
        }
        Limit::Unknown if held.no_data <= 0.0 => format!(
            "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}",
            percent(held.window),
            part(held.send_buffer)
        ),
        Limit::Unknown => format!(
            "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}, and for {} nothing \
             waited to be sent (a program or CPU that is too slow)",
            percent(held.window),
            percent(held.send_buffer),
            part(held.no_data)
        ),
    };
    (says, None)
}

/// Which of the own queues it is, by what was seen there.
fn own_queue(queue: &Standing) -> String {
    let Standing { device, kinds, looks, stood, most, .. } = queue;
    if !queue.stands() {
        return match (queue.flow_rate, queue.dropped + queue.filtered) {
            (Some(bits), 0) => format!(
                "this host's own {device} ({}), which lets no flow out faster than {}",
                kinds.join(", "),
                rate(bits as f64)
            ),
            (_, dropped) => format!(
                "this host's own {device} ({}), which dropped {dropped} packets, as a policer does",
                kinds.join(", ")
            ),
        };
    }
    let what = match queue.is_shaped() {
        true => format!("a rate limit on this host's own {device} ({})", kinds.join(", ")),
        false => format!("this host's own {device}, which sends no faster ({})", kinds.join(", ")),
    };
    format!("{what}: packets waited there at {stood} of {looks} looks, up to {}", bytes(*most))
}

/// Full segments that never arrived.
fn vanishing(name: &str, seen: &Vanishing) -> Finding {
    let Vanishing { segment, sent_again, pings_answered, pings } = seen;
    let how = match sent_again {
        Some(again) => format!("they were sent again {again} times and not one was acknowledged"),
        None => "not a byte of them came here, nor the server's results".to_owned(),
    };
    let mut evidence = vec![Evidence::amount("segment", *segment, "bytes", KERNEL)];
    evidence.extend(sent_again.map(|again| Evidence::count("sent again", again, KERNEL)));
    evidence.push(Evidence::part(
        "answered",
        *pings_answered as u64,
        *pings as u64,
        "pings",
        "quell flow",
    ));
    let change = "`quell path` finds the largest size that passes; until it is mended, a smaller one helps (-M 1200, or \
                  net.ipv4.tcp_mtu_probing=1)";
    Finding {
        id: "mtu-black-hole".to_owned(),
        subject: name.to_owned(),
        severity: Severity::Serious,
        says: format!(
            "segments of {segment} bytes vanish on the way: {how}, while {pings_answered} of {pings} pings had their answer: a path MTU \
             black hole"
        ),
        evidence,
        why: "a hop drops what is too big for it, and its message about that is lost".to_owned(),
        remedies: vec![Remedy::advice(change)],
        source: "RFC 2923; RFC 4821".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_said_to_be_kept_only_where_it_stays_as_long_as_it_is() {
        let held = |queue, most| Held {
            missing: Some(0.04),
            send_buffer: 0.022,
            queue: Some(queue),
            queue_most: Some(most),
            seen: true,
            ..Held::default()
        };
        let way = Way { keeps_queue: Some(Limit::SendBuffer), ..Way::default() };
        let said = |held| {
            let of = (Limit::Path, &held);
            sentence(&held_up(&way, of, ("up", "there"), Some(2_900_000)))
        };
        let grows = said(held(5.68, 85.0));
        assert!(grows.contains("its queue stands between 5.68 and 85.0 ms"), "{grows}");
        assert!(!grows.contains("keeps"), "{grows}");
        let kept = said(held(63.8, 70.0));
        assert!(kept.contains("keeps its queue at 63.8 ms"), "{kept}");
    }
    #[test]
    fn a_verdict_has_its_figures_and_its_remedy_apart() {
        let held = Held { window: 0.854, seen: true, ..Held::default() };
        let found = held_up(&Way::default(), (Limit::ReceiveWindow, &held), ("up", "there"), None);
        assert_eq!((&*found.id, found.severity), ("receiver-window", Severity::Warning));
        let window = found.evidence.first().map(|seen| seen.to_string());
        assert_eq!(window.as_deref(), Some("receiver's window held it up 85.4 %"));
        assert_eq!(
            sentence(&found),
            "held up by the window that the receiver offers (85.4 % of the time): it could be faster with a larger one (-w, \
             net.ipv4.tcp_rmem there)"
        );
        let rate = held_up(&Way::default(), (Limit::Rate, &held), ("up", "there"), Some(1));
        assert_eq!(rate.remedies, []);
    }
}
