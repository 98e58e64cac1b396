//! The three tables: their columns with unit and meaning, which stand in docs/data.md and in the Parquet files too, and their rows as [`CellData`].

use crate::cell_data::{CellData, EchoSeries, FlowSeries, QueuePoint, QueueSeries};
use crate::columns::{PROBE, REPEAT, SCENARIO, TIME};
use crate::error::StoreError;
use crate::table::{self, ColumnValue, RowBatch, TableColumn, TableWriter, Texts};
use crate::table_columns;
use quell_model::{CellId, EchoSample, EchoStatus, FlowSample, Side, TcpState};
use std::collections::HashMap;
use std::path::Path;

pub(crate) const SAMPLES: &str = "samples.parquet";
pub(crate) const FLOWS: &str = "flows.parquet";
pub(crate) const QUEUES: &str = "queues.parquet";

/// A row: the cell, up to three names, and what was measured.
pub(crate) struct TableRow<'a, S> {
    cell: &'a CellId,
    names: [&'a str; 3],
    sample: &'a S,
}

/// A row that is of one packet.
pub trait OfPacket {
    fn packet(&self) -> &EchoSample;
}

impl OfPacket for TableRow<'_, EchoSample> {
    fn packet(&self) -> &EchoSample {
        self.sample
    }
}

/// What is said of a packet beside when it was sent, and of what stream.
pub fn packet_columns<R: OfPacket>() -> Vec<TableColumn<R>> {
    table_columns! { R =>
        seq          Count    ""   "number of the packet within the stream, from 0" |r| r.packet().seq;
        rtt_ns       OptCount "ns"
            "round-trip time, what the reflector took left out where it tells that; empty without an answer" |r| r.packet().rtt_ns;
        up_ns        OptTime  "ns"
            "one-way delay to the reflector, by both ends' clocks, empty where it does not tell it; of a load's datagrams to their receiver, whichever way that is" |r| r.packet().up_ns;
        down_ns      OptTime  "ns" "one-way delay back, likewise" |r| r.packet().down_ns;
        up_order     OptCount ""
            "the reflector's count of packets when it answered this one; empty where it does not tell it" |r| r.packet().up_order;
        down_order   OptCount ""   "order of arrival of the answers, from 0; empty without an answer" |r| r.packet().down_order;
        seen_late_ns OptCount "ns"
            "from the kernel's stamp of the answer to when the program saw it; empty where not known" |r| r.packet().seen_late_ns;
        queued_ns    OptCount "ns"
            "waiting in this host's own queue, a part of rtt_ns; empty where the kernel does not tell it" |r| r.packet().queued_ns;
        sent_late_ns OptCount "ns" "from when it was due to when it was sent; empty where nothing was due" |r| r.packet().sent_late_ns;
        bytes        Small    "B"  "UDP or ICMP payload; 0 where an imported file does not tell it" |r| r.packet().bytes;
        status       Text     ""
            "ok, duplicate, lost, lost-up, lost-down, error, unfinished, late, unsure or not-sent; lost-up is lost on the way of up_ns" |r| r.packet().status.name();
    }
}

/// The packet of each row, by when they were sent.
pub fn packets<'t>(
    g: &RowBatch<'_>,
    t_ns: &'t [i64],
) -> Result<impl Fn(usize) -> EchoSample + use<'t>, StoreError> {
    let seq = g.count("seq")?;
    let (rtt, up, down) = (g.opt_count("rtt_ns")?, g.opt_time("up_ns")?, g.opt_time("down_ns")?);
    let (up_order, down_order) = (g.opt_count("up_order")?, g.opt_count("down_order")?);
    let late = g.opt_count("seen_late_ns")?;
    let (queued, sent_late) = (g.opt_count("queued_ns")?, g.opt_count("sent_late_ns")?);
    let (bytes, status) = (g.small("bytes")?, g.text("status")?);
    let statuses = status.meanings(EchoStatus::from_name);
    let statuses = statuses.map_err(|text| unknown(g, "status", text))?;
    Ok(move |i: usize| EchoSample {
        t_ns: t_ns[i],
        seq: seq[i],
        rtt_ns: rtt[i],
        up_ns: up[i],
        down_ns: down[i],
        up_order: up_order[i],
        down_order: down_order[i],
        seen_late_ns: late[i],
        queued_ns: queued[i],
        sent_late_ns: sent_late[i],
        bytes: bytes[i],
        status: statuses[status.number(i)],
    })
}

