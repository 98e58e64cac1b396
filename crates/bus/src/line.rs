//! One connection after the other.
//!
//! ```text
//!   ┌─► connect ──► subscribe, open the bucket ──► orders, messages, keys ──► broken ─┐
//!   └────────────────────────── a while, longer each time ◄──────────────────────────┘
//! ```
//!
//! Each has a runtime of its own: what waited in one is gone with it, and is not sent by the next.

use crate::keys;
use crate::refusal::{self, Refusal};
use crate::{BusConfig, BusCredentials, BusEvent, OLDEST, Order};
use async_nats::{Client, ConnectOptions, Event, Request};
use futures_util::StreamExt;
use quell_sys::wait::Bell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long the broker may take to answer, and to take what is sent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// A connection that says nothing for twice that time is lost.
const PING: Duration = Duration::from_secs(5);
const LEAST_PAUSE: Duration = Duration::from_millis(100);
const MOST_PAUSE: Duration = Duration::from_secs(10);
/// Messages that wait within a connection: of agents in their thousands, each with one.
const WAITING: usize = 4096;

#[derive(Clone)]
pub(crate) struct News {
    pub tell: mpsc::Sender<BusEvent>,
    pub bell: Arc<Bell>,
}

impl News {
    /// Nobody reads any more only when the connection is about to be dropped.
    pub async fn tell(&self, event: BusEvent) {
        let _ = self.tell.send(event).await;
        self.bell.ring();
    }
}

/// Until who gives orders is gone.
pub(crate) fn keep_up(config: &BusConfig, mut orders: mpsc::Receiver<Order>, news: &News) {
    let mut pause = LEAST_PAUSE;
    loop {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("could not make a runtime: {error}");
                let _ = news.tell.blocking_send(BusEvent::Refused { why });
                news.bell.ring();
                return;
            }
        };
        let begun = Instant::now();
        let is_over = runtime.block_on(async {
            let end = connection(config, &mut orders, news).await;
            let is_over = matches!(&end, End::Over);
            match end {
                End::Over => {}
                End::Broken(why) => {
                    if begun.elapsed() > pause {
                        pause = LEAST_PAUSE;
                    }
                    news.tell(BusEvent::Lost { why }).await;
                }
                End::Never(why) => news.tell(BusEvent::Refused { why }).await,
            }
            is_over || is_over_within(spread(pause, &config.name), &mut orders).await
        });
        runtime.shutdown_background();
        if is_over {
            return;
        }
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

/// Agents that lost the same broker don't come back at once: half of a pause to all of it, by the name.
fn spread(pause: Duration, name: &str) -> Duration {
    let sum = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    pause / 2 + pause * (sum % 512) / 1024
}

/// Waits, and drops what is ordered meanwhile; whether who gives orders is gone.
async fn is_over_within(pause: Duration, orders: &mut mpsc::Receiver<Order>) -> bool {
    let end = sleep(pause);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return false,
            order = orders.recv() => if order.is_none() { return true },
        }
    }
}

enum End {
    /// Who gives orders is gone.
    Over,
    /// It stood, and broke.
    Broken(String),
    Never(String),
}

async fn connection(config: &BusConfig, orders: &mut mpsc::Receiver<Order>, news: &News) -> End {
    let (told, mut events) = mpsc::unbounded_channel();
    let refusal = Refusal::of(config);
    let client = match connect(config, told).await {
        Ok(client) => client,
        Err(error) => return End::Never(refusal.connecting(&error)),
    };
    let info = client.server_info();
    if refusal::version(&info.version).is_some_and(|version| version < OLDEST) {
        return End::Never(refusal.too_old(&info.version));
    }
    for subject in &config.subscriptions.subjects {
        match client.subscribe(subject.clone()).await {
            Ok(messages) => drop(tokio::spawn(forward(messages, news.clone()))),
            Err(error) => return End::Never(refusal.refused(&error)),
        }
    }
    // Whoever is told of the connection may rely on its subscriptions.
    match timeout(PATIENCE, client.flush()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return End::Never(refusal.refused(&error)),
        Err(_) => return End::Never(refusal.slow("take a subscription")),
    }
    news.tell(BusEvent::Connected { version: info.version }).await;
    if config.subscriptions.keys {
        if !info.jetstream {
            return End::Broken(refusal.no_jetstream());
        }
        if let Err(why) = keys::watch(&client, news).await {
            return End::Broken(refusal.refused(&why));
        }
    }
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None => {
                    let _ = timeout(PATIENCE, client.flush()).await;
                    return End::Over;
                }
                Some(order) => match timeout(PATIENCE, carry_out(order, &client, news)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => return End::Broken(refusal.refused(&why)),
                    Err(_) => return End::Broken(refusal.slow("take a message")),
                },
            },
            event = events.recv() => match event {
                None | Some(Event::Disconnected | Event::Closed) => return End::Broken(refusal.gone()),
                Some(Event::ServerError(error)) => {
                    news.tell(BusEvent::Refused { why: refusal.refused(&error) }).await;
                }
                Some(Event::ClientError(error)) => return End::Broken(refusal.refused(&error)),
                Some(Event::Connected | Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_)) => {}
            },
        }
    }
}

async fn connect(
    config: &BusConfig,
    told: mpsc::UnboundedSender<Event>,
) -> Result<Client, async_nats::ConnectError> {
    let options = match &config.credentials {
        None => ConnectOptions::new(),
        Some(BusCredentials::Nkey(seed)) => ConnectOptions::with_nkey(seed.clone()),
        Some(BusCredentials::Password { user, password }) => {
            ConnectOptions::with_user_and_password(user.clone(), password.clone())
        }
    };
    let mut options = options
        .name(&config.name)
        .custom_inbox_prefix(config.inbox())
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(PING)
        .subscription_capacity(WAITING)
        .client_capacity(64)
        .max_reconnects(1)
        .event_callback(move |event| {
            let _ = told.send(event);
            async {}
        });
    if let Some(ca) = &config.ca {
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    options.connect(config.url.as_str()).await
}

async fn forward(mut messages: async_nats::Subscriber, news: News) {
    while let Some(message) = messages.next().await {
        let subject = message.subject.to_string();
        let reply = message.reply.map(|reply| reply.to_string());
        news.tell(BusEvent::Message { subject, reply, payload: message.payload }).await;
    }
}

async fn carry_out(order: Order, client: &Client, news: &News) -> Result<(), async_nats::Error> {
    if let Order::Publish { subject, payload } = order {
        return Ok(client.publish(subject, payload).await?);
    }
    let (client, news) = (client.clone(), news.clone());
    tokio::spawn(async move {
        let event = match order {
            Order::Publish { .. } => return,
            Order::Ask { subject } => {
                let asked = client.send_request(subject.clone(), Request::new()).await;
                let payload = asked.map(|answer| answer.payload).map_err(|e| refusal::chain(&e));
                BusEvent::Answer { subject, payload }
            }
            Order::Put { key, value, revision } => {
                let result = keys::write(&client, &key, value, revision).await;
                BusEvent::Written { key, result }
            }
        };
        news.tell(event).await;
    });
    Ok(())
}
