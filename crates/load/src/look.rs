//! What this end's kernel says around a test: of a connection, of the whole host, of the CPU. Both ends of a flow look with this.
//!
//! ```text
//!   moment      one connection now             TCP_INFO
//!   end_view    how this end sees a connection TCP_INFO, /proc/sys/net, the device
//!   buffers     what the socket got            SO_SNDBUF, SO_RCVBUF
//!   counters    the host since its start       /proc/net/snmp, /proc/net/netstat, link and queue statistics
//!   CpuTimes    this process, the whole host   getrusage(2), /proc/stat
//! ```

use nix::errno::Errno;
use nix::poll::ppoll;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeValLike};
use quell_netlink::sock_diag::TcpInfo;
use quell_netlink::tc::dump_qdiscs;
use quell_netlink::{LinkName, Stack};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::{get, get_bytes};
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::writable;
use quell_wire::ends::{EndView, Offers};
use quell_wire::iperf3::{HostCounters, Moment};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// `TCP_INFO` of a connection; none where the kernel does not tell.
pub fn tcp_info(stream: &TcpSocket) -> Option<TcpInfo> {
    let mut bytes = [0; 512];
    let length = stream.info(&mut bytes).ok()?;
    TcpInfo::from_bytes(bytes.get(..length)?).ok()
}

/// How often in a row the kernel has sent again what a connection's other end does not acknowledge; 0 where nothing waits for that.
pub fn again(stream: &TcpSocket) -> u64 {
    tcp_info(stream).map_or(0, |info| again_by(&info))
}

/// By what the kernel counted from the beginning: once the other end has reset the connection it has forgotten what it still had to send.
fn again_by(info: &TcpInfo) -> u64 {
    let sent = info.bytes_sent.unwrap_or(0).saturating_sub(info.bytes_retrans.unwrap_or(0));
    // The acknowledged SYN counts as a byte.
    let waits = info.bytes_acked.is_some_and(|acked| sent >= acked.max(1));
    if waits { info.retransmits.into() } else { 0 }
}

/// The state of a connection now. `bytes` is what this end counts, sent or received.
pub fn moment(stream: &TcpSocket, t_ns: i64, bytes: u64) -> Moment {
    let Some(info) = tcp_info(stream) else {
        return Moment { t_ns, bytes, ..Moment::default() };
    };
    Moment {
        t_ns,
        bytes,
        packets: 0,
        lost: 0,
        retransmits: info.total_retrans.into(),
        cwnd: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        srtt_us: info.rtt.into(),
        rttvar_us: info.rttvar.into(),
        delivery_rate: info.delivery_rate.unwrap_or(0),
        min_rtt_us: info.min_rtt.filter(|us| *us < u32::MAX).unwrap_or(0).into(),
        window: info.snd_wnd.unwrap_or(0).into(),
        acked: info.bytes_acked.unwrap_or(0),
        unsent: info.notsent_bytes.unwrap_or(0).into(),
        busy_us: info.busy_time.unwrap_or(0),
        window_limited_us: info.rwnd_limited.unwrap_or(0),
        buffer_limited_us: info.sndbuf_limited.unwrap_or(0),
        pmtu: info.pmtu.into(),
        out_of_order: info.rcv_ooopack.unwrap_or(0).into(),
        marked: info.delivered_ce.unwrap_or(0).into(),
        pacing_rate: info.pacing_rate.filter(|rate| *rate < u64::MAX).unwrap_or(0),
        pacing_limit: info.max_pacing_rate.filter(|rate| *rate < u64::MAX).unwrap_or(0),
        in_flight: in_flight(&info),
        segment: info.snd_mss.into(),
        full: is_full(stream),
    }
}

/// Whether nothing more can be written now (`sk_stream_is_writeable`).
fn is_full(stream: &TcpSocket) -> bool {
    let mut fds = [writable(stream)];
    matches!(ppoll(&mut fds, Some(TimeSpec::new(0, 0)), None), Ok(0))
}

