//! The settings of each role.

use crate::default_of;
use crate::facts::{HostFacts, Role, Wish};
use crate::proposal::{Sink, numbers};
use crate::window::{MEASURED, Path, fraction_words};
use quell_units::Bytes;
use quell_units::fmt::plural;

const MIB: u64 = 1 << 20;

/// What one setting can hold: it is an `int`.
const LARGEST: u64 = i32::MAX as u64;

const STREAM: &str = "net/core/stream.c; ESnet fasterdata, host tuning";
const IP_SYSCTL: &str = "Linux, Documentation/networking/ip-sysctl.rst";

pub(crate) fn lines(wish: &Wish, path: Option<&Path>, host: &HostFacts, sink: &mut Sink<'_>) {
    if let (Role::Transfer | Role::Measure, Some(path)) = (wish.role, path) {
        buffers(wish, path, host, sink);
    } else {
        no_buffers(wish.role, sink);
    }
    queue(wish.role, host, sink);
    backlog(wish, host, sink);
    if wish.role != Role::Router {
        switches(host, sink);
    }
    habits(wish, sink);
    if host.release >= MEASURED {
        sink.leave(
            "net/ipv4/tcp_adv_win_scale",
            "dead since 6.6: each connection measures by itself how much of its buffer is payload"
                .into(),
            "Linux, commit dfa2f0483360",
        );
    }
}

fn buffers(wish: &Wish, path: &Path, host: &HostFacts, sink: &mut Sink<'_>) {
    let product = path.product();
    // No more than a quarter of the memory for all streams.
    let share = host.memory / 4 / u64::from(wish.streams.max(1));
    let bounded = |need: u64| need.div_ceil(MIB).saturating_mul(MIB).min(share).min(LARGEST);
    let (receive, send) = (path.receive_buffer(host), path.send_buffer());
    let under_way = format!("{} × {} = {} under way", path.rate, path.rtt, whole(product));
    let raise = |key: &'static str, most: u64| -> String {
        let (now, default) = (triple(host, key), default_triple(host, key));
        let each = [0, 1, 2].map(|at| {
            let most = if at == 2 { most } else { 0 };
            now[at].max(default[at]).max(most)
        });
        format!("{} {} {}", each[0], each[1], each[2].max(each[1]))
    };
    sink.set(
        "net/ipv4/tcp_rmem",
        raise("net/ipv4/tcp_rmem", bounded(receive)),
        format!("{under_way}, twice that as buffer: {}", fraction_words(host)),
        "net/ipv4/tcp_input.c, include/net/tcp.h; ESnet fasterdata, host tuning",
    );
    sink.set(
        "net/ipv4/tcp_wmem",
        raise("net/ipv4/tcp_wmem", bounded(send)),
        format!(
            "{under_way}; of a sender's buffer a third may be empty before its program is woken, and each segment costs 1280 bytes of bookkeeping"
        ),
        STREAM,
    );
    for (need, receive) in [(receive, true), (send, false)] {
        if bounded(need) < need {
            let which = if receive { "receive" } else { "send" };
            sink.say(format!(
                "{} of {which} buffer would be needed, and {} are taken: a quarter of the memory for {}, at most 2 GiB for one",
                whole(need),
                whole(bounded(need)),
                plural(wish.streams, "stream")
            ));
        }
    }
    // SO_RCVBUF and SO_SNDBUF are doubled (__sock_set_rcvbuf), so that half of it gives the same buffer.
    for (key, need) in [("net/core/rmem_max", receive), ("net/core/wmem_max", send)] {
        let half = bounded(need) / 2;
        let floor = host.value(key).and_then(|v| numbers(v).first().copied()).unwrap_or(0);
        let default =
            default_of(key, host).and_then(|k| numbers(&k.value).first().copied()).unwrap_or(0);
        sink.set(
            key,
            half.max(floor).max(default).to_string(),
            "a program that sets its buffer itself gets twice what it asks for, and no more than this lets it ask".into(),
            "net/core/sock.c, __sock_set_rcvbuf; ESnet fasterdata, host tuning",
        );
    }
    pressure(wish, bounded(receive.max(send)), host, sink);
}

