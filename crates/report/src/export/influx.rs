//! A run as lines of InfluxDB's line protocol, times in nanoseconds since 1970.
//!
//! ```text
//!   quell_samples,run=…,scenario=bulk,probe=ping,repeat=0,stream=ping,status=ok seq=0i,bytes=56i,rtt_ns=20411600i 1795342503000000000
//! ```
//!
//! Names of fields are those of the tables' columns. What has no value has no field.

use quell_model::CellId;
use quell_store::Run;
use std::fmt::Write;

/// The whole run.
pub fn influx(run: &Run, zero_s: f64) -> String {
    let zero_ns = (zero_s * 1e9).round() as i64;
    let mut out = String::new();
    for (record, data) in run.iter() {
        let begin = |out: &mut String, table: &str, tags: &[(&str, &str)]| {
            out.push_str(table);
            tag(out, "run", &run.manifest.run);
            cell(out, &record.id);
            tags.iter().for_each(|(key, value)| tag(out, key, value));
            out.push(' ');
        };
        for series in &data.echoes {
            for s in &series.samples {
                begin(
                    &mut out,
                    "quell_samples",
                    &[("stream", &series.stream), ("status", s.status.name())],
                );
                let fields = [
                    ("seq", int(Some(s.seq))),
                    ("bytes", int(Some(s.bytes.into()))),
                    ("rtt_ns", int(s.rtt_ns)),
                    ("up_ns", s.up_ns),
                    ("down_ns", s.down_ns),
                    ("up_order", int(s.up_order)),
                    ("down_order", int(s.down_order)),
                    ("seen_late_ns", int(s.seen_late_ns)),
                    ("queued_ns", int(s.queued_ns)),
                    ("sent_late_ns", int(s.sent_late_ns)),
                ];
                end(&mut out, &fields, zero_ns, s.t_ns);
            }
        }
        for series in &data.flows {
            for s in &series.samples {
                begin(
                    &mut out,
                    "quell_flows",
                    &[("stream", &series.stream), ("side", s.side.name())],
                );
                let tcp = s.tcp;
                // Where there is no pacing the kernel has the largest number.
                let pacing = tcp.map(|t| t.pacing_rate).filter(|rate| *rate < u64::MAX);
                let fields = [
                    ("bytes", int(Some(s.bytes))),
                    ("packets", int(Some(s.packets))),
                    ("retransmits", int(tcp.and_then(|t| t.retransmits))),
                    ("cwnd", int(tcp.map(|t| t.cwnd.into()))),
                    ("srtt_us", int(tcp.map(|t| t.srtt_us.into()))),
                    ("min_rtt_us", int(tcp.map(|t| t.min_rtt_us.into()))),
                    ("delivery_rate", int(tcp.map(|t| t.delivery_rate))),
                    ("pacing_rate", int(pacing)),
                    ("unacked", int(tcp.map(|t| t.unacked.into()))),
                    ("notsent_bytes", int(tcp.map(|t| t.notsent_bytes.into()))),
                ];
                end(&mut out, &fields, zero_ns, s.t_ns);
            }
        }
        for queue in &data.queues {
            for p in &queue.points {
                let tags = [
                    ("device", &*queue.device),
                    ("handle", &*queue.handle),
                    ("kind", &*queue.kind),
                ];
                begin(&mut out, "quell_queues", &tags);
                let fields = [
                    ("backlog_bytes", int(Some(p.backlog_bytes))),
                    ("backlog_packets", int(Some(p.backlog_packets))),
                    ("drops", int(Some(p.drops))),
                    ("marks", int(Some(p.marks))),
                    ("packets", int(Some(p.packets))),
                    ("bytes", int(Some(p.bytes))),
                ];
                end(&mut out, &fields, zero_ns, p.t_ns);
            }
        }
    }
    out
}

/// A number that the protocol's integers hold; what they don't, as the pacing rate of a socket that has none (all bits), is left out.
fn int(value: Option<u64>) -> Option<i64> {
    value.and_then(|value| i64::try_from(value).ok())
}

fn cell(out: &mut String, id: &CellId) {
    tag(out, "scenario", &id.scenario);
    tag(out, "probe", &id.probe);
    // A `String` takes whatever is written.
    let _ = write!(out, ",repeat={}", id.repeat);
}

/// A tag; one without a value is left out, as the protocol has none.
fn tag(out: &mut String, key: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    let _ = write!(out, ",{key}=");
    for char in value.chars() {
        match char {
            ',' | '=' | ' ' => {
                out.push('\\');
                out.push(char);
            }
            // Nothing escapes these.
            '\n' | '\r' | '\\' => out.push('_'),
            _ => out.push(char),
        }
    }
}

fn end(out: &mut String, fields: &[(&str, Option<i64>)], zero_ns: i64, t_ns: i64) {
    let there = fields.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    for (index, (name, value)) in there.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(out, "{comma}{name}={value}i");
    }
    let _ = writeln!(out, " {}", zero_ns.saturating_add(t_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_protocols_integers_is_left_out() {
        assert_eq!(int(Some(7)), Some(7));
        assert_eq!(int(Some(i64::MAX as u64)), Some(i64::MAX));
        assert_eq!((int(Some(u64::MAX)), int(None)), (None, None));
    }
}
