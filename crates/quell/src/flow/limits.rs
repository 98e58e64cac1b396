//! What held a sender up, as a finding: its figures for programs, its words as a sentence beside those of its direction.

use super::figures::{bytes, ms, percent, rate};
use quell_finding::{Evidence, Finding, Remedy, Severity, to_do};
use quell_flow::findings::Way;
use quell_flow::held::{Held, Limit};
use quell_flow::shown::Unshown;
use quell_flow::{Findings, Outcome, Standing, Vanishing};

/// Where the figures come from.
const KERNEL: &str = "TCP_INFO of the sender";
const SCHEDULER: &str = "/proc/thread-self/schedstat";
const LIMITER: &str = "the server: when the rate that it allows was used up";
const FILE: &str = "quell flow's clock beside each read or write";
const CLOCK: &str = "the receiver's program: when it was to run, and ran";
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
        Limit::Sender => ("sender", Warning, "what is not written can't be sent"),
        Limit::File => ("file", Warning, "the disk gives or takes no more"),
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
    seen.extend(held.receiver_paused.map(|part| share("receiver did not run", part, CLOCK)));
    seen.extend(held.receiver_held_back.map(|part| share("receiver was held back", part, LIMITER)));
    let cpu = [("sender's CPU", held.sender_cpu), ("receiver's CPU", held.receiver_cpu)];
    seen.extend(cpu.into_iter().filter_map(|(name, part)| Some(share(name, part?, SCHEDULER))));
    if let Some(file) = &held.file {
        seen.push(share("reading or writing the file", file.share, FILE));
        seen.extend(file.slept_share.map(|part| share("asleep meanwhile", part, SCHEDULER)));
        seen.push(share("waiting for the connection", file.waited_share, FILE));
    }
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
        sure: true,
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
        Limit::Rate if held.is_held_back() => format!(
            "{below} by the rate that the server allows: for {} it read nothing, since that was used up",
            part(held.receiver_held_back.unwrap_or(0.0))
        ),
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
            let ends = held.window + held.send_buffer;
            let not = match held.is_partly_of_the_ends() {
                true => format!("hardly by a window or buffer ({})", part(ends)),
                false => "not by a window or buffer".to_owned(),
            };
            format!("{below} by the path (congestion control), {not}")
        }
        Limit::OwnQueue => match &way.own_queue {
            Some(queue) => {
                let shows = format!("`quell tree {}` shows it", queue.device);
                return (format!("{below} by {}", own_queue(queue)), Some(shows));
            }
            None => format!("{below} by this host's own queue"),
        },
        Limit::Sender => format!(
            "{below} by the sender itself: for {} all that had been written was acknowledged, and nothing was there to be sent (a program that \
             is stopped, or too slow)",
            part(held.idle)
        ),
        Limit::File => {
            let file = held.file.unwrap_or_default();
            let (does, other) = match receiver {
                "there" => ("reading", "waited for room"),
                _ => ("writing", "waited for data"),
            };
            let says = format!(
                "{below} by {does} the file: that took {}, asleep in it for {} (the disk), and it {other} for {}",
                part(file.share),
                part(file.slept_share.unwrap_or(0.0)),
                part(file.waited_share)
            );
            return (says, Some("without -F it tells what the path carries".into()));
        }
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
        Limit::Unknown if held.is_partly_of_file() => {
            let file = held.file.unwrap_or_default();
            let says = format!(
                "what held it up is unknown: the file (the disk) took {}, and for {} its connection was waited for",
                part(file.share),
                part(file.waited_share)
            );
            return (says, Some("without -F it tells what the path carries".into()));
        }
        Limit::Unknown if held.is_paused() => format!(
            "what held it up is unknown: what reads the data did not run for {} (stopped, or without a CPU), and its kernel acknowledges late \
             meanwhile; the receiver's window held it up for {}, and the congestion window was full for {}",
            part(held.receiver_paused.unwrap_or(0.0)),
            percent(held.window),
            part(held.cwnd)
        ),
        Limit::Unknown if held.is_partly_held_back() => format!(
            "what held it up is unknown: for {} the server read nothing, since the rate that it allows was used up; the receiver's window held it up for {}, the \
             sender's buffer for {}",
            part(held.receiver_held_back.unwrap_or(0.0)),
            percent(held.window),
            part(held.send_buffer)
        ),
        Limit::Unknown
            if held.window + held.send_buffer < 0.1
                && way.own_queue.as_ref().is_some_and(|queue| queue.shared || queue.perhaps) =>
        {
            way.own_queue.as_ref().map(shared_queue).unwrap_or_default()
        }
        Limit::Unknown if way.unshown.is_some() => way.unshown.map(unshown).unwrap_or_default(),
        Limit::Unknown if held.late_acks => {
            let took = way.tcp_rtt_ms.map_or(String::new(), |[least, median, _]| {
                format!(" (from {} ms to {} ms, the median)", ms(least), ms(median))
            });
            format!(
                "what held it up is unknown: TCP's round trip grew{took} where that of pings did not, and the flow was the slower the longer it took: \
                 acknowledgements came late, as of a receiver that does not run all the time, or others have their share of a fair queue"
            )
        }
        Limit::Unknown if held.is_beside_others() && held.window + held.send_buffer > 0.5 => {
            let grew = way.tcp_rtt_ms.map_or(String::new(), |[least, _, most]| {
                format!(" (from {} to {} ms)", ms(least), ms(most))
            });
            let seen = match held.slows {
                true => format!("the flow was the slower the longer TCP's round trip was{grew}"),
                false => format!("the flow's rate did not stay, nor did TCP's round trip{grew}"),
            };
            format!(
                "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}, and {seen}, as a window is \
                 beside others' packets, or on a path whose rate varies",
                percent(held.window),
                percent(held.send_buffer)
            )
        }
        Limit::Unknown if way.keeps_queue.is_some() => {
            let queue = held.queue.map_or("unknown".into(), |queue| format!("{} ms", ms(queue)));
            let took = way.tcp_rtt_ms.map_or(String::new(), |[least, median, _]| {
                format!("TCP's round trip: {} ms at least, median {}; ", ms(least), ms(median))
            });
            format!(
                "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}, but whether the \
                 path was full meanwhile, of its own queue, is not certain ({took}all the time above the least: {queue})",
                percent(held.window),
                part(held.send_buffer)
            )
        }
        Limit::Unknown if held.no_data < 0.1 && held.window + held.send_buffer <= 0.5 => format!(
            "what held it up is unknown: congestion control, which is to say the path, and the ends in turn: the receiver's window did for {}, the sender's buffer \
             for {}",
            percent(held.window),
            part(held.send_buffer)
        ),
        Limit::Unknown if held.no_data <= 0.0 => format!(
            "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}",
            percent(held.window),
            part(held.send_buffer)
        ),
        Limit::Unknown => format!(
            "what held it up is unknown: the receiver's window did for {}, the sender's buffer for {}, and for {} nothing \
             waited to be sent (a program that is stopped, a program or CPU that is too slow)",
            percent(held.window),
            percent(held.send_buffer),
            part(held.no_data)
        ),
    };
    (says, None)
}