/// As the kernel counts it against the congestion window (`tcp_packets_in_flight`).
fn in_flight(info: &TcpInfo) -> u64 {
    let out = u64::from(info.unacked) + u64::from(info.retrans);
    let gone = u64::from(info.sacked) + u64::from(info.lost);
    out.saturating_sub(gone) * u64::from(info.snd_mss)
}

/// The send and receive buffer that a socket has, in bytes as the kernel counts them: payload and bookkeeping.
pub fn buffers(fd: BorrowedFd<'_>) -> (Option<u64>, Option<u64>) {
    let size = |option| get(fd, libc::SOL_SOCKET, option).ok().and_then(|v| u64::try_from(v).ok());
    (size(libc::SO_SNDBUF), size(libc::SO_RCVBUF))
}

/// The congestion control of a connection.
pub fn congestion(fd: BorrowedFd<'_>) -> Option<String> {
    let mut name = [0; 16];
    let length = get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).ok()?;
    let name = name.get(..length)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8(name[..end].to_vec()).ok().filter(|name| !name.is_empty())
}

/// The device that has this own address; none where no device has it.
pub fn device_with(address: IpAddr) -> Option<String> {
    let mut stack = Stack::open().ok()?;
    if address.is_loopback() {
        return Some("lo".into());
    }
    let address = match address {
        IpAddr::V6(v6) => v6.to_canonical(),
        v4 => v4,
    };
    let index = stack.addresses().ok()?.into_iter().find(|a| a.prefix.address() == address)?.index;
    Some(stack.link_at(index).ok()?.name)
}

/// How this end sees a connection, with what its host offers and the device that carries it.
pub fn end_view(stream: &TcpSocket) -> EndView {
    let (local, remote) = (stream.local(), stream.peer());
    let info = tcp_info(stream);
    let on = |name: &str| {
        let text = quell_netlink::sysctl::read(&format!("net/ipv4/{name}")).ok()?;
        Some(text.trim() != "0")
    };
    let offers = || {
        let (sack, window_scaling) = (on("tcp_sack")?, on("tcp_window_scaling")?);
        Some(Offers { sack, window_scaling, timestamps: on("tcp_timestamps")? })
    };
    let device = local.and_then(|local| device_with(local.ip()));
    let link = || {
        let name = device.as_ref()?.parse::<LinkName>().ok()?;
        Stack::open().ok()?.link(&name).ok()
    };
    // Of a device without a speed the file can't be read, or says -1.
    let speed = || {
        let file = format!("/sys/class/net/{}/speed", device.as_ref()?);
        std::fs::read_to_string(file).ok()?.trim().parse::<u32>().ok()
    };
    let figure = |figure: fn(&TcpInfo) -> u32| info.as_ref().map_or(0, figure);
    EndView {
        local,
        remote,
        options: info.as_ref().map_or(0, |info| info.options),
        snd_mss: figure(|info| info.snd_mss),
        advmss: figure(|info| info.advmss),
        pmtu: figure(|info| info.pmtu),
        told_scale: info.as_ref().map_or(0, |info| info.rcv_wscale),
        got_scale: info.as_ref().map_or(0, |info| info.snd_wscale),
        offers: offers(),
        device_mtu: link().map(|link| link.mtu),
        link_mbit: speed().filter(|mbit| *mbit > 0),
    }
}

/// What the host's kernel counted since its start; of the calling thread's network namespace. What can't be read is 0.
pub fn counters(device: Option<&str>) -> HostCounters {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let mut all =
        from_text(&read("/proc/thread-self/net/snmp"), &read("/proc/thread-self/net/netstat"));
    if let Some(device) = device {
        of_device(device, &mut all);
    }
    all
}

