//! Datagrams out of one socket: as many as go, or at a rate.

use super::gate::{Gate, wait_for};
use super::schedule::Schedule;
use super::{Ended, Limit, Patience, Payload, Tally, UdpHeader, Woken, payload};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::socket::bulk::{BATCH, MOST_BYTES, MOST_SEGMENTS, Outbox};
use quell_sys::wait::{Alarm, Bell, wake_exactly};
use std::os::fd::{AsFd, BorrowedFd};

/// Sleeps longer than this can be cut short by a ring.
const LONG_NS: u64 = 20_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpSending {
    /// Payload of each datagram in bytes, its header included.
    pub size: usize,
    /// Bits of payload a second; none for as many as go.
    pub rate: Option<u64>,
    pub limit: Limit,
    pub header: UdpHeader,
    /// Several may go through the stack in one piece (`UDP_SEGMENT`), where no rate is asked for.
    pub trains: bool,
    /// So many leave together, and then none for as long as they would have taken one by one; at a rate.
    pub burst: u32,
    pub payload: Payload,
}

/// Sends to the connected end until the limit, or until the bell rings. That nobody listens there is no error: the datagrams go out all
/// the same. None is sent before the gate lets it through.
///
/// Errors: `EINVAL` when the size is below the header's; `EMSGSIZE` when it is more than the path carries in one packet and may not be
/// cut; whatever the kernel refuses for good.
pub fn udp_send(
    gate: &dyn Gate,
    socket: &impl AsFd,
    what: &UdpSending,
    tally: &Tally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    if what.size < what.header.size() {
        let tried = format!("send datagrams of {} bytes", what.size);
        return Err(SysError::new(tried, Errno::EINVAL)
            .advise("their numbers and times alone take 12 bytes, 16 with 64-bit counters"));
    }
    let mut sender = Sender::new(gate, socket.as_fd(), what, tally, stop)?;
    match what.rate {
        None => sender.flood(),
        Some(rate) => sender.pace(rate),
    }
}

struct Sender<'a> {
    gate: &'a dyn Gate,
    fd: BorrowedFd<'a>,
    what: &'a UdpSending,
    tally: &'a Tally,
    patience: Patience<'a>,
    outbox: Outbox,
    trains: bool,
    next: u64,
    count: u64,
}

