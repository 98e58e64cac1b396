//! Which values of an axis get a label, and what it says.

use crate::axis::Axis;
use crate::scale::ScaleRange;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// All ticks of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    pub major: Vec<Tick>,
    pub minor: Vec<f64>,
}

/// A large number in thousands of thousands: its power of ten and the letter for it.
fn prefix(magnitude: f64) -> (i32, &'static str) {
    let power = ((magnitude.log10() + 1e-9) / 3.0).floor().clamp(1.0, 6.0) as i32;
    (power * 3, ["k", "M", "G", "T", "P", "E"][power as usize - 1])
}

fn typographic(number: String) -> String {
    number.replace('-', "\u{2212}")
}

/// Groups the digits of large whole numbers: 12 000.
fn grouped(v: f64, decimals: usize) -> String {
    let s = format!("{v:.decimals$}");
    let s =
        if s.trim_matches(['-', '0', '.']).is_empty() { format!("{:.decimals$}", 0.0) } else { s };
    let (whole, rest) =
        s.split_once('.').map_or((s.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    let digits = whole.trim_start_matches('-');
    if digits.len() < 5 {
        return typographic(s);
    }
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    typographic(format!("{}{out}{rest}", if whole.starts_with('-') { "-" } else { "" }))
}

/// Decimals that tell multiples of `step` apart.
fn decimals(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 15.0) as usize
}

/// A label on an axis whose labels are `step` apart and reach `most`.
fn linear_label(v: f64, step: f64, most: f64) -> String {
    if v.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    if !(1e-3..1e16).contains(&most) {
        let power = (most.log10() + 1e-9).floor();
        let unit = 10f64.powf(power);
        return typographic(format!("{:.*}e{power}", decimals(step / unit), v / unit));
    }
    if most >= 1e5 {
        let (power, suffix) = prefix(most);
        let unit = 10f64.powi(power);
        return format!("{}{suffix}", grouped(v / unit, decimals(step / unit)));
    }
    grouped(v, decimals(step))
}

fn log_label(v: f64) -> String {
    let power = (v.log10() + 1e-9).floor();
    if (-3.0..5.0).contains(&power) {
        return grouped(v, (-power).max(0.0) as usize);
    }
    if (5.0..16.0).contains(&power) {
        let (p, suffix) = prefix(v);
        return format!("{}{suffix}", grouped(v / 10f64.powi(p), 0));
    }
    typographic(format!("{:.0}e{power}", v / 10f64.powf(power)))
}

/// A value by itself, in three digits.
pub(crate) fn value(v: f64, percent: bool) -> String {
    let (v, suffix) = if percent { (v * 100.0, "\u{202f}%") } else { (v, "") };
    let digits =
        if v == 0.0 { 0 } else { (2 - (v.abs().log10() + 1e-9).floor() as i32).clamp(0, 6) };
    format!("{}{suffix}", grouped(v, digits as usize))
}

/// The 1-2-5 steps from `least` upwards.
fn steps(least: f64) -> impl Iterator<Item = f64> {
    let first = least.max(1e-300).log10().floor() as i32;
    (first..first + 8)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)))
        .filter(move |step| *step >= least * 0.999)
}

const DAY: f64 = 86_400.0;

/// Steps of a clock in seconds, then days.
fn clock_steps(least: f64) -> impl Iterator<Item = f64> {
    let minutes = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0];
    let days = steps(1.0).take(12).map(|days| days * DAY);
    minutes.into_iter().map(|m| m * 60.0).chain(days).filter(move |step| *step >= least * 0.999)
}

/// Seconds since a midnight as a clock shows them, or its day where labels are days apart.
fn clock_label(v: f64, step: f64) -> String {
    if step >= DAY {
        return format!("day {:.0}", v / DAY);
    }
    let minutes = (v / 60.0).round().rem_euclid(DAY / 60.0);
    format!("{:02}:{:02}", (minutes / 60.0).floor(), minutes % 60.0)
}

