//! A test in words, while it goes: a title, a head, a row for each report.

use super::figures::{bytes, mbit, ms, rate};
use super::text::sentence;
use quell_flow::latency::Spread;
use quell_flow::{Amount, FlowPlan, Interval, Progress, Senders, Transport};
use std::fmt::Write;
use std::time::Duration;

/// The lines while it goes.
pub struct Live<'a> {
    plan: &'a FlowPlan,
    /// Bytes so far, both directions together.
    moved: u64,
}

impl<'a> Live<'a> {
    /// Of this test.
    pub fn new(plan: &'a FlowPlan) -> Self {
        Self { plan, moved: 0 }
    }

    /// What to print now.
    pub fn lines(&mut self, progress: &Progress<'_>) -> Option<String> {
        match progress {
            Progress::Connected { block } => Some(self.title(*block)),
            Progress::Started(latency) => Some(match (&latency.note, Spread::of(&latency.idle)) {
                (Some(note), _) => format!("{}\n{}", sentence(note), self.head()),
                (None, Some(idle)) => {
                    let text = format!("idle: a ping takes {} ms", ms(idle.p50_ms));
                    format!("{text}\n\n{}", self.head())
                }
                (None, None) => format!("\n{}", self.head()),
            }),
            Progress::Interval(interval) => Some(self.row(interval)),
            Progress::Ending => None,
        }
    }

    fn title(&self, block: u64) -> String {
        let plan = self.plan;
        let way = match plan.direction {
            Senders::Up => "up (from here)",
            Senders::Down => "down (to here)",
            Senders::Both => "up and down at once",
        };
        let how_long = match plan.amount {
            Amount::Time(time) => format!("{time}"),
            Amount::Bytes(amount) => bytes(amount),
        };
        let streams = match plan.streams {
            1 => String::new(),
            n => format!(", {n} streams"),
        };
        let rate = match plan.rate {
            Some(bits) if plan.streams > 1 => format!(", {} each", rate(bits as f64)),
            Some(bits) => format!(", {}", rate(bits as f64)),
            None => String::new(),
        };
        let (name, to) = (plan.transport.name(), plan.to);
        let title =
            sentence(&format!("{name} to {} ({to}), {way}{streams}{rate}, {how_long}", plan.host));
        let shrunk = match plan.is_shrunk(block) {
            true => sentence(&format!(
                "datagrams of {block} bytes, as the path's packets are that small (by TCP's segment size; -l takes another)"
            )),
            false => String::new(),
        };
        title + &shrunk
    }

    fn udp(&self) -> bool {
        self.plan.transport == Transport::Udp
    }

    fn head(&self) -> String {
        let mut head = format!("{:>13}", "seconds");
        let (up, down) = (self.plan.direction != Senders::Down, self.plan.direction != Senders::Up);
        if up {
            // Of datagrams only the server knows how many arrive, and tells it in the end.
            let text = if self.udp() { "sent Mbit/s" } else { "up Mbit/s" };
            let _ = write!(head, "{text:>14}");
        }
        if down {
            let _ = write!(head, "{:>14}", "down Mbit/s");
        }
        // What follows is one direction's; of two it says whose.
        let name = |text: &str, whose: &str| match up && down {
            true => format!("{whose} {text}"),
            false => text.to_owned(),
        };
        match self.udp() {
            true if down => {
                let packets = name("packets", "down");
                let _ = write!(head, "{packets:>14}{:>10}{:>12}", "lost", "jitter ms");
            }
            true => {
                let _ = write!(head, "{:>14}", "packets");
            }
            false if up => {
                let again = name("sent again", "up");
                let _ = write!(head, "{again:>14}{:>10}{:>12}", "RTT ms", "cwnd kB");
            }
            false => {}
        }
        if matches!(self.plan.amount, Amount::Bytes(_)) {
            let _ = write!(head, "{:>12}{:>11}", "so far", "left");
        }
        head + "\n"
    }

    /// Of an amount: what has come or was sent so far, and how long the rest takes at the rate until now.
    fn so_far(&mut self, interval: &Interval) -> String {
        let Amount::Bytes(amount) = self.plan.amount else { return String::new() };
        let ways = if self.plan.direction == Senders::Both { 2 } else { 1 };
        self.moved += interval.lanes.iter().map(|lane| lane.mark.moment.bytes).sum::<u64>();
        let rest = amount.saturating_mul(ways).saturating_sub(self.moved);
        let left_s = interval.end_s * rest as f64 / self.moved as f64;
        let left = match Duration::try_from_secs_f64(left_s) {
            Ok(left) if self.moved > 0 => crate::progress::words(left),
            _ => "–".into(),
        };
        format!("{:>12}{left:>11}", bytes(self.moved))
    }