impl<'a> Sender<'a> {
    fn new(
        gate: &'a dyn Gate,
        fd: BorrowedFd<'a>,
        what: &'a UdpSending,
        tally: &'a Tally,
        stop: &'a Bell,
    ) -> Result<Self, SysError> {
        let size = what.size.max(1);
        let fits = (MOST_BYTES / size).min(MOST_SEGMENTS);
        let trains = what.trains && what.rate.is_none() && fits > 1;
        let count = if trains { fits } else { BATCH };
        Ok(Self {
            gate,
            fd,
            what,
            tally,
            patience: Patience::new(stop, what.limit.end_ns)?,
            outbox: Outbox::new(count, size, payload(what.payload)),
            trains,
            next: 0,
            count: what.limit.bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(size as u64)),
        })
    }

    fn flood(&mut self) -> Result<Ended, SysError> {
        while self.next < self.count {
            let now = monotonic_ns();
            if let Some(ended) = self.patience.over_at(now) {
                return Ok(ended);
            }
            if let Some(ended) = self.send(self.outbox.count(), now)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Done)
    }

    fn pace(&mut self, rate: u64) -> Result<Ended, SysError> {
        wake_exactly();
        let mut schedule = Schedule::new(monotonic_ns(), self.what.size, rate);
        let burst = u64::from(self.what.burst.max(1));
        while self.next < self.count {
            let now = monotonic_ns();
            if let Some(ended) = self.patience.over_at(now) {
                return Ok(ended);
            }
            schedule.forgive(self.next, now);
            // With bursts, when the first of one is due all of it is.
            let begun = !self.next.is_multiple_of(burst);
            let many = match begun {
                true => burst - self.next % burst,
                false => schedule.due_now(self.next, now, BATCH as u64),
            };
            if many == 0 {
                if let Some(ended) = self.sleep(schedule.due(self.next), now)? {
                    return Ok(ended);
                }
                continue;
            }
            let many = if burst > 1 { many.max(burst - self.next % burst) } else { many };
            if let Some(ended) = self.send(many as usize, now)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Done)
    }

    /// Until `wake`, or somewhat before where that is far: whoever rings must be heard.
    fn sleep(&self, wake: u64, now: u64) -> Result<Option<Ended>, SysError> {
        let wake = wake.min(self.patience.end_ns);
        if wake.saturating_sub(now) <= LONG_NS {
            sleep_until(wake)?;
            return Ok(None);
        }
        let mut nap = Alarm::new()?;
        nap.set(Some(wake - LONG_NS / 2))?;
        Ok(match self.patience.until_alarm(&nap)? {
            Woken::End(ended) => Some(ended),
            Woken::Ready => None,
        })
    }

    /// Sends the next `many`, fewer where that is the end.
    fn send(&mut self, many: usize, now: u64) -> Result<Option<Ended>, SysError> {
        let left = usize::try_from(self.count - self.next).unwrap_or(usize::MAX);
        let fits = self.gate.most().map_or(usize::MAX, |most| most / self.what.size.max(1));
        let many = many.min(left).min(self.outbox.count()).min(fits.max(1));
        if let Some(ended) = wait_for(self.gate, many * self.what.size, &self.patience)? {
            return Ok(Some(ended));
        }
        for n in 0..many {
            let number = self.next + 1 + n as u64;
            self.what.header.write(self.outbox.head_mut(n), now, number);
        }
        let mut from = 0;
        let mut refused = 0;
        while from < many {
            let result = if self.trains {
                self.outbox.send_train(self.fd, many).map(|()| many)
            } else {
                self.outbox.send(self.fd, from, many)
            };
            match result {
                Ok(sent) => {
                    from += sent;
                    self.sent(sent);
                }
                Err(Errno::EAGAIN) => {
                    if let Woken::End(ended) = self.patience.until_writable(self.fd)? {
                        return Ok(Some(ended));
                    }
                }
                // Nobody listens there, or a router says so: told once in place of sending.
                Err(
                    Errno::ECONNREFUSED
                    | Errno::EHOSTUNREACH
                    | Errno::ENETUNREACH
                    | Errno::EHOSTDOWN
                    | Errno::EINTR,
                ) if refused < 2 => {
                    refused += 1;
                }
                Err(Errno::ENOBUFS) => {
                    let gone = if self.trains { many - from } else { 1 };
                    from += gone;
                    self.tally.refused.add(gone as u64);
                    self.sent(gone);
                }
                // No such thing here, or not for this size, or not over this device.
                Err(Errno::EINVAL | Errno::EIO | Errno::EOPNOTSUPP | Errno::EMSGSIZE)
                    if self.trains =>
                {
                    self.trains = false;
                }
                Err(errno) => return Err(self.refusal(errno)),
            }
        }
        Ok(None)
    }

    fn sent(&mut self, many: usize) {
        let now = monotonic_ns();
        if self.next == 0 {
            self.tally.first_ns.set(now);
            self.tally.first_packets.set(many as u64);
        }
        self.tally.last_ns.set(now);
        self.next += many as u64;
        self.tally.bytes.add((many * self.what.size) as u64);
        self.tally.packets.add(many as u64);
    }

    fn refusal(&self, errno: Errno) -> SysError {
        let error = SysError::new(format!("send datagrams of {} bytes", self.what.size), errno);
        match errno {
            Errno::EMSGSIZE => {
                error.advise("that is more than fits in a packet; take a smaller size")
            }
            Errno::ECONNREFUSED => error.advise("nobody listens there"),
            Errno::EHOSTUNREACH | Errno::ENETUNREACH => {
                error.advise("there is no way there: see `ip route get`")
            }
            _ => error,
        }
    }
}
