//! What this end's kernel says of a connection of a test. Both ends of a flow look with this; what it says of the host is in quell-host.
//!
//! ```text
//!   moment      one connection now             TCP_INFO
//!   buffers     what the socket got            SO_SNDBUF, SO_RCVBUF
//! ```

use nix::errno::Errno;
use nix::poll::ppoll;
use nix::sys::time::TimeSpec;
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::socket::option::{get, get_bytes};
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::writable;
use quell_wire::iperf3::Moment;
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

pub fn congestion(fd: BorrowedFd<'_>) -> Option<String> {
    let mut name = [0; 16];
    let length = get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).ok()?;
    let name = name.get(..length)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8(name[..end].to_vec()).ok().filter(|name| !name.is_empty())
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
}