/// The columns that all tables begin with, then those of one.
fn of_cell<'a, S>(
    time: fn(&TableRow<'a, S>) -> i64,
    own: Vec<TableColumn<TableRow<'a, S>>>,
) -> Vec<TableColumn<TableRow<'a, S>>> {
    let mut all = vec![
        TableColumn { about: TIME, value: ColumnValue::Time(time) },
        TableColumn { about: SCENARIO, value: ColumnValue::Text(|r| &r.cell.scenario) },
        TableColumn { about: PROBE, value: ColumnValue::Text(|r| &r.cell.probe) },
        TableColumn { about: REPEAT, value: ColumnValue::Small(|r| r.cell.repeat) },
    ];
    all.extend(own);
    all
}

pub(crate) fn sample_columns<'a>() -> Vec<TableColumn<TableRow<'a, EchoSample>>> {
    let mut own = table_columns! { TableRow<'a, EchoSample> => stream Text "" "the stream's name" |r| r.names[0]; };
    own.extend(packet_columns());
    of_cell(|r| r.sample.t_ns, own)
}

pub(crate) fn flow_columns<'a>() -> Vec<TableColumn<TableRow<'a, FlowSample>>> {
    of_cell(
        |r| r.sample.t_ns,
        table_columns! { TableRow<'a, FlowSample> =>
            stream        Text     ""         "the flow's name" |r| r.names[0];
            side          Text     ""         "who tells it: sender or receiver; a receiver's bytes are goodput" |r| r.sample.side.name();
            bytes         Count    "B"        "payload so far: sent (of TCP acknowledged) or received" |r| r.sample.bytes;
            packets       Count    ""         "datagrams so far; 0 of TCP" |r| r.sample.packets;
            retransmits   OptCount ""
                "segments sent again so far; empty where not known, and with all that follow but of a TCP sender" |r| r.sample.tcp.and_then(|t| t.retransmits);
            cwnd          OptSmall "segments" "congestion window; 0 where not known" |r| r.sample.tcp.map(|t| t.cwnd);
            srtt_us       OptSmall "us"       "smoothed round-trip time; 0 where not known" |r| r.sample.tcp.map(|t| t.srtt_us);
            min_rtt_us    OptSmall "us"       "least round-trip time seen; 0 where not known" |r| r.sample.tcp.map(|t| t.min_rtt_us);
            delivery_rate OptCount "B/s"      "the kernel's estimate of what arrives; 0 where not known" |r| r.sample.tcp.map(|t| t.delivery_rate);
            pacing_rate   OptCount "B/s"      "rate of pacing; 18446744073709551615 where there is none" |r| r.sample.tcp.map(|t| t.pacing_rate);
            unacked       OptSmall "segments" "sent and not acknowledged" |r| r.sample.tcp.map(|t| t.unacked);
            notsent_bytes OptSmall "B"        "in the send queue and not sent yet" |r| r.sample.tcp.map(|t| t.notsent_bytes);
        },
    )
}

pub(crate) fn queue_columns<'a>() -> Vec<TableColumn<TableRow<'a, QueuePoint>>> {
    of_cell(
        |r| r.sample.t_ns,
        table_columns! { TableRow<'a, QueuePoint> =>
            device          Text  ""  "the interface, as node:device" |r| r.names[0];
            handle          Text  ""  "handle or class, as tc prints it" |r| r.names[1];
            kind            Text  ""  "kind of the queue, as fq_codel; of a class, as htb class" |r| r.names[2];
            backlog_bytes   Count "B" "waiting" |r| r.sample.backlog_bytes;
            backlog_packets Count ""  "packets waiting" |r| r.sample.backlog_packets;
            drops           Count ""  "packets dropped so far" |r| r.sample.drops;
            marks           Count ""  "packets marked CE so far" |r| r.sample.marks;
            packets         Count ""  "packets sent on so far" |r| r.sample.packets;
            bytes           Count "B" "sent on so far" |r| r.sample.bytes;
        },
    )
}

/// The three tables on their way to the disk. Cells are appended in the manifest's order.
pub(crate) struct Writers {
    samples: TableWriter,
    flows: TableWriter,
    queues: TableWriter,
}

impl Writers {
    pub fn create(folder: &Path) -> Result<Self, StoreError> {
        let place = |name| folder.join(name);
        Ok(Self {
            samples: TableWriter::create(&place(SAMPLES), "samples", &sample_columns())?,
            flows: TableWriter::create(&place(FLOWS), "flows", &flow_columns())?,
            queues: TableWriter::create(&place(QUEUES), "queues", &queue_columns())?,
        })
    }

    pub fn append(&mut self, cell: &CellId, data: &CellData) -> Result<(), StoreError> {
        self.samples.append(&sample_columns(), &sample_rows(cell, data).collect::<Vec<_>>())?;
        self.flows.append(&flow_columns(), &flow_rows(cell, data).collect::<Vec<_>>())?;
        self.queues.append(&queue_columns(), &queue_rows(cell, data).collect::<Vec<_>>())
    }

    pub fn append_echoes<'a>(
        &mut self,
        cell: &'a CellId,
        echoes: impl Iterator<Item = (&'a str, &'a EchoSample)>,
    ) -> Result<(), StoreError> {
        let rows: Vec<_> = echoes.map(|(stream, x)| row(cell, [stream, "", ""], x)).collect();
        self.samples.append(&sample_columns(), &rows)
    }

    pub fn into_files(self) -> [(&'static str, TableWriter); 3] {
        [(SAMPLES, self.samples), (FLOWS, self.flows), (QUEUES, self.queues)]
    }
}

fn row<'a, S>(cell: &'a CellId, names: [&'a str; 3], sample: &'a S) -> TableRow<'a, S> {
    TableRow { cell, names, sample }
}