/// How far counters went from one look to another.
pub fn counted(before: &HostCounters, after: &HostCounters) -> HostCounters {
    let less = u64::saturating_sub;
    HostCounters {
        retransmitted: less(after.retransmitted, before.retransmitted),
        timeouts: less(after.timeouts, before.timeouts),
        tcp_dropped: less(after.tcp_dropped, before.tcp_dropped),
        udp_receive_dropped: less(after.udp_receive_dropped, before.udp_receive_dropped),
        udp_send_dropped: less(after.udp_send_dropped, before.udp_send_dropped),
        device_receive_dropped: less(after.device_receive_dropped, before.device_receive_dropped),
        device_send_dropped: less(after.device_send_dropped, before.device_send_dropped),
        device_errors: less(after.device_errors, before.device_errors),
        queue_dropped: less(after.queue_dropped, before.queue_dropped),
    }
}

fn from_text(snmp: &str, netstat: &str) -> HostCounters {
    let of = |text: &str, group: &str, wanted: &str| -> u64 {
        let mut lines = text.lines().filter(|line| line.split(':').next() == Some(group));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
        let place = names.split_whitespace().position(|name| name == wanted);
        place.and_then(|p| values.split_whitespace().nth(p)?.parse().ok()).unwrap_or(0)
    };
    let dropped = ["TCPRcvQDrop", "TCPBacklogDrop", "PruneCalled", "RcvPruned", "OfoPruned"];
    HostCounters {
        retransmitted: of(snmp, "Tcp", "RetransSegs"),
        timeouts: of(netstat, "TcpExt", "TCPTimeouts"),
        tcp_dropped: dropped.iter().map(|name| of(netstat, "TcpExt", name)).sum(),
        // Those of IPv6 stand elsewhere (/proc/net/snmp6) and are counted by both since Linux 5.x only in part.
        udp_receive_dropped: of(snmp, "Udp", "RcvbufErrors"),
        udp_send_dropped: of(snmp, "Udp", "SndbufErrors"),
        ..HostCounters::default()
    }
}

fn of_device(device: &str, all: &mut HostCounters) {
    let Ok(name) = device.parse::<LinkName>() else { return };
    let Ok(mut stack) = Stack::open() else { return };
    let Ok(link) = stack.link(&name) else { return };
    all.device_receive_dropped = link.stats.rx_dropped;
    all.device_send_dropped = link.stats.tx_dropped;
    all.device_errors = link.stats.rx_errors + link.stats.tx_errors;
    if let Ok(queues) = dump_qdiscs(stack.socket(), link.index) {
        // A queue's drops are counted again by those above it: the root's are all.
        let roots = queues.iter().filter(|q| q.parent == quell_tc::Handle::ROOT);
        all.queue_dropped = roots.map(|q| u64::from(q.stats.drops)).sum();
    }
}

/// CPU time so far. Differences are what counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuTimes {
    /// When, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// This process in user space, in seconds.
    pub user_s: f64,
    /// This process in the kernel, in seconds.
    pub system_s: f64,
    /// The whole host, all CPUs: not idle, in clock ticks.
    pub busy_ticks: u64,
    /// All CPUs, idle or not, in clock ticks.
    pub all_ticks: u64,
}

/// The CPU between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuShare {
    /// This process in user space, in percent of one CPU.
    pub user: f64,
    /// This process in the kernel, in percent of one CPU.
    pub system: f64,
    /// The whole host, in percent of all its CPUs; none where it can't be read.
    pub host_busy: Option<f64>,
}

impl CpuTimes {
    /// Those of now.
    pub fn now() -> Self {
        let mut times = Self { at_ns: monotonic_ns(), ..Self::default() };
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            times.user_s = usage.user_time().num_microseconds() as f64 / 1e6;
            times.system_s = usage.system_time().num_microseconds() as f64 / 1e6;
        }
        if let Ok(stat) = std::fs::read_to_string("/proc/stat") {
            (times.busy_ticks, times.all_ticks) = ticks(&stat).unwrap_or((0, 0));
        }
        times
    }

    /// What was used from an earlier look to this.
    pub fn since(&self, before: &Self) -> CpuShare {
        let wall = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let percent = |used: f64| if wall > 0.0 { used.max(0.0) / wall * 100.0 } else { 0.0 };
        let all = self.all_ticks.saturating_sub(before.all_ticks);
        let busy = self.busy_ticks.saturating_sub(before.busy_ticks);
        CpuShare {
            user: percent(self.user_s - before.user_s),
            system: percent(self.system_s - before.system_s),
            host_busy: (all > 0).then(|| busy as f64 / all as f64 * 100.0),
        }
    }
}