    fn row(&mut self, interval: &Interval) -> String {
        let mut row = format!("{:>13}", format!("{:.1}-{:.1}", interval.start_s, interval.end_s));
        for up in [true, false] {
            if let Some(rate) = interval.rate(up) {
                let _ = write!(row, "{:>14}", mbit(rate));
            }
        }
        let of = |sends: bool| interval.lanes.iter().filter(move |lane| lane.sends == sends);
        let down = self.plan.direction != Senders::Up;
        if self.udp() {
            let marks: Vec<_> = of(!down).map(|lane| &lane.mark).collect();
            let packets: u64 = marks.iter().map(|m| m.moment.packets).sum();
            let _ = write!(row, "{packets:>14}");
            if down {
                let lost: u64 = marks.iter().map(|m| m.moment.lost).sum();
                let jitter = marks.iter().map(|m| m.jitter_ns).max().unwrap_or(0);
                let _ = write!(row, "{lost:>10}{:>12}", ms(jitter as f64 / 1e6));
            }
        } else if self.plan.direction != Senders::Down {
            let again: u64 = of(true).map(|lane| lane.mark.moment.retransmits).sum();
            let rtt = of(true).map(|lane| lane.mark.moment.srtt_us).max().unwrap_or(0);
            let cwnd: u64 = of(true).map(|lane| lane.mark.moment.cwnd).sum();
            let _ = write!(row, "{again:>14}{:>10}{:>12}", ms(rtt as f64 / 1e3), cwnd / 1000);
        }
        row += &self.so_far(interval);
        if interval.omitted {
            row += "  (does not count)";
        }
        row + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_flow::{IntervalLane, LaneCounts};

    fn plan() -> FlowPlan {
        FlowPlan::new("there", "192.0.2.1:5201".parse().expect("an address"))
    }

    #[test]
    fn of_two_directions_each_column_says_whose_it_is() {
        let both = FlowPlan { direction: Senders::Both, ..plan() };
        assert!(Live::new(&both).head().contains("up sent again"));
        let udp = FlowPlan { transport: Transport::Udp, ..both };
        assert!(Live::new(&udp).head().contains("down packets"));
        assert!(Live::new(&udp).head().contains("sent Mbit/s   down Mbit/s"), "not what arrived");
        assert!(Live::new(&plan()).head().contains("up Mbit/s"));
        assert!(!Live::new(&plan()).head().contains("up sent"));
    }

    #[test]
    fn of_an_amount_each_row_says_what_came_so_far_and_how_long_the_rest_takes() {
        let both =
            FlowPlan { direction: Senders::Both, amount: Amount::Bytes(100_000_000), ..plan() };
        let mut live = Live::new(&both);
        let head = live.head();
        assert!(head.contains("so far       left"), "{head}");
        let report = |from: f64, to: f64, bytes: u64| {
            let mut mark = LaneCounts::default();
            mark.moment.bytes = bytes;
            let lanes = vec![
                IntervalLane { id: 1, sends: true, mark },
                IntervalLane { id: 3, sends: false, mark },
            ];
            Interval { start_s: from, end_s: to, omitted: false, lanes }
        };
        let rows = [
            live.row(&report(0.0, 1.0, 0)),
            live.row(&report(1.0, 2.0, 10_000_000)),
            live.row(&report(2.0, 18.0, 85_000_000)),
            live.row(&report(18.0, 19.0, 6_000_000)),
        ];
        // 20 of 200 MB in 2 s: 18 s more.
        for (row, said) in rows.iter().zip([
            "0 B          –",
            "20.0 MB       18 s",
            "190 MB      0.9 s",
            "202 MB      0.0 s",
        ]) {
            assert!(row.trim_end().ends_with(said), "{row}");
            assert!(row.chars().count() <= 101 && row.len() >= head.len(), "{row}");
        }
        let timed = plan();
        assert!(!Live::new(&timed).head().contains("left"));
    }

    #[test]
    fn a_title_says_why_datagrams_are_shorter_than_usual() {
        let udp = FlowPlan { transport: Transport::Udp, ..plan() };
        let title = Live::new(&udp).title(1228);
        assert!(title.contains("datagrams of 1228 bytes, as the path's packets are"), "{title}");
        assert!(!Live::new(&udp).title(1448).contains("datagrams of"));
    }
}
