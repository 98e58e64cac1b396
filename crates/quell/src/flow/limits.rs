//! What held a sender up, in words.

use super::figures::{bytes, ms, percent, rate};
use quell_flow::findings::Way;
use quell_flow::held::{Held, Limit};
use quell_flow::{Standing, Vanishing};

/// What held a sender up, with the facts.
pub fn held_up(
    way: &Way,
    (limit, held): (Limit, &Held),
    receiver: &str,
    asked: Option<u64>,
) -> String {
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
    match limit {
        Limit::ReceiveWindow => format!(
            "{below} by the window that the receiver offers ({}): it could be faster with a larger one (-w, \
             net.ipv4.tcp_rmem {receiver})",
            part(held.window)
        ),
        Limit::SendBuffer => format!(
            "{below} by the sender's own buffer ({}): it could be faster with a larger one (-w, net.ipv4.tcp_wmem)",
            part(held.send_buffer)
        ),
        Limit::Both => format!(
            "{below} by both ends in turn, the window that the receiver offers ({}) and the sender's own buffer ({}): it could be \
             faster with larger ones (-w, net.ipv4.tcp_rmem {receiver}, net.ipv4.tcp_wmem at the sender)",
            part(held.window),
            part(held.send_buffer)
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
            format!("{below} by the path (congestion control), not by a window or buffer")
        }
        Limit::OwnQueue => match &way.own_queue {
            Some(queue) => format!("{below} by {}", own_queue(queue)),
            None => format!("{below} by this host's own queue"),
        },
        Limit::SenderCpu => format!(
            "{below} by the sender's CPU: what writes the data wanted it for {} and waited for room the rest of it; more streams (-P) \
             use more CPUs, -Z copies less",
            part(held.sender_cpu.unwrap_or(1.0))
        ),
        Limit::ReceiverCpu => format!(
            "{below} by the receiver's CPU: what reads the data wanted it for {}, and left the window shut for {}; more streams (-P) use more \
             CPUs",
            part(held.receiver_cpu.unwrap_or(1.0)),
            part(held.window)
        ),
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
    }
}

/// Which of the own queues it is, by what was seen there.
fn own_queue(queue: &Standing) -> String {
    let Standing { device, kinds, looks, stood, most, .. } = queue;
    let shows = format!("`quell tree {device}` shows it");
    if !queue.stands() {
        return match (queue.flow_rate, queue.dropped + queue.filtered) {
            (Some(bits), 0) => format!(
                "this host's own {device} ({}), which lets no flow out faster than {}; {shows}",
                kinds.join(", "),
                rate(bits as f64)
            ),
            (_, dropped) => format!(
                "this host's own {device} ({}), which dropped {dropped} packets, as a policer does; {shows}",
                kinds.join(", ")
            ),
        };
    }
    let what = match queue.is_shaped() {
        true => format!("a rate limit on this host's own {device} ({})", kinds.join(", ")),
        false => format!("this host's own {device}, which sends no faster ({})", kinds.join(", ")),
    };
    format!(
        "{what}: packets waited there at {stood} of {looks} looks, up to {}; {shows}",
        bytes(*most)
    )
}

/// Full segments that never arrived.
pub fn vanishing(seen: &Vanishing) -> String {
    let Vanishing { segment, sent_again, pings_answered, pings } = seen;
    let how = match sent_again {
        Some(again) => format!("they were sent again {again} times and not one was acknowledged"),
        None => "not a byte of them came here, nor the server's results".to_owned(),
    };
    format!(
        "segments of {segment} bytes vanish on the way: {how}, while {pings_answered} of {pings} pings had their answer: a path MTU black hole. \
         `quell path` finds the largest size that passes; until it is mended, a smaller one helps (-M 1200, or net.ipv4.tcp_mtu_probing=1)"
    )
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
        let said = |held| held_up(&way, (Limit::Path, &held), "there", Some(2_900_000));
        let grows = said(held(5.68, 85.0));
        assert!(grows.contains("its queue stands between 5.68 and 85.0 ms"), "{grows}");
        assert!(!grows.contains("keeps"), "{grows}");
        let kept = said(held(63.8, 70.0));
        assert!(kept.contains("keeps its queue at 63.8 ms"), "{kept}");
    }
}
