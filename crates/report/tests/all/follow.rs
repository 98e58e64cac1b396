//! A page that follows a run has, at its end, the figures of the report.

use crate::common::home_link;
use quell_model::{CellId, CellStatus, EchoSample, EchoStatus, Event, Fact, Manifest, Subject};
use quell_report::Results;
use quell_report::analysis::EchoFold;
use quell_store::{CellData, Run, RunWriter, Standing, follow};
use std::collections::BTreeMap;

/// What a cell's journal would hold of this data, packet by packet. A packet that came late was first said to be lost.
fn events(cell: &CellId, data: &CellData) -> Vec<Event> {
    let mut events = vec![Event::Begin { cell: cell.clone(), seed: 1, kernel: "6.1.0".into() }];
    events.extend(data.facts.iter().cloned().map(Event::Fact));
    for series in &data.echoes {
        let stream = || series.stream.clone();
        for sample in &series.samples {
            if sample.status == EchoStatus::Late {
                let lost = EchoSample::new(sample.t_ns, sample.seq, sample.bytes, EchoStatus::Lost);
                events.push(Event::Echo { stream: stream(), samples: vec![lost] });
            }
            events.push(Event::Echo { stream: stream(), samples: vec![sample.clone()] });
        }
    }
    for series in &data.flows {
        // The first report may be of another host than the others, and come behind them.
        let (first, others) = series.samples.split_at(1);
        for samples in others.chunks(30).chain([first]) {
            let (stream, samples) = (series.stream.clone(), samples.to_vec());
            events.push(Event::Flow { stream, samples });
        }
    }
    events.push(Event::End { virtual_ns: 12_000_000_000 });
    events
}

#[test]
fn a_page_that_follows_a_run_ends_with_the_figures_of_the_report() {
    let mut planned = home_link(1);
    for data in &mut planned.cells {
        for series in &mut data.echoes {
            series.samples[50].status = EchoStatus::Late;
        }
    }
    let mut manifest: Manifest = planned.manifest.clone();
    manifest.complete = false;
    manifest.cells.iter_mut().for_each(|c| c.status = CellStatus::Planned);
    let base = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(base.path(), manifest.clone()).unwrap();
    let folder = writer.folder().to_path_buf();
    let mut follower = follow(&folder).unwrap();

    // What the page keeps: a fold for each stream, fed as events come.
    let mut page: BTreeMap<(String, String, String), EchoFold> = BTreeMap::new();
    let mut of = |cell: &CellId, stream: &str, take: &dyn Fn(&mut EchoFold)| {
        let key = (cell.scenario.clone(), cell.probe.clone(), stream.to_owned());
        take(page.entry(key).or_insert_with(EchoFold::exact));
    };
    let mut echo = |cell: &CellId, event: &Event| match event {
        Event::Echo { stream, samples } => {
            of(cell, stream, &|fold| samples.iter().for_each(|s| fold.take(s)));
        }
        Event::Fact(Fact { subject: Subject::Stream(stream, what), value, .. })
            if ["udp", "ping"].contains(&&**stream) && cell.probe == *stream =>
        {
            of(cell, stream, &|fold| fold.tell(what, value));
        }
        _ => {}
    };
    for (record, data) in planned.iter() {
        let mut journal = writer.journal(&record.id).unwrap();
        for (n, event) in events(&record.id, data).iter().enumerate() {
            journal.append(event).unwrap();
            echo(&record.id, event);
            assert_eq!(follower.read().unwrap(), Standing::Written);
            if n % 20 == 0 {
                let so_far = Results::from(&Run::read(&folder).unwrap());
                assert_eq!(Results::from(follower.run()), so_far);
            }
        }
    }
    writer.finish(manifest).unwrap();
    assert_eq!(follower.read().unwrap(), Standing::Finished);

    let report = Results::from(&Run::read(&folder).unwrap());
    assert_eq!(Results::from(follower.run()), report);
    let mut streams = 0;
    for row in &report.rows {
        let Some(echo) = row.echo() else { continue };
        let key = (row.cell.scenario.clone(), row.cell.probe.clone(), row.stream.clone());
        assert_eq!(page[&key].result(), *echo, "{key:?}");
        assert_eq!(echo.counts.received_late, 1);
        streams += 1;
    }
    assert_eq!((streams, page.len()), (4, 4));
}
