//! Which sizes of ICMP echo get there and back, as `--peer` asks for it. The host at the other end answers, and not `quell serve`.

use quell_doctor::peer::Way;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::secret::nonce;
use quell_sys::socket::echo::EchoSocket;
use quell_sys::socket::{Inbox, errors, hops};
use quell_sys::wait::{Alarm, readable, wait};
use quell_wire::icmp::{FULL, HEADER, reply, request};
use std::net::IpAddr;
use std::os::fd::AsFd;

/// How often each size is sent.
const TIMES: u64 = 3;
/// How long the answers are waited for.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Bytes that are read of an answer: all that tells whose it is, behind a header of IP with all options.
const READ: usize = 128;

/// Sends IP packets of these sizes, unfragmented. Errors where this user may not send any.
pub(super) fn sizes(to: IpAddr, sent: &[u32]) -> Result<Way, SysError> {
    let to = to.to_canonical();
    let random = nonce()?;
    let identifier = u16::from_be_bytes([random[0], random[1]]);
    let stream = u64::from_be_bytes(std::array::from_fn(|at| random[8 + at]));
    let socket = EchoSocket::open(to, 0, identifier)?;
    let ipv6 = socket.is_ipv6();
    hops::trace(socket.as_fd(), ipv6)?;
    let headers = if ipv6 { 40 } else { 20 } + HEADER as u32;
    for (number, size) in (0..).zip(sent) {
        let payload = size.saturating_sub(headers) as usize;
        for again in 0..TIMES {
            let seq = number * TIMES + again;
            let message = request(ipv6, socket.identifier(), stream, seq, payload);
            // What came back from the path is told once, and takes the place of a packet.
            let _ = socket.send(&message).or_else(|_| socket.send(&message));
        }
    }
    let mut came = vec![false; sent.len()];
    let mut too_big = Vec::new();
    let mut alarm = Alarm::new()?;
    alarm.set(Some(monotonic_ns() + PATIENCE_NS))?;
    let mut inbox = Inbox::new(8, READ);
    loop {
        let told = errors::path_errors(socket.as_fd());
        let told = told.iter().filter(|error| error.errno == nix::errno::Errno::EMSGSIZE);
        too_big.extend(told.map(|error| error.report.mtu));
        // An error takes the place of an answer once.
        while inbox.receive(socket.as_fd()).is_ok_and(|count| count > 0) {
            let ours = inbox.iter().filter_map(|(_, bytes)| {
                let answer = reply(ipv6, socket.message(bytes)?)?;
                let seq = answer.whole_number()?;
                let start = request(ipv6, socket.identifier(), stream, seq, FULL);
                answer.answers(&start).then_some(seq / TIMES)
            });
            for number in ours {
                if let Some(came) = usize::try_from(number).ok().and_then(|at| came.get_mut(at)) {
                    *came = true;
                }
            }
        }
        let mut fds = [readable(&alarm), readable(&socket)];
        if came.iter().all(|came| *came) {
            break;
        }
        wait(&mut fds)?;
        if quell_sys::wait::came(&fds[0]) {
            break;
        }
    }
    let came = sent.iter().zip(&came).filter(|(_, came)| **came).map(|(size, _)| *size).collect();
    Ok(Way { sent: sent.to_vec(), came, too_big, ..Way::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_loopback_every_size_comes_back() {
        let sent = [576, 1500, 9000];
        // Where this user may open neither kind of socket, that is said.
        match sizes("127.0.0.1".parse().expect("an address"), &sent) {
            Ok(way) => assert_eq!((way.came.as_slice(), way.too_big.len()), (&sent[..], 0)),
            Err(error) => assert!(error.to_string().contains("ping_group_range"), "{error}"),
        }
    }
}
