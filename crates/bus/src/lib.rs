//! Messages and keys over NATS.
//!
//! ```text
//!   agent, collector ──channels──► one thread with an asynchronous runtime ──TCP or TLS──► nats-server
//!     lib       what the rest of Quell sees
//!     config    whose broker, and who one is there
//!     line      one connection after the other; each begins with nothing of the one before
//!     keys      JetStream's requests for keys
//!     refusal   what went wrong, for a person
//! ```
//!
//! The broker is a wire and never a disk: what must not be lost is kept by those at its ends until the other end has it. So a message that is given while
//! there is no connection is dropped.

mod config;
mod keys;
mod line;
mod refusal;

pub use bytes::Bytes;
pub use config::{BusConfig, BusCredentials, Subscriptions, new_nkey};

use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The bucket of keys: what each agent is to measure.
pub const BUCKET: &str = "quell-mesh";

/// Messages that may wait for who reads them; more wait in the connection.
const WAITING: usize = 256;

/// The oldest nats-server that a key's last value can be had of by one request (`DIRECT.GET`).
const OLDEST: (u32, u32) = (2, 9);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// There is a connection, to a server of this version; what was subscribed to comes from now on.
    Connected { version: String },
    /// There was one. It is tried again.
    Lost { why: String },
    /// There is none, or the broker refused something: a sentence. It is tried again.
    Refused { why: String },
    /// Who asked awaits an answer at `reply`.
    Message { subject: String, reply: Option<String>, payload: Bytes },
    /// What [`Bus::ask`] asked for, or why nobody answered.
    Answer { subject: String, payload: Result<Bytes, String> },
    /// A key's value, new or as it stands at the begin of a connection; none where it was deleted.
    Key { key: String, value: Option<Bytes>, revision: u64 },
    /// All keys that there are were told.
    AllKeys,
    /// What became of [`Bus::put`]: the key's revision, or why it stands as it was.
    Written { key: String, result: Result<u64, String> },
}

pub(crate) enum Order {
    Publish { subject: String, payload: Bytes },
    Ask { subject: String },
    Put { key: String, value: Option<Bytes>, revision: u64 },
}

/// A connection that is kept up by a thread of its own until this is dropped.
pub struct Bus {
    orders: Option<mpsc::Sender<Order>>,
    events: mpsc::Receiver<BusEvent>,
    bell: Arc<Bell>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bus {
    pub fn start(config: BusConfig) -> Result<Self, SysError> {
        let (orders, taken) = mpsc::channel(WAITING);
        let (tell, events) = mpsc::channel(WAITING);
        let bell = Arc::new(Bell::new()?);
        let news = line::News { tell, bell: Arc::clone(&bell) };
        let thread = std::thread::Builder::new()
            .name("bus".into())
            .spawn(move || line::keep_up(&config, taken, &news))
            .map_err(|error| SysError::io("start a thread", &error))?;
        Ok(Self { orders: Some(orders), events, bell, thread: Some(thread) })
    }

    /// Whether it was handed on; not, where too much waits already.
    pub fn publish(&self, subject: &str, payload: Vec<u8>) -> bool {
        self.order(Order::Publish { subject: subject.into(), payload: payload.into() })
    }

    /// Asks whoever listens there.
    pub fn ask(&self, subject: &str) -> bool {
        self.order(Order::Ask { subject: subject.into() })
    }

    /// Writes a key, or deletes it, if its revision is still this one; 0 is that of one which isn't there.
    pub fn put(&self, key: &str, value: Option<Vec<u8>>, revision: u64) -> bool {
        self.order(Order::Put { key: key.into(), value: value.map(Bytes::from), revision })
    }

    fn order(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.try_send(order).is_ok())
    }

    /// What happened next; none where nothing did yet. Where one waits for its descriptor, all are to be taken.
    pub fn next_event(&mut self) -> Option<BusEvent> {
        let mut next = self.events.try_recv();
        if next.is_err() {
            self.bell.silence();
            // One may have come in between.
            next = self.events.try_recv();
        }
        next.ok()
    }

    /// What happens next, until a time of the monotonic clock.
    pub fn await_next(&mut self, until_ns: u64) -> Result<Option<BusEvent>, SysError> {
        let mut alarm = Alarm::new()?;
        alarm.set(Some(until_ns))?;
        loop {
            if let Some(event) = self.next_event() {
                return Ok(Some(event));
            }
            let mut fds = [readable(&*self.bell), readable(&alarm)];
            wait(&mut fds)?;
            if came(&fds[1]) && monotonic_ns() >= until_ns {
                return Ok(self.next_event());
            }
        }
    }
}

impl AsFd for Bus {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.orders = None;
        self.events.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