pub(crate) fn sample_rows<'a>(
    cell: &'a CellId,
    data: &'a CellData,
) -> impl Iterator<Item = TableRow<'a, EchoSample>> {
    let of =
        move |s: &'a EchoSeries| s.samples.iter().map(move |x| row(cell, [&s.stream, "", ""], x));
    data.echoes.iter().flat_map(of)
}

pub(crate) fn flow_rows<'a>(
    cell: &'a CellId,
    data: &'a CellData,
) -> impl Iterator<Item = TableRow<'a, FlowSample>> {
    let of =
        move |s: &'a FlowSeries| s.samples.iter().map(move |x| row(cell, [&s.stream, "", ""], x));
    data.flows.iter().flat_map(of)
}

pub(crate) fn queue_rows<'a>(
    cell: &'a CellId,
    data: &'a CellData,
) -> impl Iterator<Item = TableRow<'a, QueuePoint>> {
    let of = move |s: &'a QueueSeries| {
        s.points.iter().map(move |x| row(cell, [&s.device, &s.handle, &s.kind], x))
    };
    data.queues.iter().flat_map(of)
}

/// Puts a table's rows to their cells, one a cell of the manifest.
pub(crate) struct Reader<'a> {
    /// Where each stands: scenario, probe, repeat.
    cells: HashMap<(&'a str, &'a str, u32), usize>,
    data: Vec<CellData>,
}

impl<'a> Reader<'a> {
    pub fn new(cells: impl Iterator<Item = &'a CellId>) -> Self {
        let key = |cell: &'a CellId| (cell.scenario.as_str(), cell.probe.as_str(), cell.repeat);
        let cells: HashMap<_, _> = cells.enumerate().map(|(at, cell)| (key(cell), at)).collect();
        Self { data: vec![CellData::default(); cells.len()], cells }
    }

    pub fn table(
        &mut self,
        path: &Path,
        name: &str,
        bytes: Vec<u8>,
        rows: u64,
    ) -> Result<(), StoreError> {
        table::read(path, bytes, Some(rows), |group| match name {
            SAMPLES => self.samples(path, group),
            FLOWS => self.flows(path, group),
            _ => self.queues(path, group),
        })
    }

    pub fn cell(&mut self, path: &Path, id: &CellId) -> Result<&mut CellData, StoreError> {
        self.find(path, &id.scenario, &id.probe, id.repeat)
    }

    pub fn finish(mut self) -> Vec<CellData> {
        self.data.iter_mut().for_each(CellData::settle);
        self.data
    }

    fn find(
        &mut self,
        path: &Path,
        scenario: &str,
        probe: &str,
        repeat: u32,
    ) -> Result<&mut CellData, StoreError> {
        let index = self.cells.get(&(scenario, probe, repeat)).ok_or_else(|| {
            let cell = format!("{scenario}.{probe}.{repeat}");
            StoreError::damaged(
                path,
                format!("it has rows of {cell}, which is not in the manifest"),
            )
        })?;
        Ok(&mut self.data[*index])
    }