/// Why nothing shows that it was the path.
fn unshown(why: Unshown) -> String {
    match why {
        Unshown::Growing([first, last]) => format!(
            "what held it up is unknown: its congestion window still grew, from {} to {}, nothing was lost or marked, and no queue stood: it was over before \
             it could fill the path",
            bytes(first),
            bytes(last)
        ),
        Unshown::Nothing => "what held it up is unknown: nothing was lost or marked, and no queue stood, so that nothing shows that the path is full; a sender \
                             that paces itself (net.ipv4.tcp_pacing_ca_ratio), or acknowledgements that come late, look like this"
            .to_owned(),
        Unshown::Withheld(times) => format!(
            "what held it up is unknown: data waited, no window was full, and the kernel would let {times:.1} times as much out: something on the sender's host, \
             between TCP and the line, holds its segments back (net.ipv4.tcp_limit_output_bytes, a queue, the device)"
        ),
    }
}

/// The own queue in which others' packets waited, or a shaper that is hardly faster, and what is behind it.
fn shared_queue(queue: &Standing) -> String {
    let Standing { device, kinds, looks, stood, .. } = queue;
    if queue.perhaps {
        let lets = queue
            .rate
            .map_or(String::new(), |bits| format!(", which lets {} out", rate(bits as f64)));
        return format!(
            "what held it up is unknown: the path, or this host's own shaper on {device} ({}){lets}: packets waited there at {stood} of {looks} looks, as \
             where it holds up a sender that paces itself, or where the path behind it is hardly narrower",
            kinds.join(", ")
        );
    }
    format!(
        "what held it up is unknown: the path, or this host's own queue of {device} ({}), where packets waited at {stood} of {looks} looks, others' among them, \
         for which it may have stood",
        kinds.join(", ")
    )
}

/// Which of the own queues it is, by what was seen there.
fn own_queue(queue: &Standing) -> String {
    let Standing { device, kinds, looks, stood, most, .. } = queue;
    let class = queue.class.as_ref().map_or(String::new(), |class| format!(", class {class}"));
    if queue.acknowledgements {
        let what = match queue.redirected_from {
            Some(_) => "on its way in, where what acknowledges the data waits",
            None => "on its way out, where what acknowledges the data waits",
        };
        return format!(
            "this host's own queue of {device} ({}) {what}: packets did at {stood} of {looks} looks, up to {}",
            kinds.join(", "),
            bytes(*most)
        );
    }
    if let Some(from) = &queue.redirected_from {
        let dropped = match queue.dropped {
            0 => String::new(),
            1 => ", and 1 was dropped".to_owned(),
            dropped => format!(", and {dropped} were dropped"),
        };
        let seen = match *stood {
            // What paces holds packets back, which is no queue by itself.
            0 => format!(
                "about as many packets were dropped there as TCP sent again ({})",
                queue.dropped
            ),
            stood => format!(
                "packets waited there at {stood} of {looks} looks, up to {}{dropped}",
                bytes(*most)
            ),
        };
        return format!(
            "the queue of {device} ({}){class}, this host's own shaper of what comes in by {from}: {seen}",
            kinds.join(", ")
        );
    }
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
        sure: true,
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
