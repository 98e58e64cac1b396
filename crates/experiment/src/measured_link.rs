//! A measured line (`line.toml`) as the link of a lab: of each property its value; what is unknown takes the plain choice, and is told.

use quell_lab::topology::{Line, LineFiles, Link, Policer};
use quell_policy::FRAME;
use quell_series::MeasuredLine;
use quell_series::measured_line::{
    Fairness, MarkingThreshold, MeasuredDirection, Property, QueueKind, value,
};
use quell_tc::Queue;
use quell_tc::qdisc::{Cake, Codel, FqCodel, FqPie, Pie, Sfq};
use quell_units::{Buffer, Span};
use std::path::Path;

/// Gives a link both directions of the line; `file` is that of the line, whose folder has its series. Tells what was chosen where the line is
/// unknown, a sentence each.
///
/// # Errors
/// Where nothing says how fast the line is.
pub fn put(link: &mut Link, file: &str, measured: &MeasuredLine) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let mut line = |way: &str, direction: &MeasuredDirection| {
        let told = |note: String| format!("{file}, {way}: {note}");
        let (line, unknown) = self::line(direction, file).map_err(told)?;
        notes.extend(unknown.into_iter().map(told));
        Ok::<_, String>(Some(line))
    };
    (link.up, link.down) = (line("up", &measured.up)?, line("down", &measured.down)?);
    link.shared = value(&measured.both.shared).unwrap_or(false);
    Ok(notes)
}

fn line(measured: &MeasuredDirection, file: &str) -> Result<(Line, Vec<String>), String> {
    let mut notes = Vec::new();
    let police = value(&measured.police_rate).zip(value(&measured.police_burst));
    let kind = value(&measured.queue);
    let rate = value(&measured.rate).filter(|_| measured.series.is_none());
    let is_policed = kind == Some(QueueKind::Policer);
    let is_known = rate.is_some() || measured.series.is_some();
    if !(is_known || is_policed && police.is_some()) {
        return Err("its rate is unknown, so no line can be made of it".into());
    }
    let in_folder = |name: &String| {
        let path = Path::new(file).parent().unwrap_or(Path::new("")).join(name);
        LineFiles::One(path.to_string_lossy().into_owned())
    };
    // What a policer lets through waits for nothing.
    let has_rate = is_known && !(is_policed && police.is_some());
    // The series may have it.
    let has_delay = measured.series.is_none() || measured.delay.is_some();
    let mut line = Line {
        rate: rate.filter(|_| has_rate),
        series: measured.series.as_ref().map(in_folder).filter(|_| has_rate),
        police: police.map(|(rate, burst)| Policer { rate, burst }),
        delay: has_delay.then(|| plain("delay", &measured.delay, "none", &mut notes)).flatten(),
        loss: plain("loss", &measured.loss, "none", &mut notes).filter(|loss| !loss.is_zero()),
        ..Line::default()
    };
    if has_rate {
        let overhead = plain("overhead", &measured.overhead, "none", &mut notes);
        line.overhead = overhead.and_then(|bytes| u16::try_from(bytes.get()).ok());
        line.cells = value(&measured.cells).filter(|is| *is);
        line.grid = value(&measured.grid);
        let buffer = plain("buffer", &measured.buffer, "100 packets", &mut notes);
        let kind = plain("queue", &measured.queue, "tail-drop", &mut notes);
        line.queue = queue(kind, buffer, measured);
        line.buffer = buffer.filter(|_| line.queue.is_none());
        if kind == Some(QueueKind::Dualpi2) {
            notes.push("the lab has no dualpi2: fq_codel that marks from 1 ms on".into());
        }
    }
    Ok((line, notes))
}

/// The value; where it is unknown, what is chosen instead is told.
fn plain<T: Copy>(
    name: &str,
    property: &Option<Property<T>>,
    choice: &str,
    notes: &mut Vec<String>,
) -> Option<T> {
    if value(property).is_none() {
        notes.push(format!("{name} unknown: {choice} taken"));
    }
    value(property)
}