/// `tcp_mem`, in pages: raised where all streams together would be put under pressure.
fn pressure(wish: &Wish, each: u64, host: &HostFacts, sink: &mut Sink<'_>) {
    const KEY: &str = "net/ipv4/tcp_mem";
    let now = triple(host, KEY);
    let default = default_triple(host, KEY);
    let need = each.saturating_mul(u64::from(wish.streams)) / host.page.max(1);
    let most = host.memory / 4 / host.page.max(1);
    let pages = need.min(most);
    let why = format!(
        "in pages: {} × {} are {pages}, within a quarter of the memory; above the second of the three the kernel takes buffers away",
        wish.streams,
        whole(each)
    );
    if now[1] >= pages
        && now.iter().zip(default).all(|(now, default)| now.saturating_mul(101) / 100 >= default)
    {
        return sink.keep(KEY, why, IP_SYSCTL);
    }
    // In the kernel's own proportions (tcp_init_mem).
    let wanted = [pages / 4 * 3, pages, pages / 4 * 6];
    let [least, middle, last] = [0, 1, 2].map(|at| wanted[at].max(now[at]).max(default[at]));
    let middle = middle.max(least);
    sink.set(KEY, format!("{least} {middle} {}", last.max(middle)), why, IP_SYSCTL);
}

fn no_buffers(role: Role, sink: &mut Sink<'_>) {
    let why = match role {
        Role::Router => "a router's packets never see a socket's buffer",
        _ => "small requests never fill a buffer; the kernel's own growth is enough",
    };
    for key in ["net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"] {
        sink.leave(key, why.into(), IP_SYSCTL);
    }
}

fn queue(role: Role, host: &HostFacts, sink: &mut Sink<'_>) {
    const KEY: &str = "net/core/default_qdisc";
    let (kind, has, why, source) = match role {
        Role::Router => (
            "fq_codel",
            host.has_fq_codel,
            "flows of others share the line evenly and short ones do not wait; for interfaces that come from now on",
            "RFC 8290; Linux, Documentation/admin-guide/sysctl/net.rst",
        ),
        _ => (
            "fq",
            host.has_fq,
            "TCP's packets leave paced and not in bursts that a switch's buffer loses; for interfaces that come from now on",
            "ESnet fasterdata, packet pacing; tc-fq(8)",
        ),
    };
    match (host.value(KEY), has) {
        (Some(now), _) if !now.starts_with("pfifo") => {
            sink.keep(
                KEY,
                format!("{now} divides the line between flows; only a plain FIFO is replaced"),
                source,
            );
        }
        (Some(_), Some(false)) => sink.leave(KEY, format!("this kernel has no {kind}"), source),
        (Some(_), None) => sink.leave(
            KEY,
            format!(
                "whether this kernel has {kind} could not be tried, which needs a network namespace"
            ),
            source,
        ),
        _ => sink.set(KEY, kind.into(), why.into(), source),
    }
}

fn backlog(wish: &Wish, host: &HostFacts, sink: &mut Sink<'_>) {
    const KEY: &str = "net/core/netdev_max_backlog";
    const SOURCE: &str = "net/core/dev.c, enqueue_to_backlog; Linux, admin-guide/sysctl/net.rst";
    let turn_us =
        host.value("net/core/netdev_budget_usecs").and_then(|v| v.trim().parse::<u64>().ok());
    let now = host.value(KEY).and_then(|v| numbers(v).first().copied());
    match (wish.role, wish.rate, turn_us, now) {
        (Role::Router, Some(rate), Some(turn_us), Some(now)) => {
            // Full packets that come while another queue of the CPU has its turn.
            let bytes = rate.bytes_per_second() as u128 * u128::from(turn_us) / 1_000_000;
            let packets = u64::try_from(bytes / u128::from(wish.mtu.max(64))).unwrap_or(LARGEST).min(65_536);
            let default = default_of(KEY, host).and_then(|k| k.value.parse().ok()).unwrap_or(0);
            sink.set(
                KEY,
                packets.max(now).max(default).to_string(),
                format!(
                    "{packets} packets of {} bytes come in {turn_us} µs, for which a CPU may be busy with others (netdev_budget_usecs); matters with RPS, veth and tunnels",
                    wish.mtu
                ),
                SOURCE,
            );
        }
        (Role::Router, None, _, Some(_)) => {
            sink.leave(KEY, "it comes from the rate; give --rate".into(), SOURCE);
        }
        _ => sink.leave(
            KEY,
            "only packets of RPS, veth and tunnels pass there; raise it when softnet_stat counts drops".into(),
            SOURCE,
        ),
    }
}