    fn samples(&mut self, path: &Path, g: &RowBatch<'_>) -> Result<(), StoreError> {
        let cells = CellColumns::read(g)?;
        let (t, stream) = (g.time("t_ns")?, g.text("stream")?);
        let packet = packets(g, &t)?;
        let mut from = 0;
        while from < g.rows() {
            // Packets of one stream of one cell, as a rule all that there are.
            let to = cells.end_of_alike(from, g.rows(), &stream);
            let samples = cells.data(self, path, from)?.echoes_of(stream.at(from));
            match (from, to) == (0, g.rows()) {
                true => samples.reserve_exact(g.left()),
                false => samples.reserve(to - from),
            }
            samples.extend((from..to).map(&packet));
            from = to;
        }
        Ok(())
    }

    fn flows(&mut self, path: &Path, g: &RowBatch<'_>) -> Result<(), StoreError> {
        let cells = CellColumns::read(g)?;
        let (t, stream, side) = (g.time("t_ns")?, g.text("stream")?, g.text("side")?);
        let (bytes, packets) = (g.count("bytes")?, g.count("packets")?);
        let (retransmits, cwnd) = (g.opt_count("retransmits")?, g.opt_small("cwnd")?);
        let (srtt, min_rtt) = (g.opt_small("srtt_us")?, g.opt_small("min_rtt_us")?);
        let (delivery, pacing) = (g.opt_count("delivery_rate")?, g.opt_count("pacing_rate")?);
        let (unacked, notsent) = (g.opt_small("unacked")?, g.opt_small("notsent_bytes")?);
        for i in 0..g.rows() {
            let tcp = cwnd[i].map(|cwnd| TcpState {
                retransmits: retransmits[i],
                cwnd,
                srtt_us: srtt[i].unwrap_or(0),
                min_rtt_us: min_rtt[i].unwrap_or(0),
                delivery_rate: delivery[i].unwrap_or(0),
                pacing_rate: pacing[i].unwrap_or(0),
                unacked: unacked[i].unwrap_or(0),
                notsent_bytes: notsent[i].unwrap_or(0),
            });
            let side = [Side::Sender, Side::Receiver]
                .into_iter()
                .find(|s| s.name() == side.at(i))
                .ok_or_else(|| unknown(g, "side", side.at(i)))?;
            let (t_ns, bytes, packets) = (t[i], bytes[i], packets[i]);
            let sample = FlowSample { t_ns, side, bytes, packets, tcp };
            cells.data(self, path, i)?.take_flow(stream.at(i), sample);
        }
        Ok(())
    }

    fn queues(&mut self, path: &Path, g: &RowBatch<'_>) -> Result<(), StoreError> {
        let cells = CellColumns::read(g)?;
        let (device, handle, kind) = (g.text("device")?, g.text("handle")?, g.text("kind")?);
        let t = g.time("t_ns")?;
        let (backlog_bytes, backlog_packets) =
            (g.count("backlog_bytes")?, g.count("backlog_packets")?);
        let (drops, marks) = (g.count("drops")?, g.count("marks")?);
        let (packets, bytes) = (g.count("packets")?, g.count("bytes")?);
        for i in 0..g.rows() {
            let point = QueuePoint {
                t_ns: t[i],
                backlog_bytes: backlog_bytes[i],
                backlog_packets: backlog_packets[i],
                drops: drops[i],
                marks: marks[i],
                packets: packets[i],
                bytes: bytes[i],
            };
            let (device, handle, kind) = (device.at(i), handle.at(i), kind.at(i));
            cells.data(self, path, i)?.take_queue(device, handle, kind, point);
        }
        Ok(())
    }
}

/// The columns that say which cell a row belongs to.
struct CellColumns {
    scenario: Texts,
    probe: Texts,
    repeat: Vec<u32>,
}

impl CellColumns {
    fn read(group: &RowBatch<'_>) -> Result<Self, StoreError> {
        let (scenario, probe) = (group.text("scenario")?, group.text("probe")?);
        Ok(Self { scenario, probe, repeat: group.small("repeat")? })
    }

    fn end_of_alike(&self, row: usize, rows: usize, texts: &Texts) -> usize {
        let of = |i: usize| {
            (self.scenario.number(i), self.probe.number(i), self.repeat[i], texts.number(i))
        };
        let first = of(row);
        (row + 1..rows).find(|i| of(*i) != first).unwrap_or(rows)
    }

    fn data<'r>(
        &self,
        reader: &'r mut Reader<'_>,
        path: &Path,
        row: usize,
    ) -> Result<&'r mut CellData, StoreError> {
        let (scenario, probe) = (self.scenario.at(row), self.probe.at(row));
        reader.find(path, scenario, probe, self.repeat[row])
    }
}

