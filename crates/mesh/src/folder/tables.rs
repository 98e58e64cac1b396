//! The tables of a mesh's folder: of what they are made, their columns with unit and meaning, and how a file of one is read and written.

use super::FolderError;
use crate::record::{PathHop, Record, RecordKind, SlotEnd};
use quell_model::Sketch;
use quell_model::rows::EchoSample;
use quell_store::table::{self, RowBatch, TableColumn, TableWriter, Texts};
use quell_store::{OfPacket, StoreError, files, packet_columns, packets, table_columns};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub const MINUTE_NS: i64 = 60_000_000_000;
pub const HOUR_NS: i64 = 3_600_000_000_000;

/// What an agent measured of a peer in a class at a time, or from a time on.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshRow<T> {
    /// Wall time in nanoseconds since 1970, by the agent's clock.
    pub wall_ns: i64,
    pub peer: Arc<str>,
    pub class: Arc<str>,
    /// The number of the agent's record.
    pub number: u64,
    pub what: T,
}

/// What a bulk test found; what its kind does not tell is not there.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BulkResult {
    /// `flow`, `rpm` or `page`.
    pub kind: String,
    /// Of a flow whether its data went down.
    pub down: Option<bool>,
    /// At the receiver.
    pub bytes: Option<u64>,
    /// Of a flow how long it was measured, of a page until it was there.
    pub duration_ns: Option<u64>,
    pub retransmits: Option<u64>,
    /// Round trips a minute under load.
    pub up_rpm: Option<u64>,
    pub down_rpm: Option<u64>,
}

/// So many planned slots in a row that ended alike.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotCount {
    pub count: u64,
    pub end: SlotEnd,
}

/// Records that an agent dropped for want of space; its `wall_ns` is when the collector heard of it, by its own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedRecords(pub u64);

/// The packets of a minute or an hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucketed<const LENGTH_NS: i64>(pub Sketch);

pub type Minutes = Bucketed<MINUTE_NS>;
pub type Hours = Bucketed<HOUR_NS>;

/// A table of the folder: each value is one line of its files or several.
pub trait FolderTable: Sized {
    const NAME: &'static str;
    /// Whether a file holds an hour; else a day.
    const HOURLY: bool;
    type Row;

    fn of(record: &Record, received_ns: i64) -> Vec<(i64, Self)>;
    fn columns() -> Vec<TableColumn<FileRow<Self::Row>>>;
    fn lines(&self, each: &mut dyn FnMut(Self::Row));
    /// The lines of a batch with these times, in their order.
    fn read(batch: &RowBatch<'_>, wall_ns: &[i64]) -> Result<Vec<Self::Row>, StoreError>;
    /// A value of which this is the first line; or nothing, where it goes to the last value, which has the same time, peer, class and number.
    fn put(line: Self::Row, last: Option<&mut Self>) -> Option<Self>;
    /// Adds another value of the same time, peer and class, or gives it back.
    fn add(&mut self, other: Self) -> Option<Self> {
        Some(other)
    }
}

/// A line of a file.
pub struct FileRow<L> {
    row: MeshRow<L>,
    through: u64,
}

impl OfPacket for FileRow<EchoSample> {
    fn packet(&self) -> &EchoSample {
        &self.row.what
    }
}

/// All columns of a table's files: those of a line, those of the table, how far the journal is in it.
fn columns<T: FolderTable>() -> Vec<TableColumn<FileRow<T::Row>>> {
    let mut all = table_columns! { FileRow<T::Row> =>
        wall_ns Time  "ns" "wall time since 1970, UTC, by the agent's clock; of a sketch its beginning" |r| r.row.wall_ns;
        peer    Text  ""   "the agent or target at the other end" |r| &r.row.peer;
        class   Text  ""   "the class of probes in the mesh's file" |r| &r.row.class;
        number  Count ""   "number of the agent's record; of a sketch 0" |r| r.row.number;
    };
    all.extend(T::columns());
    all.extend(table_columns! { FileRow<T::Row> =>
        through Count "" "the last part of the collector's journal that is in this file" |r| r.through;
    });
    all
}

/// Of a table of which each value is a line.
macro_rules! line_by_line {
    () => {
        type Row = Self;

        fn lines(&self, each: &mut dyn FnMut(Self)) {
            each(self.clone());
        }

        fn put(line: Self, _: Option<&mut Self>) -> Option<Self> {
            Some(line)
        }
    };
}

impl FolderTable for EchoSample {
    const NAME: &'static str = "rows";
    const HOURLY: bool = true;
    line_by_line!();

