//! What a mesh shows, for a terminal: a sentence, what else happened, the pairs with the worst first.

use crate::events::{MeshFindings, PairChange, clock};
use crate::folder::BulkResult;
use crate::history::{BulkSeen, MeshHistory};
use crate::matrix::{MatrixRow, PairState, headline};
use quell_units::fmt::{self, ms, percent};
use quell_units::table::{Align, Table, cut};

/// Lines of a screen.
const MOST_LINES: usize = 20;
const WIDEST_NAME: usize = 15;

/// The sentences: the first is what is to be said first.
pub fn sentences(mesh: &MeshHistory, findings: &MeshFindings) -> Vec<String> {
    let first = headline(mesh, findings);
    let all = findings.incidents.iter().map(|incident| incident.sentence(mesh.to_ns));
    let others: Vec<String> = all.filter(|sentence| *sentence != first).collect();
    [vec![first], others].concat()
}

pub fn table(mesh: &MeshHistory, rows: &[MatrixRow]) -> String {
    let columns = [Align::Left; 3].into_iter().chain([Align::Right; 4]).chain([Align::Left]);
    let mut table = Table::new(columns);
    let heads =
        ["from", "to", "class", "loss\n%", "median\nms", "p99\nms", "before\nms", "worse\nsince"];
    table.row(heads.map(str::to_owned).to_vec());
    table.rule();
    for row in &rows[..rows.len().min(MOST_LINES)] {
        let figure = |value: Option<f64>| value.map_or("–".to_owned(), |s| ms(s * 1e3));
        table.row(vec![
            cut(&row.pair.agent, WIDEST_NAME),
            cut(&row.pair.peer, WIDEST_NAME),
            cut(&row.pair.class, WIDEST_NAME / 2),
            row.loss.map_or("–".to_owned(), percent),
            figure(row.p50),
            figure(row.p99),
            figure(row.usual_p99),
            match (row.state, row.since()) {
                (PairState::Silent, _) => "silent".to_owned(),
                (_, Some(since)) => clock(since, mesh.to_ns).trim_end_matches(" UTC").to_owned(),
                (_, None) => String::new(),
            },
        ]);
    }
    if rows.len() > MOST_LINES {
        let rest = rows.len() - MOST_LINES;
        table.text(format!(
            "{rest} more pairs: --json has them all, -o FILE.html the worst of them."
        ));
    }
    table.to_string()
}

/// What is known of one pair beside its line.
pub fn details(mesh: &MeshHistory, row: &MatrixRow) -> Vec<String> {
    let paths = row.history.paths.iter().rev().map(|path| {
        format!("Path from {}: {}.", clock(path.from_ns, mesh.to_ns), path.hops.join(" → "))
    });
    let bulk = row.history.bulk.iter().rev().take(MOST_LINES);
    let bulk = bulk.map(|seen| seen.sentence(mesh.to_ns));
    let changes = row.changes.iter().rev().map(|change| change.sentence(mesh.to_ns));
    changes.chain(paths).chain(bulk).collect()
}

impl BulkSeen {
    fn sentence(&self, now_ns: i64) -> String {
        let BulkResult { kind, down, bytes, duration_ns, retransmits, up_rpm, down_rpm } =
            &self.what;
        let seconds = duration_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
        let bytes = bytes.unwrap_or(0);
        let said = match &**kind {
            "page" => format!("loaded in {} ms, {}", ms(seconds * 1e3), fmt::bytes(bytes)),
            "rpm" => {
                let rpm = |rpm: &Option<u64>| rpm.map_or("unknown".into(), |rpm| rpm.to_string());
                format!("{} round trips a minute down, {} up", rpm(down_rpm), rpm(up_rpm))
            }
            _ => {
                let way = if *down == Some(true) { "down" } else { "up" };
                let again =
                    retransmits.map_or(String::new(), |n| format!(", {n} segments sent again"));
                format!("{} {way}{again}", fmt::rate(bytes as f64 * 8.0 / seconds))
            }
        };
        format!("{}, {}: {said}.", self.class, clock(self.wall_ns, now_ns))
    }
}

impl PairChange {
    pub fn sentence(&self, now_ns: i64) -> String {
        let (what, unit) = self.worse.name();
        let text = |value: f64| if unit == "ms" { ms(value * 1e3) } else { percent(value) };
        let from = clock(self.from_ns, now_ns);
        let when = match self.to_ns {
            None => format!("since {from}"),
            Some(to) => {
                format!("from {} to {}", from.trim_end_matches(" UTC"), clock(to, self.from_ns))
            }
        };
        format!("{what} {} {unit}, before {} {unit}: {when}.", text(self.after), text(self.before))
    }
}