/// What is on in every kernel, and was switched off by advice of old.
fn switches(host: &HostFacts, sink: &mut Sink<'_>) {
    let all = [
        (
            "net/ipv4/tcp_window_scaling",
            "without it no window is larger than 64 kB",
            "RFC 7323, section 2",
        ),
        (
            "net/ipv4/tcp_sack",
            "without it a window with several losses is sent again hole by hole",
            "RFC 2018; ESnet fasterdata",
        ),
        (
            "net/ipv4/tcp_timestamps",
            "without them old segments pass for new ones: 10 Gbit/s goes round the sequence numbers in 3.4 s",
            "RFC 7323, section 5 (PAWS)",
        ),
        (
            "net/ipv4/tcp_moderate_rcvbuf",
            "without it receive buffers do not grow with what comes",
            IP_SYSCTL,
        ),
    ];
    for (key, why, source) in all {
        match host.value(key).map(str::trim) {
            // 2 for timestamps without a random offset is on, too.
            Some(value) if value != "0" => sink.keep(key, why.into(), source),
            _ => sink.set(key, "1".into(), why.into(), source),
        }
    }
}

fn habits(wish: &Wish, sink: &mut Sink<'_>) {
    let (role, jumbo) = (wish.role, wish.mtu > 1500);
    if matches!(role, Role::Transfer | Role::Measure) {
        const KEY: &str = "net/ipv4/tcp_mtu_probing";
        const SOURCE: &str = "RFC 4821; ESnet fasterdata, MTU issues";
        match jumbo {
            true => sink.set(
                KEY,
                "1".into(),
                "large packets meet links that take only small ones and do not say so; 1 looks for the size when nothing gets through".into(),
                SOURCE,
            ),
            false => sink.leave(KEY, "packets of 1500 bytes get through nearly everywhere".into(), SOURCE),
        }
    }
    if role == Role::Measure {
        sink.set(
            "net/ipv4/tcp_no_metrics_save",
            "1".into(),
            "else a test begins with what the one before left behind for this destination".into(),
            "ip-sysctl.rst; net/ipv4/tcp_metrics.c",
        );
    }
    if role == Role::Latency {
        sink.set(
            "net/ipv4/tcp_slow_start_after_idle",
            "0".into(),
            "a connection that was quiet answers the next request with the window that it had; on shared lines that is a burst".into(),
            "RFC 2861, section 2; ip-sysctl.rst",
        );
        sink.set(
            "net/ipv4/tcp_notsent_lowat",
            "131072".into(),
            "what a program wrote and TCP could not send yet waits behind it: 128 KiB keep a sender busy, and the rest stays with the program".into(),
            "ip-sysctl.rst; Linux, commit c9bee3b7fdec",
        );
    }
    if role != Role::Router {
        sink.leave(
            "net/ipv4/tcp_congestion_control",
            "for all connections it would be too much; a route or a program can have its own"
                .into(),
            "ip-route(8), congctl; tcp(7), TCP_CONGESTION",
        );
    }
}

fn triple(host: &HostFacts, key: &str) -> [u64; 3] {
    as_triple(host.value(key))
}

fn default_triple(host: &HostFacts, key: &str) -> [u64; 3] {
    as_triple(default_of(key, host).as_ref().map(|known| known.value.as_str()))
}

fn as_triple(value: Option<&str>) -> [u64; 3] {
    let all = value.map(numbers).unwrap_or_default();
    [0, 1, 2].map(|at| all.get(at).copied().unwrap_or(0))
}

/// Bytes for people, to three digits.
fn whole(bytes: u64) -> String {
    let digits = bytes.checked_ilog10().unwrap_or(0).saturating_sub(2);
    let unit = 10u64.pow(digits);
    Bytes::new(bytes.saturating_add(unit / 2) / unit * unit).to_string()
}
