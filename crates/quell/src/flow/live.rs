//! A test in words, while it goes: a title, a head, a row for each report.

use super::figures::{column_unit, in_column, rate};
use crate::live_view::{ChartColumn, TerminalSize};
use crate::text::{Column, Columns, WIDEST, lines};
use quell_flow::latency::RttSummary;
use quell_flow::{Amount, FlowPlan, Interval, LaneCounts, Progress, Senders, Transport};
use quell_units::Span;
use quell_units::fmt::{bytes, ms};
use std::time::Duration;

/// Time between lines that stands for none.
pub const NO_INTERVAL: Span = Span::from_secs(1_000_000);

/// Rows that a chart leaves to what stands above it.
const HEAD_ROWS: usize = 5;
/// Stands behind a row.
const NOT: &str = "  (does not count)";

pub struct Live<'a> {
    plan: &'a FlowPlan,
    moved: u64,
    width: usize,
    amount: Amount,
    /// Whether the server says what it sees while it goes.
    hears: bool,
    /// The rates of the reports so far, both directions together.
    rates: Vec<f64>,
}

impl<'a> Live<'a> {
    pub fn new(plan: &'a FlowPlan, width: usize) -> Self {
        Self { plan, moved: 0, width, amount: plan.amount, hears: false, rates: Vec::new() }
    }

    pub fn lines(&mut self, progress: &Progress<'_>) -> Option<String> {
        match progress {
            Progress::Connected { block } => {
                self.amount = self.plan.in_bytes(*block).amount;
                Some(self.title(*block))
            }
            Progress::Started { latency, hears } => {
                self.hears = *hears;
                let head = if self.has_rows() { self.head() } else { String::new() };
                Some(match (&latency.note, RttSummary::of(&latency.idle)) {
                    (Some(note), _) => format!("{}\n{head}", self.sentence(note)),
                    (None, Some(idle)) => {
                        format!("idle: a ping takes {} ms\n\n{head}", ms(idle.p50_ms))
                    }
                    (None, None) => format!("\n{head}"),
                })
            }
            Progress::Interval(interval) => self.has_rows().then(|| self.row(interval)),
            Progress::Ending => None,
        }
    }

    /// None with `-i 0`.
    fn has_rows(&self) -> bool {
        self.plan.interval < NO_INTERVAL
    }

    /// The rates so far, where a terminal has room for them.
    pub fn chart(&self, place: TerminalSize) -> Vec<String> {
        let column = |rate: &f64| ChartColumn { value: Some(*rate), lost: false };
        let columns: Vec<ChartColumn> = self.rates.iter().map(column).collect();
        let columns: Vec<ChartColumn> = match (columns.len(), place.chart_columns()) {
            // A few are drawn wide.
            (n @ 2.., room) if n * 2 <= room => {
                columns.into_iter().flat_map(|it| vec![it; (room / n).min(4)]).collect()
            }
            _ => columns,
        };
        // Title, idle ping, head and the rows of late stay in sight.
        place.chart(HEAD_ROWS + self.rates.len().min(HEAD_ROWS), &columns, rate)
    }