fn unknown(g: &RowBatch<'_>, column: &str, value: &str) -> StoreError {
    g.damaged(format!("{value:?} is no {column} that this program knows"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Table, column};

    fn sample(seq: u64) -> EchoSample {
        let status = EchoStatus::Ok;
        EchoSample {
            rtt_ns: Some(20),
            down_ns: Some(-1),
            queued_ns: Some(7),
            ..EchoSample::new(seq as i64, seq, 56, status)
        }
    }

    fn cell() -> CellId {
        CellId { scenario: "s".into(), probe: "p".into(), repeat: 3 }
    }

    fn read<'a>(
        cell: &'a CellId,
        columns: &[TableColumn<TableRow<'a, EchoSample>>],
        samples: &'a [EchoSample],
    ) -> Result<Vec<CellData>, StoreError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(SAMPLES);
        let rows: Vec<_> = samples.iter().map(|s| row(cell, ["ping", "", ""], s)).collect();
        let mut writer = TableWriter::create(&path, "samples", columns)?;
        writer.append(columns, &rows)?;
        writer.commit()?;
        let mut reader = Reader::new([cell].into_iter());
        let rows = samples.len() as u64;
        reader.table(&path, SAMPLES, std::fs::read(&path).expect("the table"), rows)?;
        Ok(reader.finish())
    }

    #[test]
    fn a_columns_name_ends_in_its_unit() {
        for column in Table::ALL.iter().flat_map(|t| t.columns()) {
            let unit = column.name.rsplit_once('_').map(|(_, unit)| unit);
            match unit {
                Some("ns" | "us") => assert_eq!(Some(column.unit), unit, "{}", column.name),
                Some("bytes") => assert_eq!(column.unit, "B", "{}", column.name),
                _ => {}
            }
            assert!(column.meaning.len() > 5, "{}", column.name);
        }
    }

    #[test]
    fn columns_that_are_alike_or_empty_in_one_part_and_not_in_the_next_come_out_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(SAMPLES);
        let mut writer = TableWriter::create(&path, "samples", &sample_columns()).expect("a table");
        let cell = cell();
        let full: Vec<_> = (0..7).map(sample).collect();
        let bare: Vec<_> =
            (7..9).map(|n| EchoSample::new(n, n as u64, 56, EchoStatus::Lost)).collect();
        // A row group of packets without answers, then one of two streams, whose packets take turns.
        let alone = bare.iter().map(|s| row(&cell, ["a", "", ""], s)).collect::<Vec<_>>();
        let turns = full.iter().enumerate();
        let turns =
            turns.map(|(n, s)| row(&cell, [["a", "b"][n % 2], "", ""], s)).collect::<Vec<_>>();
        for rows in [&alone, &turns] {
            writer.append(&sample_columns(), rows).expect("rows");
            writer.flush().expect("a row group");
        }
        writer.commit().expect("the table");
        let mut reader = Reader::new([&cell].into_iter());
        let bytes = std::fs::read(&path).expect("the table");
        reader.table(&path, SAMPLES, bytes, 9).expect("it is read");
        let found = reader.finish().remove(0).echoes;
        let of = |n: usize| full.iter().skip(n).step_by(2).cloned().collect::<Vec<_>>();
        assert_eq!(found[0].samples, [of(0), bare].concat());
        assert_eq!((&*found[1].stream, &found[1].samples), ("b", &of(1)));
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand_and_new_ones_do_no_harm() {
        let samples: Vec<_> = (0..5).map(sample).collect();
        let mut columns: Vec<_> = sample_columns().into_iter().rev().collect();
        columns.insert(
            3,
            TableColumn { about: column("ttl", "", "hops"), value: ColumnValue::Small(|_| 64) },
        );
        let cell = cell();
        let cells = read(&cell, &columns, &samples).expect("a table");
        assert_eq!(cells[0].echoes[0].samples, samples);
    }

    #[test]
    fn a_column_that_is_missing_or_of_another_kind_is_named() {
        let (cell, samples) = (cell(), [sample(1)]);
        let without =
            sample_columns().into_iter().filter(|c| c.about.name != "seq").collect::<Vec<_>>();
        let error = read(&cell, &without, &samples).expect_err("it lacks a column").to_string();
        assert!(error.contains("samples.parquet") && error.contains("no column seq"), "{error}");
        let mut other: Vec<_> =
            sample_columns().into_iter().filter(|c| c.about.name != "seq").collect();
        other.push(TableColumn {
            about: column("seq", "", "number"),
            value: ColumnValue::Text(|_| "one"),
        });
        let error = read(&cell, &other, &samples).expect_err("it is a text").to_string();
        assert!(error.contains("column seq does not hold 64-bit numbers"), "{error}");
    }
}
