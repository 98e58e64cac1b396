//! A path that was kept as a run: a stream a hop (and flow), and what is known of the path as facts.
//!
//! ```text
//!   fact   stream "path", told "session"     at the beginning
//!   fact   stream "path", told "shape"       each time that something new was seen; the last one counts
//!   rows   stream "hop 03", or "flow 2 hop 03" where there are several flows
//! ```

use crate::PathSession;
use crate::hops::{PathHops, PathShape};
use quell_model::{Event, Fact, Subject, Told, When};
use quell_store::Run;
use serde::Serialize;
use serde::de::DeserializeOwned;

const PATH: &str = "path";
const SESSION: &str = "session";
const SHAPE: &str = "shape";

pub fn session_fact(session: &PathSession) -> Event {
    fact(SESSION, session)
}

pub(crate) fn shape_fact(known: &PathHops) -> Event {
    fact(SHAPE, &known.shape)
}

fn fact(what: &str, value: &impl Serialize) -> Event {
    let text = serde_json::to_string(value).unwrap_or_default();
    Fact::new(When::Before, Subject::stream(PATH, Told::Other(what.into())), text).into()
}

pub(crate) fn stream(flows: usize, flow: u16, ttl: u8) -> String {
    match flows {
        1 => format!("hop {ttl:02}"),
        _ => format!("flow {} hop {ttl:02}", flow + 1),
    }
}

fn flow_and_hop(stream: &str) -> Option<(u16, u8)> {
    let (flow, hop) = match stream.strip_prefix("flow ") {
        Some(rest) => {
            let (flow, hop) = rest.split_once(' ')?;
            (flow.parse::<u16>().ok()?.checked_sub(1)?, hop)
        }
        None => (0, stream),
    };
    Some((flow, hop.strip_prefix("hop ")?.parse().ok().filter(|ttl| *ttl > 0)?))
}

/// The path that a run kept; none when the run is not one of `quell path`.
pub fn read(run: &Run) -> Option<(PathSession, PathHops)> {
    let data = run.cells.first()?;
    let session: PathSession = last(data.facts.iter(), SESSION)?;
    let shape: PathShape = last(data.facts.iter(), SHAPE).unwrap_or_else(|| PathShape {
        ends: vec![None; session.ports.len()],
        ..PathShape::default()
    });
    let mut known = PathHops::of_shape(shape);
    for series in &data.echoes {
        let Some((flow, ttl)) = flow_and_hop(&series.stream) else { continue };
        let mut samples: Vec<_> = series.samples.iter().collect();
        samples.sort_by_key(|s| s.down_order.unwrap_or(s.seq));
        samples.into_iter().for_each(|sample| known.sample(flow, ttl, sample));
    }
    Some((session, known))
}

fn last<'a, T: DeserializeOwned>(facts: impl Iterator<Item = &'a Fact>, what: &str) -> Option<T> {
    let ours = facts.filter(|fact| {
        matches!(&fact.subject, Subject::Stream(stream, Told::Other(told)) if stream == PATH && told == what)
    });
    serde_json::from_str(&ours.last()?.value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_says_its_flow_and_its_hop() {
        assert_eq!(flow_and_hop(&stream(1, 0, 7)), Some((0, 7)));
        assert_eq!(flow_and_hop(&stream(12, 11, 30)), Some((11, 30)));
        for other in ["hop", "hop 0", "hop x", "flow 0 hop 1", "flow 1", "ping", "hop 256"] {
            assert_eq!(flow_and_hop(other), None, "{other}");
        }
    }
}
