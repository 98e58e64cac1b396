//! The live view: the table of hops, drawn in place.

use super::text::{self, capital};
use crate::live_view::{self, cut};
use crate::text::WIDEST;
use quell_path::{PathHops, PathSession, findings};

/// The view as lines, none wider than the terminal and fewer than its height.
pub fn lines(
    session: &PathSession,
    hops: &PathHops,
    elapsed_ns: u64,
    width: usize,
    height: usize,
) -> Vec<String> {
    let room = height.saturating_sub(1).max(1);
    let mut out = vec![headline(session, hops, elapsed_ns, width)];
    let table = text::table(session, hops, false, WIDEST);
    let rows = table.len();
    out.extend(table);
    if out.len() > room {
        let hidden = out.len() + 1 - room;
        out.truncate(room.saturating_sub(1).max(1));
        if rows > 1 {
            out.push(format!("... and {hidden} more; a higher window shows them"));
        }
    }
    out.extend(hops.searching.map(searching));
    let left = room.saturating_sub(out.len());
    out.extend(findings(session, hops).iter().take(left).map(|found| capital(&found.text)));
    out.truncate(room);
    out.iter().map(|line| cut(line, width.saturating_sub(1).max(1))).collect()
}

/// What it is that takes so long once all probes were sent.
fn searching((ttl, left_ns): (u8, u64)) -> String {
    let seconds = left_ns.div_ceil(1_000_000_000);
    format!("Searching how large packets get to hop {ttl}: about {seconds} s more.")
}

fn headline(session: &PathSession, hops: &PathHops, elapsed_ns: u64, width: usize) -> String {
    let opening = text::opening(session, hops);
    live_view::headline(format!("{opening}, {:.1} s", elapsed_ns as f64 / 1e9), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_path::{PathShape, ProbeMethod};
    use quell_probe::path::{HopAnswer, News};

    fn session() -> PathSession {
        PathSession {
            host: "a-host-with-a-name-that-is-rather-long.example.org".into(),
            to: "[2001:db8:1234:5678:9abc:def0:1234:5678]:0".parse().unwrap(),
            others: Vec::new(),
            method: ProbeMethod::Icmp,
            ports: vec![1],
            interval_ns: 1_000_000_000,
            size: 56,
            tos: 0,
            survey: true,
            sees_marks: false,
        }
    }

    #[test]
    fn of_a_path_where_nobody_answers_and_of_one_that_can_not_be_that_is_said() {
        let none = PathHops::new(3);
        let got = lines(&session(), &none, 1, 300, 24);
        assert!(got[0].contains("nobody answered"), "{got:#?}");
        assert!(text::summary(&session(), &none, 100).contains("nobody answered"));
        // As a file that somebody changed has it.
        let shape = PathShape { ends: vec![Some(0), Some(255), None], ..PathShape::default() };
        let odd = PathHops::of_shape(shape);
        assert!(!odd.reached(session().to.ip()));
        text::summary(&session(), &odd, 100);
    }

    #[test]
    fn a_search_says_how_long_it_still_takes_until_it_is_over() {
        let mut hops = PathHops::new(1);
        hops.take(&News::Searching { ttl: 2, left_ns: 7_400_000_000 });
        let said = "Searching how large packets get to hop 2: about 8 s more.";
        assert!(lines(&session(), &hops, 1, 300, 24).iter().any(|line| line == said));
        hops.take(&News::Sizes(Vec::new()));
        assert!(!lines(&session(), &hops, 1, 300, 24).iter().any(|l| l.contains("Searching")));
    }

    #[test]
    fn it_fits_every_terminal() {
        let (session, mut hops) = (session(), PathHops::new(1));
        for ttl in 1..=30 {
            let from = format!("2001:db8:ffff:ffff:ffff:ffff:ffff:{:x}", 0xff00 + u16::from(ttl));
            hops.take(&News::Answer(HopAnswer {
                flow: 0,
                ttl,
                from: from.parse().unwrap(),
                said: None,
                back_ttl: Some(50),
                marks: None,
                labels: Vec::new(),
            }));
        }
        for (width, height) in [(80, 24), (100, 30), (300, 100), (40, 10), (5, 2), (1, 1)] {
            let got = lines(&session, &hops, 1, width, height);
            assert!(got.len() < height.max(2), "{width}x{height}: {} lines", got.len());
            assert!(
                got.iter().all(|l| l.chars().count() < width.max(2)),
                "{width}x{height}: {got:#?}"
            );
        }
        for width in [80, 60] {
            let text = text::summary(&session, &hops, width);
            assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
            // A long address stands above its figures.
            let row = format!("   7  2001:db8:ffff:ffff:ffff:ffff:ffff:ff07\n{:21}", "");
            assert!(text.contains(&row) && text.contains(" MTU\n"), "{text}");
        }
        let short = lines(&session, &hops, 1, 100, 24);
        assert!(short.iter().any(|line| line.contains("and 10 more")), "{short:#?}");
    }
}