/// None for the plain buffer.
fn queue(
    kind: Option<QueueKind>,
    buffer: Option<Buffer>,
    measured: &MeasuredDirection,
) -> Option<Queue> {
    let limit = buffer.map(|buffer| match buffer {
        Buffer::Packets(count) => count,
        Buffer::Bytes(bytes) => u32::try_from(bytes.get() / FRAME).unwrap_or(u32::MAX).max(1),
    });
    let is_fair = matches!(value(&measured.fair), Some(Fairness::Flow | Fairness::Host));
    let marks = value(&measured.ecn_marks_at);
    let ecn = marks.map(|at| at != MarkingThreshold::Never);
    // What CoDel does by itself begins at its target.
    let ce_threshold = match (kind, marks) {
        (Some(QueueKind::Dualpi2), _) => Some(Span::from_millis(1)),
        (_, Some(MarkingThreshold::At(at))) if at < Span::from_millis(4) => Some(at),
        _ => None,
    };
    Some(match kind? {
        QueueKind::TailDrop if is_fair => Sfq { limit, ..Sfq::default() }.into(),
        QueueKind::TailDrop | QueueKind::Policer => return None,
        QueueKind::Codel if !is_fair => {
            Codel { limit, ecn, ce_threshold, ..Codel::default() }.into()
        }
        QueueKind::Codel | QueueKind::FqCodel | QueueKind::Dualpi2 => {
            FqCodel { limit, ecn, ce_threshold, ..FqCodel::default() }.into()
        }
        QueueKind::Pie if !is_fair => Pie { limit, ecn, ..Pie::default() }.into(),
        QueueKind::Pie => FqPie { limit, ecn, ..FqPie::default() }.into(),
        QueueKind::Cake => Cake::default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(direction: &str) -> Result<(Line, Vec<String>), String> {
        let text = format!("version = 1\n[up]\n{direction}");
        let measured = MeasuredLine::parse(&text).expect(&text);
        super::line(&measured.up, "far/line.toml")
    }

    #[test]
    fn each_property_is_that_of_a_line_written_out() {
        let all = "rate = { value = \"10 Mbit/s\" }\ndelay = { value = \"10 ms\" }\nloss = { value = \"0.1 %\" }\n\
                   overhead = { value = \"22 B\" }\nbuffer = { value = \"300 packets\" }\n";
        let rest = "rate = \"10Mbit\"\ndelay = \"10ms\"\nloss = \"0.1%\"\noverhead = 22\n";
        for (measured, written) in [
            (
                "queue = { value = \"tail-drop\" }\ncells = { value = true }",
                "buffer = \"300p\"\ncells = true",
            ),
            ("queue = { value = \"codel\" }", "queue = { kind = \"codel\", limit = 300 }"),
            (
                "queue = { value = \"codel\" }\nfair = { value = \"flow\" }\necn-marks-at = { value = \"1 ms\" }",
                "queue = { kind = \"fq_codel\", limit = 300, ecn = true, ce_threshold = \"1ms\" }",
            ),
            (
                "queue = { value = \"pie\" }\necn-marks-at = { value = \"never\" }\ngrid = { value = \"2 ms\" }",
                "queue = { kind = \"pie\", limit = 300, ecn = false }\ngrid = \"2ms\"",
            ),
        ] {
            let (found, notes) = line(&format!("{all}{measured}")).expect("a line");
            let wanted: Line = toml::from_str(&format!("{rest}{written}")).expect("a line");
            assert_eq!((found, notes), (wanted, Vec::new()), "{measured}");
        }
        let police = "queue = { value = \"policer\" }\npolice-rate = { value = \"2 Mbit/s\" }\npolice-burst = { value = \"30 kB\" }";
        let (found, _) = line(&format!("{all}{police}")).expect("a line");
        assert_eq!((found.rate, found.buffer), (None, None), "nothing waits behind a policer");
        assert_eq!(found.police.map(|police| police.burst.get()), Some(30_000));
    }

    #[test]
    fn what_is_unknown_takes_the_plain_choice_and_is_told() {
        let text = "series = \"up.csv\"\nloss = { value = \"0 %\" }\noverhead = { value = \"0 B\" }\n\
                    buffer = { unknown = \"never full\" }";
        let (line, notes) = line(text).expect("a line");
        assert_eq!(
            line.series.as_ref().map(LineFiles::names),
            Some(&["far/up.csv".to_owned()][..])
        );
        assert_eq!(notes, ["buffer unknown: 100 packets taken", "queue unknown: tail-drop taken"]);
        let refused =
            super::tests::line("rate = { unknown = \"no traffic\" }").expect_err("no rate");
        assert!(refused.contains("rate is unknown"), "{refused}");
    }
}
