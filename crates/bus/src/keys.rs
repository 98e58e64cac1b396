//! Keys with revisions, as NATS' key-value buckets are laid out (ADR-8 of nats-architecture-and-design), by the few requests that are needed.
//!
//! ```text
//!   read    the last message of a subject      $JS.API.DIRECT.GET.KV_BUCKET.$KV.BUCKET.KEY
//!   write   a message there, if the last one has this number: else refused  $KV.BUCKET.KEY
//!   watch   each key is read, and one consumer tells what comes; where it left out a change, each is read again
//! ```

use crate::line::{News, PATIENCE};
use crate::{BUCKET, BusEvent, refusal};
use async_nats::{Client, HeaderMap, Message, Request};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use tokio::time::timeout;

/// "stream not found" (server/errors.json of nats-server).
const NO_STREAM: u64 = 10_059;

/// How often the broker says how many changes it sent.
const HEARTBEAT_NS: u64 = 2_000_000_000;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ApiAnswer {
    error: Option<ApiError>,
    seq: u64,
    state: StreamState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamState {
    /// Messages of each.
    subjects: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    description: String,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JetStream refuses: {} ({})", self.description, self.err_code)
    }
}

async fn ask(client: &Client, subject: String, request: Request) -> Result<Message, String> {
    let answer = client.send_request(subject, request).await;
    answer.map_err(|error| format!("JetStream does not answer: {}", refusal::chain(&error)))
}

async fn api(client: &Client, what: &str, body: serde_json::Value) -> Result<ApiAnswer, String> {
    let payload = Bytes::from(body.to_string());
    let subject = format!("$JS.API.{what}");
    read_answer(&ask(client, subject, Request::new().payload(payload)).await?)
}

fn read_answer(message: &Message) -> Result<ApiAnswer, String> {
    serde_json::from_slice(&message.payload).map_err(|error| format!("JetStream: {error}"))
}

fn done(answer: ApiAnswer) -> Result<ApiAnswer, String> {
    match answer.error {
        Some(error) => Err(error.to_string()),
        None => Ok(answer),
    }
}

/// A key's value, none where there is none, and its revision.
async fn read(client: &Client, key: &str) -> Result<(Option<Bytes>, u64), String> {
    let subject = format!("$JS.API.DIRECT.GET.KV_{BUCKET}.$KV.{BUCKET}.{key}");
    let answer = ask(client, subject, Request::new()).await?;
    match answer.status.map(|status| status.as_u16()) {
        None | Some(200) => {
            let revision = number(&answer, "Nats-Sequence").unwrap_or(0);
            Ok(((!is_deletion(&answer)).then_some(answer.payload), revision))
        }
        Some(404) => Ok((None, 0)),
        Some(other) => Err(format!("JetStream answers {other}")),
    }
}

fn number(message: &Message, header: &str) -> Option<u64> {
    message.headers.as_ref()?.get(header)?.as_str().parse().ok()
}

fn is_deletion(message: &Message) -> bool {
    message.headers.as_ref().is_some_and(|headers| headers.get("KV-Operation").is_some())
}

/// Its new revision.
pub(crate) async fn write(
    client: &Client,
    key: &str,
    value: Option<Bytes>,
    revision: u64,
) -> Result<u64, String> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", revision.to_string());
    if value.is_none() {
        headers.insert("KV-Operation", "DEL");
    }
    let request = Request::new().headers(headers).payload(value.unwrap_or_default());
    let answer = ask(client, format!("$KV.{BUCKET}.{key}"), request).await?;
    Ok(done(read_answer(&answer)?)?.seq)
}

/// Opens the bucket, makes it where there is none, tells all that is in it and then each change.
pub(crate) async fn watch(client: &Client, news: &News) -> Result<(), String> {
    let name = format!("KV_{BUCKET}");
    let info = api(client, &format!("STREAM.INFO.{name}"), json!({})).await?;
    if info.error.as_ref().is_some_and(|error| error.err_code == NO_STREAM) {
        let bucket = json!({
            "name": name, "subjects": [format!("$KV.{BUCKET}.>")], "storage": "file", "retention": "limits",
            "max_msgs_per_subject": 1, "max_msgs": -1, "max_bytes": -1, "max_consumers": -1, "max_msg_size": -1,
            "discard": "new", "num_replicas": 1, "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
        });
        done(api(client, &format!("STREAM.CREATE.{name}"), bucket).await?)?;
    } else {
        done(info)?;
    }
    let inbox = client.new_inbox();
    let changes = client.subscribe(inbox.clone()).await.map_err(|e| refusal::chain(&e))?;
    let consumer = json!({"stream_name": name, "config": {
        "deliver_subject": inbox, "deliver_policy": "new", "ack_policy": "none", "idle_heartbeat": HEARTBEAT_NS,
        "filter_subject": format!("$KV.{BUCKET}.>"), "replay_policy": "instant", "mem_storage": true,
    }});
    done(api(client, &format!("CONSUMER.CREATE.{name}"), consumer).await?)?;
    tell_all(client, news).await?;
    tokio::spawn(tell(changes, client.clone(), news.clone()));
    Ok(())
}

/// Each key is asked for: a broker that sent all at once would send more than the client takes, which drops the rest.
async fn tell_all(client: &Client, news: &News) -> Result<(), String> {
    let prefix = format!("$KV.{BUCKET}.");
    let filter = json!({"subjects_filter": format!("{prefix}>")});
    let info = done(api(client, &format!("STREAM.INFO.KV_{BUCKET}"), filter).await?)?;
    for key in info.state.subjects.keys().filter_map(|subject| subject.strip_prefix(&prefix)) {
        let (value, revision) = read(client, key).await?;
        news.tell(BusEvent::Key { key: key.into(), value, revision }).await;
    }
    news.tell(BusEvent::AllKeys).await;
    Ok(())
}

async fn tell(mut changes: async_nats::Subscriber, client: Client, news: News) {
    let prefix = format!("$KV.{BUCKET}.");
    let mut last = 0;
    while let Ok(Some(message)) = timeout(PATIENCE, changes.next()).await {
        let key = message.subject.as_str().strip_prefix(&prefix);
        let delivered = match key.zip(place(&message)) {
            Some((key, (revision, delivered))) => {
                let value = (!is_deletion(&message)).then(|| message.payload.clone());
                news.tell(BusEvent::Key { key: key.into(), value, revision }).await;
                last += 1;
                delivered
            }
            None => number(&message, "Nats-Last-Consumer").unwrap_or(last),
        };
        // The client dropped what it could not hand on.
        if delivered != last {
            last = delivered;
            if let Err(why) = tell_all(&client, &news).await {
                news.tell(BusEvent::Refused { why }).await;
            }
        }
    }
    // No heartbeats: the bucket is gone. The next connection makes it again.
    let _ = client.force_reconnect().await;
}

/// The number of a message in its stream, and of those that its consumer had: `$JS.ACK.STREAM.CONSUMER.DELIVERED.NUMBER.COUNT.TIME.PENDING`, of which newer
/// servers have more before and behind.
fn place(message: &Message) -> Option<(u64, u64)> {
    let parts: Vec<&str> = message.reply.as_ref()?.as_str().split('.').collect();
    let first = if parts.len() > 9 { 7 } else { 5 };
    Some((parts.get(first)?.parse().ok()?, parts.get(first + 1)?.parse().ok()?))
}