/// Chooses the ticks of an axis: the most, up to `most`, whose labels `fit`.
///
/// `fit` gets each tick's place (0 to 1) and label.
pub(crate) fn choose(
    axis: &Axis,
    range: &ScaleRange,
    most: usize,
    fit: impl Fn(&[(f64, &str)]) -> bool,
) -> Ticks {
    let factor = if axis.percent { 100.0 } else { 1.0 };
    let shown = ScaleRange { low: range.low * factor, high: range.high * factor, ..*range };
    let suffix = if axis.percent { "\u{202f}%" } else { "" };
    let fits = |ticks: &[Tick]| {
        let places: Vec<_> =
            ticks.iter().map(|t| (shown.place(t.value).unwrap_or(0.0), t.label.as_str())).collect();
        ticks.len() <= most.max(2) && fit(&places)
    };
    let logarithmic = if range.log { logarithmic(&shown, suffix, &fits) } else { None };
    let (mut major, mut minor) =
        logarithmic.unwrap_or_else(|| (linear(axis, &shown, suffix, most, &fits), vec![]));
    major.iter_mut().for_each(|tick| tick.value /= factor);
    minor.iter_mut().for_each(|value| *value /= factor);
    Ticks { major, minor }
}

fn linear(
    axis: &Axis,
    range: &ScaleRange,
    suffix: &str,
    most: usize,
    fits: &impl Fn(&[Tick]) -> bool,
) -> Vec<Tick> {
    let largest = range.low.abs().max(range.high.abs());
    let least = ((range.high - range.low) / most.max(2) as f64).max(largest * 1e-12);
    let steps: Box<dyn Iterator<Item = f64>> =
        if axis.clock { Box::new(clock_steps(least)) } else { Box::new(steps(least)) };
    for step in steps {
        let label = |v: f64| match axis.clock {
            true => clock_label(v, step),
            false => format!("{}{suffix}", linear_label(v, step, largest)),
        };
        let first = (range.low / step - 1e-6).ceil();
        let count = ((range.high / step + 1e-6).floor() - first).max(-1.0) as usize;
        let ticks: Vec<Tick> = (0..=count.min(500))
            .map(|i| (first + i as f64) * step)
            .filter(|v| range.contains(*v))
            .map(|value| Tick { value, label: label(value) })
            .collect();
        if fits(&ticks) {
            return ticks;
        }
    }
    Vec::new()
}

type Chosen = (Vec<Tick>, Vec<f64>);

fn logarithmic(
    range: &ScaleRange,
    suffix: &str,
    fits: &impl Fn(&[Tick]) -> bool,
) -> Option<Chosen> {
    let (first, last) = (range.low.log10().floor() as i32, range.high.log10().ceil() as i32);
    let tick = |m: f64, power: i32| m * 10f64.powi(power);
    let minor = || -> Vec<f64> {
        let all = |power| (1..10).map(move |m| tick(f64::from(m), power));
        if last - first > 8 {
            return (first..=last).map(|p| tick(1.0, p)).filter(|v| range.contains(*v)).collect();
        }
        (first..=last).flat_map(all).filter(|v| range.contains(*v)).collect()
    };
    let within: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let dense = within.iter().map(|m| (*m, 1));
    let sparse = [2, 3, 5, 10, 20, 50, 100].into_iter().map(|every| (&[1.0][..], every));
    let labelled = |(multiples, every): (&[f64], i32)| -> Vec<Tick> {
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| multiples.iter().map(move |m| tick(*m, power)))
            .filter(|v| range.contains(*v))
            .map(|value| Tick { value, label: format!("{}{suffix}", log_label(value)) })
            .collect()
    };
    let sets: Vec<Vec<Tick>> = dense.chain(sparse).map(labelled).collect();
    // Both ends with fewer labels between them tell more than many without the ends.
    let ended = || sets.iter().map(|ticks| with_ends(ticks.clone(), range, suffix));
    let plain = sets.iter().take_while(|ticks| ticks.len() > 1).cloned();
    let all = ended().chain(ended().map(without_neighbours)).chain(plain);
    all.filter(|ticks| ticks.len() > 1).find(|ticks| fits(ticks)).map(|ticks| (ticks, minor()))
}

