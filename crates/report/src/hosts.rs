//! Real hosts of a run: how well their clocks were known, whether they began together, and how their TCP sends.

use quell_model::Manifest;
use serde_json::Value;

/// Hosts that begin within this of each other began together, in milliseconds.
const TOGETHER_MS: f64 = 1.0;

/// What is known of each, as the manifest has it, for JSON.
pub fn json(manifest: &Manifest) -> Value {
    let read = |(name, text): (&String, &String)| {
        Some((name.clone(), serde_json::from_str::<Value>(text).ok()?))
    };
    Value::Object(manifest.hosts.iter().filter_map(read).collect())
}

/// The same in sentences, and warnings: of hosts that did not begin together, or were told too late.
pub fn sentences(manifest: &Manifest) -> (Vec<String>, Vec<String>) {
    let hosts = json(manifest);
    let (mut lines, mut warnings, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    for (name, host) in hosts.as_object().into_iter().flatten() {
        if let Some((host, late)) = name.strip_suffix("/late").zip(host.as_f64()) {
            warnings.push(format!("{host} got its start {:.1} ms too late", late / 1e6));
            continue;
        }
        let ms = |at: &str, key: &str| host[at][key].as_f64().map(|ns| ns / 1e6);
        let Some(bound) = ms("before", "bound_ns") else { continue };
        bounds.push(bound);
        let moved = ms("after", "offset_ns").zip(ms("before", "offset_ns"));
        let moved = moved.map(|(after, before)| {
            let bound = bound + ms("after", "bound_ns").unwrap_or(0.0);
            format!(", moved {:.3} ms ± {bound:.3} ms", after - before)
        });
        let kept = match host["clock_disciplined"].as_bool() {
            Some(true) => {
                let most = host["clock_most_wrong_us"].as_f64().unwrap_or(0.0) / 1e3;
                format!("disciplined to {most:.1} ms")
            }
            _ => "not disciplined".to_owned(),
        };
        let moved = moved.unwrap_or_default();
        let tcp = host["congestion"].as_str().map(|name| format!("; TCP sends with {name}"));
        let tcp = tcp.unwrap_or_default();
        lines.push(format!("{name}: clock known to ± {bound:.3} ms{moved}, {kept}{tcp}"));
    }
    bounds.sort_by(|a, b| b.total_cmp(a));
    let apart: f64 = bounds.iter().take(2).sum();
    if apart > TOGETHER_MS {
        warnings
            .push(format!("hosts may have begun {apart:.1} ms apart: no clock is known better"));
    }
    (lines, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_may_not_have_begun_together_are_told_with_what_is_known_of_their_clocks() {
        let host = |bound: u64| {
            format!(
                r#"{{"before":{{"offset_ns":5000000,"bound_ns":{bound}}},"after":{{"offset_ns":7000000,"bound_ns":100000}},
                    "clock_disciplined":true,"clock_most_wrong_us":1500,"congestion":"bbr"}}"#
            )
        };
        let run = |hosts: &[(&str, String)]| Manifest {
            hosts: hosts.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect(),
            ..Manifest::default()
        };
        let (lines, warnings) = sentences(&run(&[("a", host(10_000)), ("b", host(400_000))]));
        assert_eq!(
            lines[1],
            "b: clock known to ± 0.400 ms, moved 2.000 ms ± 0.500 ms, disciplined to 1.5 ms; \
             TCP sends with bbr"
        );
        assert_eq!(warnings, Vec::<String>::new());
        let far = run(&[("a", host(10_000)), ("b", host(3_000_000)), ("b/late", "7000000".into())]);
        let (_, warnings) = sentences(&far);
        assert_eq!(
            warnings,
            [
                "b got its start 7.0 ms too late",
                "hosts may have begun 3.0 ms apart: no clock is known better"
            ]
        );
    }
}