/// Busy and all ticks of the line of all CPUs: user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> =
        line.split_whitespace().skip(1).take(8).map_while(|f| f.parse().ok()).collect();
    let all = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((all - idle, all))
}

/// Whether everything that was written to a connection has been acknowledged. An error when it is gone.
pub fn all_acknowledged(stream: &TcpSocket) -> Result<bool, Errno> {
    match tcp_info(stream) {
        Some(info) => Ok(info.unacked == 0 && info.notsent_bytes.unwrap_or(0) == 0),
        None => Err(Errno::ENOTCONN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_vain_was_sent_again_and_not_acknowledged_be_it_forgotten_by_now() {
        let info = |acked: u64, sent: u64, repeated: u64, timeouts: u8| {
            let mut bytes = [0; 240];
            bytes[2] = timeouts;
            for (at, value) in [(120, acked), (200, sent), (208, repeated)] {
                bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            }
            TcpInfo::from_bytes(&bytes).expect("as a kernel tells it")
        };
        // 38 bytes and the SYN are acknowledged, a segment of 1400 was sent five times.
        assert_eq!(again_by(&info(39, 38 + 5 * 1400, 4 * 1400, 4)), 4);
        assert_eq!(again_by(&info(39 + 1400, 38 + 5 * 1400, 4 * 1400, 4)), 0, "it came");
        assert_eq!(again_by(&info(39, 38, 0, 0)), 0, "all did");
        assert_eq!(again_by(&info(0, 0, 0, 6)), 0, "not even connected");
    }

    #[test]
    fn counters_are_found_by_their_names_in_any_order() {
        let snmp = "Tcp: RtoAlgorithm RetransSegs\nTcp: 1 77\nUdp: InErrors RcvbufErrors SndbufErrors\nUdp: 1 5 6\n\
                    UdpLite: InErrors RcvbufErrors\nUdpLite: 9 9\n";
        let netstat = "TcpExt: PruneCalled TCPTimeouts TCPRcvQDrop\nTcpExt: 2 3 4\nIpExt: InNoRoutes\nIpExt: 1\n";
        let found = from_text(snmp, netstat);
        let right = HostCounters {
            retransmitted: 77,
            timeouts: 3,
            tcp_dropped: 6,
            udp_receive_dropped: 5,
            udp_send_dropped: 6,
            ..HostCounters::default()
        };
        assert_eq!(found, right);
        assert_eq!(from_text("", "TcpExt: PruneCalled\n"), HostCounters::default());
    }

    #[test]
    fn a_host_without_idle_time_is_fully_busy() {
        assert_eq!(ticks("cpu  10 0 20 60 5 1 4 0 0 0\ncpu0 1 1 1 1\n"), Some((35, 100)));
        assert_eq!(ticks("cpu 1 2\n"), None);
        let before = CpuTimes { at_ns: 0, user_s: 1.0, system_s: 1.0, busy_ticks: 0, all_ticks: 0 };
        let after = CpuTimes {
            at_ns: 2_000_000_000,
            user_s: 1.5,
            system_s: 2.0,
            busy_ticks: 50,
            all_ticks: 50,
        };
        let share = CpuShare { user: 25.0, system: 50.0, host_busy: Some(100.0) };
        assert_eq!(after.since(&before), share);
        assert_eq!(before.since(&before).host_busy, None);
    }

    #[test]
    fn this_host_tells_of_its_cpu_and_its_loopback_device() {
        assert!(CpuTimes::now().all_ticks > 0);
        assert_eq!(device_with("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        counters(Some("lo"));
        assert_eq!(counters(Some("none such device")).device_errors, 0);
    }
}