/// The same with a label at either end, where the axis ends on 1, 2 or 5 times a power of ten.
fn with_ends(mut ticks: Vec<Tick>, range: &ScaleRange, suffix: &str) -> Vec<Tick> {
    let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    for (end, at_front) in [(range.low, true), (range.high, false)] {
        let digit = end / 10f64.powf((end.log10() + 1e-9).floor());
        let is_round = [1.0, 2.0, 5.0].iter().any(|m| same(digit, *m));
        if !is_round || ticks.iter().any(|t| same(t.value, end)) {
            continue;
        }
        let tick = Tick { value: end, label: format!("{}{suffix}", log_label(end)) };
        ticks.insert(if at_front { 0 } else { ticks.len() }, tick);
    }
    ticks
}

/// The same without the labels next to the ends: where these find no room beside them.
fn without_neighbours(mut ticks: Vec<Tick>) -> Vec<Tick> {
    if ticks.len() > 3 {
        ticks.remove(ticks.len() - 2);
        ticks.remove(1);
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, low: f64, high: f64) -> Vec<String> {
        let range = ScaleRange { low, high, log: axis.is_log(), automatic: true };
        let ticks = choose(axis, &range, 6, |_| true);
        ticks.major.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn steps_are_one_two_five_with_equal_decimals() {
        let plain = Axis::linear("");
        assert_eq!(labels(&plain, 0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&plain, -20.0, 31.0), ["−20", "−10", "0", "10", "20", "30"]);
        assert_eq!(labels(&plain, 0.0, 26_000.0).last().unwrap(), "25\u{202f}000");
        assert_eq!(labels(&plain, 0.0, 2.4e6), ["0", "0.5M", "1.0M", "1.5M", "2.0M"]);
        assert_eq!(labels(&plain, 0.0, 4e18), ["0", "1e18", "2e18", "3e18", "4e18"]);
        assert_eq!(labels(&Axis::linear("").percent(), 0.0, 1.0)[1], "20\u{202f}%");
    }

    #[test]
    fn a_clock_has_steps_of_a_clock() {
        let clock = Axis::clock("");
        let h = 3600.0;
        assert_eq!(labels(&clock, 22.0 * h, 34.0 * h), ["00:00", "03:00", "06:00", "09:00"]);
        assert_eq!(labels(&clock, 3.1 * h, 3.4 * h), ["03:10", "03:15", "03:20"]);
        assert_eq!(labels(&clock, 0.0, 192.0 * h).last().map(String::as_str), Some("day 8"));
    }

    #[test]
    fn a_value_by_itself_has_three_digits() {
        let shown = [0.0, 0.0123, 2.3912, 23.187, 457.0, 12_345.0].map(|v| value(v, false));
        assert_eq!(shown, ["0", "0.0123", "2.39", "23.2", "457", "12\u{202f}345"]);
        assert_eq!(value(0.8531, true), "85.3\u{202f}%");
    }

    #[test]
    fn a_logarithmic_axis_labels_decades_and_falls_back_within_one() {
        let log = Axis::log10("");
        assert_eq!(labels(&log, 0.1, 1000.0), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(&log, 8.0, 120.0), ["10", "20", "50", "100"]);
        assert_eq!(labels(&log, 20.0, 500.0), ["20", "50", "100", "200", "500"]);
        assert_eq!(
            labels(&log, 0.2, 5000.0),
            ["0.2", "1", "10", "100", "1000", "5000"],
            "both ends"
        );
        assert_eq!(labels(&log, 95.0, 105.0), ["96", "98", "100", "102", "104"]);
        let wide = labels(&log, 1e-290, 1e290);
        assert!((2..=7).contains(&wide.len()), "{wide:?}");
    }

    #[test]
    fn any_range_gets_few_ticks_in_order_and_inside() {
        for (low, high) in [(0.0, 1e-300), (-1e300, 1e300), (1e15, 1e15 + 1e6), (-3.0, 1e-9)] {
            let range = ScaleRange { low, high, log: false, automatic: true };
            let ticks = choose(&Axis::linear(""), &range, 6, |_| true).major;
            assert!(ticks.len() <= 6, "{low} {high}: {}", ticks.len());
            assert!(ticks.windows(2).all(|t| t[0].value < t[1].value));
            assert!(ticks.iter().all(|t| range.contains(t.value)));
        }
    }
}