    fn title(&self, block: u64) -> String {
        let plan = self.plan;
        let way = match plan.direction {
            Senders::Up => "up (from here)",
            Senders::Down => "down (to here)",
            Senders::Both => "up and down at once",
        };
        let how_long = match self.amount {
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
        let title = self
            .sentence(&format!("{name} to {} ({to}), {way}{streams}{rate}, {how_long}", plan.host));
        let shrunk = match plan.is_shrunk(block) {
            true => self.sentence(&format!(
                "datagrams of {block} bytes, as the path's packets are that small (by TCP's segment size; -l takes another)"
            )),
            false => String::new(),
        };
        title + &shrunk
    }

    fn udp(&self) -> bool {
        self.plan.transport == Transport::Udp
    }

    fn sentence(&self, text: &str) -> String {
        lines("", text, self.width)
    }

    /// What a row tells, as far as there is room: what the summary tells too goes first.
    fn columns(&self) -> Columns {
        let mut all = vec![Column::right("seconds", 13, 13)];
        let (up, down) = (self.plan.direction != Senders::Down, self.plan.direction != Senders::Up);
        if up {
            // Of datagrams only the server knows how many arrive, and tells it in the end.
            let unit = column_unit();
            let text = if self.udp() { format!("sent {unit}") } else { format!("up {unit}") };
            all.push(Column::right(text, 14, 12));
        }
        if down {
            all.push(Column::right(format!("down {}", column_unit()), 14, 12));
        }
        // What follows is one direction's; of two it says whose.
        let name = |text: &str, whose: &str| match up && down {
            true => format!("{whose} {text}"),
            false => text.to_owned(),
        };
        if self.udp() {
            let packets = name("packets", "down");
            all.push(Column::right(packets, 14, 13).given_up(4));
            if down || self.hears {
                all.push(Column::right("lost", 10, 7).given_up(1));
                all.push(Column::right("jitter ms", 12, 10).given_up(5));
            }
        } else if up || self.hears {
            let again = Column::right(name("sent again", "up"), 14, 11).given_up(3);
            all.push(again.or(&name("again", "up")));
            all.push(Column::right("RTT ms", 10, 8).given_up(4));
            all.push(Column::right("cwnd kB", 12, 9).given_up(5));
        }
        if matches!(self.amount, Amount::Bytes(_)) {
            all.push(Column::right("so far", 12, 9));
            all.push(Column::right("left", 11, 11).given_up(2));
        }
        let room = if self.plan.omit.is_zero() { self.width } else { self.width - NOT.len() };
        // Where there is room for all, a note behind a row may go beyond it.
        Columns::fitting(all, if self.width < WIDEST { room } else { WIDEST })
    }

    fn head(&self) -> String {
        self.columns().head() + "\n"
    }

    /// Of an amount: what has come or was sent so far, and how long the rest takes at the rate until now.
    fn so_far(&mut self, interval: &Interval) -> Option<[String; 2]> {
        let Amount::Bytes(amount) = self.amount else { return None };
        let ways = if self.plan.direction == Senders::Both { 2 } else { 1 };
        self.moved += interval.lanes.iter().map(|lane| lane.mark.moment.bytes).sum::<u64>();
        let rest = amount.saturating_mul(ways).saturating_sub(self.moved);
        let left_s = interval.end_s * rest as f64 / self.moved as f64;
        let left = match Duration::try_from_secs_f64(left_s) {
            Ok(left) if self.moved > 0 => crate::progress::words(left),
            _ => "–".into(),
        };
        Some([bytes(self.moved), left])
    }

    fn row(&mut self, interval: &Interval) -> String {
        self.rates.push([true, false].into_iter().filter_map(|up| interval.rate(up)).sum());
        let mut cells = vec![format!("{:.1}-{:.1}", interval.start_s, interval.end_s)];
        cells.extend([true, false].into_iter().filter_map(|up| interval.rate(up)).map(in_column));
        let of = |sends: bool| interval.lanes.iter().filter(move |lane| lane.sends == sends);
        let down = self.plan.direction != Senders::Up;
        let heard = interval.heard.unwrap_or_default();
        if self.udp() {
            let marks: Vec<_> = of(!down).map(|lane| &lane.mark).collect();
            let packets: u64 = marks.iter().map(|m| m.moment.packets).sum();
            cells.push(packets.to_string());
            if down {
                let lost: u64 = marks.iter().map(|m| m.moment.lost).sum();
                let jitter = LaneCounts::jitter_of(marks);
                cells.extend([lost.to_string(), ms(jitter as f64 / 1e6)]);
            } else if self.hears {
                cells.extend([heard.lost.to_string(), ms(heard.jitter_ns as f64 / 1e6)]);
            }
        } else if self.plan.direction != Senders::Down {
            let again: u64 = of(true).map(|lane| lane.mark.moment.retransmits).sum();
            let rtt = of(true).map(|lane| lane.mark.moment.srtt_us).max().unwrap_or(0);
            let cwnd: u64 = of(true).map(|lane| lane.mark.moment.cwnd).sum();
            cells.extend([again.to_string(), ms(rtt as f64 / 1e3), (cwnd / 1000).to_string()]);
        } else if self.hears {
            let rtt = ms(heard.srtt_us as f64 / 1e3);
            cells.extend([heard.retransmits.to_string(), rtt, (heard.cwnd / 1000).to_string()]);
        }
        cells.extend(self.so_far(interval).into_iter().flatten());
        let note = if interval.omitted { NOT } else { "" };
        format!("{}{note}\n", self.columns().row(&cells))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_flow::IntervalStream;

    fn plan() -> FlowPlan {
        FlowPlan::new("there", "192.0.2.1:5201".parse().expect("an address"))
    }

    #[test]
    fn of_two_directions_each_column_says_whose_it_is() {
        let both = FlowPlan { direction: Senders::Both, ..plan() };
        assert!(Live::new(&both, WIDEST).head().contains("up sent again"));
        let udp = FlowPlan { transport: Transport::Udp, ..both };
        assert!(Live::new(&udp, WIDEST).head().contains("down packets"));
        assert!(
            Live::new(&udp, WIDEST).head().contains("sent Mbit/s   down Mbit/s"),
            "not what arrived"
        );
        assert!(Live::new(&plan(), WIDEST).head().contains("up Mbit/s"));
        assert!(!Live::new(&plan(), WIDEST).head().contains("up sent"));
    }

    #[test]
    fn of_an_amount_each_row_says_what_came_so_far_and_how_long_the_rest_takes() {
        let both =
            FlowPlan { direction: Senders::Both, amount: Amount::Bytes(100_000_000), ..plan() };
        let mut live = Live::new(&both, WIDEST);
        let head = live.head();
        assert!(head.contains("so far       left"), "{head}");
        let report = |from: f64, to: f64, bytes: u64| {
            let mut mark = LaneCounts::default();
            mark.moment.bytes = bytes;
            let lanes = vec![
                IntervalStream { id: 1, sends: true, mark },
                IntervalStream { id: 3, sends: false, mark },
            ];
            Interval { start_s: from, end_s: to, omitted: false, lanes, heard: None }
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
        assert!(!Live::new(&timed, WIDEST).head().contains("left"));
    }

    #[test]
    fn on_a_narrow_terminal_rows_give_up_blanks_and_then_what_the_summary_tells_too() {
        let amount = Amount::Bytes(100_000_000);
        let lane = |sends| {
            let mut mark = LaneCounts::default();
            (mark.moment.bytes, mark.moment.retransmits) = (25_000_000, 12_345);
            IntervalStream { id: 1, sends, mark }
        };
        for transport in [Transport::Tcp, Transport::Udp] {
            for direction in [Senders::Up, Senders::Down, Senders::Both] {
                for (amount, omit) in
                    [(amount, Span::ZERO), (Amount::Time(Span::from_secs(9)), Span::from_secs(1))]
                {
                    let plan = FlowPlan { transport, direction, amount, omit, ..plan() };
                    let sends = [Senders::Up, Senders::Both].contains(&direction);
                    let ways =
                        if direction == Senders::Both { vec![true, false] } else { vec![sends] };
                    let interval = Interval {
                        start_s: 3599.0,
                        end_s: 3600.0,
                        omitted: !omit.is_zero(),
                        lanes: ways.into_iter().map(lane).collect(),
                        heard: None,
                    };
                    let all = Live { hears: true, ..Live::new(&plan, WIDEST) }.row(&interval);
                    for width in [80, 60] {
                        let mut live = Live { hears: true, ..Live::new(&plan, width) };
                        let (head, row) = (live.head(), live.row(&interval));
                        let most =
                            head.trim_end().chars().count().max(row.trim_end().chars().count());
                        assert!(most <= width, "{width}: {head}{row}");
                        assert!(head.contains("Mbit/s") && row.contains("3599.0-3600.0"));
                        // Each figure is one of those that there are, and whole.
                        assert!(row.split_whitespace().all(|word| all.contains(word)), "{row}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_jitter_of_a_row_is_the_mean_of_the_datagrams_that_came() {
        let udp = FlowPlan { transport: Transport::Udp, direction: Senders::Down, ..plan() };
        let lane = |id, packets, jitter_ns| {
            let mut mark = LaneCounts { jitter_ns, ..LaneCounts::default() };
            mark.moment.packets = packets;
            IntervalStream { id, sends: false, mark }
        };
        let lanes = vec![lane(1, 999, 1_000_000), lane(3, 1, 41_000_000)];
        let interval = Interval { start_s: 0.0, end_s: 1.0, omitted: false, lanes, heard: None };
        let row = Live::new(&udp, WIDEST).row(&interval);
        assert!(row.trim_end().ends_with(" 1.040"), "as its end tells it: {row}");
    }

    #[test]
    fn what_the_server_says_while_it_goes_stands_in_the_lines() {
        let heard = quell_flow::ServerCounts {
            lost: 7,
            jitter_ns: 1_500_000,
            retransmits: 3,
            srtt_us: 20_400,
            cwnd: 117_000,
        };
        let lane = |sends| IntervalStream { id: 1, sends, mark: LaneCounts::default() };
        let interval = |sends| Interval {
            start_s: 0.0,
            end_s: 1.0,
            omitted: false,
            lanes: vec![lane(sends)],
            heard: Some(heard),
        };
        let up = FlowPlan { transport: Transport::Udp, ..plan() };
        let down = FlowPlan { direction: Senders::Down, ..plan() };
        for (plan, sends, head, row) in [
            (up, true, "packets      lost   jitter ms", "0         7       1.500"),
            (down, false, "sent again    RTT ms     cwnd kB", "3     20.40         117"),
        ] {
            let mut live = Live { hears: true, ..Live::new(&plan, WIDEST) };
            assert!(live.head().trim_end().ends_with(head), "{}", live.head());
            assert!(live.row(&interval(sends)).trim_end().ends_with(row));
            let silent = Live::new(&plan, WIDEST).head();
            assert!(!silent.contains("jitter") && !silent.contains("cwnd"), "{silent}");
        }
    }

    #[test]
    fn a_title_says_why_datagrams_are_shorter_than_usual() {
        let udp = FlowPlan { transport: Transport::Udp, ..plan() };
        let title = Live::new(&udp, WIDEST).title(1228);
        assert!(title.contains("datagrams of 1228 bytes, as the path's packets are"), "{title}");
        assert!(!Live::new(&udp, WIDEST).title(1448).contains("datagrams of"));
    }
}