    fn of(record: &Record, _: i64) -> Vec<(i64, Self)> {
        match &record.kind {
            RecordKind::Packets(packets) => packets.iter().map(|p| (p.t_ns, p.clone())).collect(),
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<EchoSample>>> {
        packet_columns()
    }

    fn read(g: &RowBatch<'_>, t: &[i64]) -> Result<Vec<EchoSample>, StoreError> {
        Ok((0..g.rows()).map(packets(g, t)?).collect())
    }
}

/// A bucket of a sketch; its first one carries what the sketch counts beside buckets.
#[derive(Default)]
pub struct BucketLine {
    bucket: Option<u16>,
    packets: u32,
    upto: u64,
    answered: u64,
    counts: Sketch,
}

impl<const LENGTH_NS: i64> FolderTable for Bucketed<LENGTH_NS> {
    const NAME: &'static str = if LENGTH_NS == HOUR_NS { "hours" } else { "minutes" };
    const HOURLY: bool = LENGTH_NS < HOUR_NS;
    type Row = BucketLine;

    fn of(record: &Record, _: i64) -> Vec<(i64, Self)> {
        let begin = |wall_ns: i64| wall_ns.saturating_sub(wall_ns.rem_euclid(LENGTH_NS));
        let empty = |from_ns| Sketch::new(from_ns, LENGTH_NS as u64);
        match &record.kind {
            RecordKind::Packets(packets) => {
                let mut found = BTreeMap::new();
                for packet in packets {
                    let from_ns = begin(packet.t_ns);
                    found.entry(from_ns).or_insert_with(|| empty(from_ns)).record(packet);
                }
                found.into_iter().map(|(from_ns, sketch)| (from_ns, Bucketed(sketch))).collect()
            }
            RecordKind::Thinned(thinned) => {
                let mut sketch = empty(begin(thinned.from_ns));
                sketch.merge(thinned);
                vec![(sketch.from_ns, Bucketed(sketch))]
            }
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<BucketLine>>> {
        table_columns! { FileRow<Self::Row> =>
            bucket         OptSmall ""   "round-trip times that round to 1.008^bucket ns; empty where none was answered" |r| r.row.what.bucket.map(u32::from);
            packets        Count    ""   "answered packets in the bucket" |r| u64::from(r.row.what.packets);
            upto           Count    ""   "answered packets in it and below, of this sketch" |r| r.row.what.upto;
            answered       Count    ""   "answered packets of this sketch, in each of its lines" |r| r.row.what.answered;
            sent           Count    ""   "packets answered or lost; as what follows in the sketch's first line, else 0" |r| r.row.what.counts.sent;
            lost_up        Count    ""   "lost between agent and peer" |r| r.row.what.counts.lost_up;
            lost_down      Count    ""   "lost between peer and agent" |r| r.row.what.counts.lost_down;
            lost_somewhere Count    ""   "lost, the direction is unknown" |r| r.row.what.counts.lost_somewhere;
            unsure         Count    ""   "sent, with an unknown end" |r| r.row.what.counts.unsure;
            min_ns         OptCount "ns" "least round-trip time; in the first line alone" |r| r.row.what.counts.min_ns;
            max_ns         OptCount "ns" "largest, likewise" |r| r.row.what.counts.max_ns;
        }
    }

    fn lines(&self, each: &mut dyn FnMut(BucketLine)) {
        let answered = self.0.buckets.iter().map(|(_, count)| u64::from(*count)).sum();
        let mut counts = Sketch { buckets: Vec::new(), ..self.0.clone() };
        let mut upto = 0;
        for (bucket, packets) in &self.0.buckets {
            upto += u64::from(*packets);
            let counts = std::mem::take(&mut counts);
            each(BucketLine { bucket: Some(*bucket), packets: *packets, upto, answered, counts });
        }
        if answered == 0 {
            each(BucketLine { counts, ..BucketLine::default() });
        }
    }

    fn read(g: &RowBatch<'_>, from: &[i64]) -> Result<Vec<BucketLine>, StoreError> {
        let (bucket, packets) = (g.opt_small("bucket")?, g.count("packets")?);
        let (upto, answered) = (g.count("upto")?, g.count("answered")?);
        let (sent, unsure) = (g.count("sent")?, g.count("unsure")?);
        let (up, down) = (g.count("lost_up")?, g.count("lost_down")?);
        let somewhere = g.count("lost_somewhere")?;
        let (min, max) = (g.opt_count("min_ns")?, g.opt_count("max_ns")?);
        let line = |i: usize| BucketLine {
            bucket: bucket[i].map(|b| b as u16),
            packets: u32::try_from(packets[i]).unwrap_or(u32::MAX),
            upto: upto[i],
            answered: answered[i],
            counts: Sketch {
                from_ns: from[i],
                length_ns: LENGTH_NS as u64,
                sent: sent[i],
                lost_up: up[i],
                lost_down: down[i],
                lost_somewhere: somewhere[i],
                unsure: unsure[i],
                min_ns: min[i],
                max_ns: max[i],
                buckets: Vec::new(),
            },
        };
        Ok((0..g.rows()).map(line).collect())
    }

    fn put(line: BucketLine, last: Option<&mut Self>) -> Option<Self> {
        let bucket = line.bucket.map(|bucket| (bucket, line.packets));
        match last {
            Some(Bucketed(last)) => {
                last.buckets.extend(bucket);
                None
            }
            None => Some(Bucketed(Sketch { buckets: bucket.into_iter().collect(), ..line.counts })),
        }
    }

    fn add(&mut self, other: Self) -> Option<Self> {
        self.0.merge(&other.0);
        None
    }
}

/// A hop of a path; of a path without any, one line with hop 0.
pub struct HopLine {
    hop: u32,
    address: String,
    rtt_ns: Option<u64>,
}

impl FolderTable for Vec<PathHop> {
    const NAME: &'static str = "paths";
    const HOURLY: bool = false;
    type Row = HopLine;

    fn of(record: &Record, _: i64) -> Vec<(i64, Self)> {
        match &record.kind {
            RecordKind::Path { wall_ns, hops } => vec![(*wall_ns, hops.clone())],
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<HopLine>>> {
        table_columns! { FileRow<Self::Row> =>
            hop     Small    ""   "1 is the nearest; 0 is a path without a known hop" |r| r.row.what.hop;
            address Text     ""   "its address; empty where nobody answered" |r| &r.row.what.address;
            rtt_ns  OptCount "ns" "round-trip time to it" |r| r.row.what.rtt_ns;
        }
    }

    fn lines(&self, each: &mut dyn FnMut(HopLine)) {
        for (hop, PathHop { address, rtt_ns }) in (1..).zip(self) {
            let address = address.map(|a| a.to_string()).unwrap_or_default();
            each(HopLine { hop, address, rtt_ns: *rtt_ns });
        }
        if self.is_empty() {
            each(HopLine { hop: 0, address: String::new(), rtt_ns: None });
        }
    }

    fn read(g: &RowBatch<'_>, _: &[i64]) -> Result<Vec<HopLine>, StoreError> {
        let (hop, address, rtt) = (g.small("hop")?, g.text("address")?, g.opt_count("rtt_ns")?);
        let line =
            |i: usize| HopLine { hop: hop[i], address: address.at(i).to_owned(), rtt_ns: rtt[i] };
        Ok((0..g.rows()).map(line).collect())
    }

    fn put(line: HopLine, last: Option<&mut Self>) -> Option<Self> {
        let hop = PathHop { address: line.address.parse().ok(), rtt_ns: line.rtt_ns };
        match last {
            Some(hops) if line.hop > 1 => hops.push(hop),
            _ if line.hop == 0 => return Some(Vec::new()),
            _ => return Some(vec![hop]),
        }
        None
    }
}

impl FolderTable for BulkResult {
    const NAME: &'static str = "bulk";
    const HOURLY: bool = false;
    line_by_line!();

    fn of(record: &Record, _: i64) -> Vec<(i64, Self)> {
        let empty = |kind: &str| BulkResult { kind: kind.to_owned(), ..BulkResult::default() };
        match record.kind {
            RecordKind::Flow { wall_ns, down, bytes, duration_ns, retransmits } => {
                let (bytes, duration_ns) = (Some(bytes), Some(duration_ns));
                let down = Some(down);
                vec![(
                    wall_ns,
                    BulkResult { down, bytes, duration_ns, retransmits, ..empty("flow") },
                )]
            }
            RecordKind::Rpm { wall_ns, down, up } => {
                let [down_rpm, up_rpm] = [down, up].map(|rpm| rpm.map(|rpm| rpm.round() as u64));
                vec![(wall_ns, BulkResult { up_rpm, down_rpm, ..empty("rpm") })]
            }
            RecordKind::Page { wall_ns, loaded_ns, bytes } => {
                let (bytes, duration_ns) = (Some(bytes), Some(loaded_ns));
                vec![(wall_ns, BulkResult { bytes, duration_ns, ..empty("page") })]
            }
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<BulkResult>>> {
        table_columns! { FileRow<Self::Row> =>
            kind        Text     ""      "flow, rpm or page" |r| &r.row.what.kind;
            direction   Text     ""      "of a flow up or down" |r| match r.row.what.down {
                Some(true) => "down",
                Some(false) => "up",
                None => "",
            };
            bytes       OptCount "B"     "payload at the receiver" |r| r.row.what.bytes;
            duration_ns OptCount "ns"    "of a flow how long it was measured, of a page until it was loaded" |r| r.row.what.duration_ns;
            retransmits OptCount ""      "segments sent again; empty where not known" |r| r.row.what.retransmits;
            up_rpm      OptCount "1/min" "round trips a minute while data goes up" |r| r.row.what.up_rpm;
            down_rpm    OptCount "1/min" "round trips a minute while data goes down" |r| r.row.what.down_rpm;
        }
    }

    fn read(g: &RowBatch<'_>, _: &[i64]) -> Result<Vec<BulkResult>, StoreError> {
        let (kind, direction) = (g.text("kind")?, g.text("direction")?);
        let (bytes, duration) = (g.opt_count("bytes")?, g.opt_count("duration_ns")?);
        let retransmits = g.opt_count("retransmits")?;
        let (up, down) = (g.opt_count("up_rpm")?, g.opt_count("down_rpm")?);
        let line = |i: usize| BulkResult {
            kind: kind.at(i).to_owned(),
            down: (!direction.at(i).is_empty()).then(|| direction.at(i) == "down"),
            bytes: bytes[i],
            duration_ns: duration[i],
            retransmits: retransmits[i],
            up_rpm: up[i],
            down_rpm: down[i],
        };
        Ok((0..g.rows()).map(line).collect())
    }
}

impl FolderTable for SlotCount {
    const NAME: &'static str = "slots";
    const HOURLY: bool = false;
    line_by_line!();

    fn of(record: &Record, _: i64) -> Vec<(i64, Self)> {
        match &record.kind {
            RecordKind::Slots { wall_ns, count, end } => {
                vec![(*wall_ns, SlotCount { count: *count, end: end.clone() })]
            }
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<SlotCount>>> {
        table_columns! { FileRow<Self::Row> =>
            slots  Count "" "planned slots in a row that ended so, the first at wall_ns" |r| r.row.what.count;
            end    Text  "" "ok, failed, not-started or unknown (the agent was gone)" |r| match r.row.what.end {
                SlotEnd::Ok => "ok",
                SlotEnd::Failed(_) => "failed",
                SlotEnd::NotStarted(_) => "not-started",
                SlotEnd::Unknown => "unknown",
            };
            reason Text  "" "why, of those that failed or did not start" |r| match &r.row.what.end {
                SlotEnd::Failed(why) | SlotEnd::NotStarted(why) => why,
                SlotEnd::Ok | SlotEnd::Unknown => "",
            };
        }
    }

    fn read(g: &RowBatch<'_>, _: &[i64]) -> Result<Vec<SlotCount>, StoreError> {
        let (count, end, reason) = (g.count("slots")?, g.text("end")?, g.text("reason")?);
        let line = |i: usize| {
            let why = || reason.at(i).to_owned();
            let end = match end.at(i) {
                "ok" => SlotEnd::Ok,
                "failed" => SlotEnd::Failed(why()),
                "not-started" => SlotEnd::NotStarted(why()),
                _ => SlotEnd::Unknown,
            };
            SlotCount { count: count[i], end }
        };
        Ok((0..g.rows()).map(line).collect())
    }
}

impl FolderTable for DroppedRecords {
    const NAME: &'static str = "dropped";
    const HOURLY: bool = false;
    line_by_line!();

    fn of(record: &Record, received_ns: i64) -> Vec<(i64, Self)> {
        match record.kind {
            RecordKind::Dropped { records } => vec![(received_ns, DroppedRecords(records))],
            _ => Vec::new(),
        }
    }

    fn columns() -> Vec<TableColumn<FileRow<DroppedRecords>>> {
        table_columns! { FileRow<Self::Row> =>
            records Count "" "records before this one that the agent had no room for" |r| r.row.what.0;
        }
    }

    fn read(g: &RowBatch<'_>, _: &[i64]) -> Result<Vec<DroppedRecords>, StoreError> {
        Ok(g.count("records")?.into_iter().map(DroppedRecords).collect())
    }
}

/// The rows of these records that belong into the table.
pub fn rows_of<T: FolderTable>(records: &[Record], received_ns: i64) -> Vec<MeshRow<T>> {
    let mut rows = Vec::new();
    for record in records {
        let found = T::of(record, received_ns);
        let (peer, class) = (Arc::<str>::from(&*record.peer), Arc::<str>::from(&*record.class));
        rows.extend(found.into_iter().map(|(wall_ns, what)| {
            let (peer, class) = (peer.clone(), class.clone());
            MeshRow { wall_ns, peer, class, number: record.number, what }
        }));
    }
    rows
}

/// Brings rows into order; what is of one time, peer and class and can be added is one row.
pub fn settle<T: FolderTable>(rows: Vec<MeshRow<T>>) -> Vec<MeshRow<T>> {
    let mut rows = rows;
    rows.sort_by(|a, b| {
        (&a.peer, &a.class, a.wall_ns, a.number).cmp(&(&b.peer, &b.class, b.wall_ns, b.number))
    });
    let mut settled: Vec<MeshRow<T>> = Vec::with_capacity(rows.len());
    for row in rows {
        let head = |r: &MeshRow<T>| (r.wall_ns, r.peer.clone(), r.class.clone());
        match settled.last_mut() {
            Some(last) if head(last) == head(&row) => {
                let MeshRow { wall_ns, peer, class, number, what } = row;
                if let Some(what) = last.what.add(what) {
                    settled.push(MeshRow { wall_ns, peer, class, number, what });
                }
            }
            _ => settled.push(row),
        }
    }
    settled
}

/// A file as it was read.
pub struct TableFile<T> {
    /// The last part of the journal that is in it.
    pub through: u64,
    pub rows: Vec<MeshRow<T>>,
}

/// None where there is no such file.
pub fn read<T: FolderTable>(path: &Path) -> Result<Option<TableFile<T>>, FolderError> {
    let Some(bytes) = files::read(path)? else { return Ok(None) };
    let (mut through, mut rows) = (0, Vec::<MeshRow<T>>::new());
    table::read(path, bytes, None, |g| {
        let (wall, number) = (g.time("wall_ns")?, g.count("number")?);
        let (peer, class) = (g.text("peer")?, g.text("class")?);
        let (peers, classes) = (shared(&peer), shared(&class));
        through = through.max(g.count("through")?.into_iter().max().unwrap_or(0));
        for (i, line) in T::read(g, &wall)?.into_iter().enumerate() {
            let (peer, class) = (&peers[peer.number(i)], &classes[class.number(i)]);
            let head = (wall[i], number[i]);
            let same = |r: &&mut MeshRow<T>| {
                (r.wall_ns, r.number) == head && r.peer == *peer && r.class == *class
            };
            if let Some(what) = T::put(line, rows.last_mut().filter(same).map(|r| &mut r.what)) {
                let (peer, class) = (peer.clone(), class.clone());
                rows.push(MeshRow { wall_ns: head.0, peer, class, number: head.1, what });
            }
        }
        Ok(())
    })?;
    Ok(Some(TableFile { through, rows }))
}

/// Each text of a column once, by its number.
fn shared(texts: &Texts) -> Vec<Arc<str>> {
    texts.meanings(|text| Some(Arc::from(text))).unwrap_or_default()
}

/// Writes a file anew, whole or not at all.
pub fn write<T: FolderTable>(
    path: &Path,
    rows: &[MeshRow<T>],
    through: u64,
) -> Result<(), FolderError> {
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        row.what.lines(&mut |what| {
            let (peer, class) = (row.peer.clone(), row.class.clone());
            let row = MeshRow { wall_ns: row.wall_ns, peer, class, number: row.number, what };
            lines.push(FileRow { row, through });
        });
    }
    let columns = columns::<T>();
    let mut writer = TableWriter::create(path, T::NAME, &columns)?;
    writer.append(&columns, &lines)?;
    writer.commit()?;
    Ok(())
}
