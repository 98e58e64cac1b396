//! Parquet files from a description of columns: each column has a name and says how its value comes from a row.
//!
//! Readers find columns by name, so that their order may change, and columns may be added, without harm to older programs. Integers are
//! delta-encoded and texts go through a dictionary; there is nothing in a file but the rows and
//! what columns mean, so that equal rows give equal bytes.

use crate::columns::{ColumnMeaning, Table};
use crate::error::StoreError;
use crate::files::{AtomicFile, Sum};
use crate::{pages, plausible};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{
    ChunkReader, FileReader, Length, RowGroupReader, SerializedFileReader,
};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::{Index, Range};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::thread::available_parallelism;

/// Most rows in a row group: bounds the memory of writing and reading.
const GROUP: usize = 1 << 20;

/// Stands in every file in place of the library's version, which would change the bytes with each update.
const CREATED_BY: &str = "quell";

/// A column: its name, and how its value comes from a row.
pub(crate) struct Column<R> {
    pub name: &'static str,
    pub value: Value<R>,
}

/// Kind of a column, and its value of a row.
pub(crate) enum Value<R> {
    Text(for<'a> fn(&'a R) -> &'a str),
    Time(fn(&R) -> i64),
    Count(fn(&R) -> u64),
    Small(fn(&R) -> u32),
    OptTime(fn(&R) -> Option<i64>),
    OptCount(fn(&R) -> Option<u64>),
    OptSmall(fn(&R) -> Option<u32>),
}

impl<R> Column<R> {
    fn schema(&self) -> String {
        let kind = match self.value {
            Value::Text(_) => "required binary {} (UTF8)",
            Value::Time(_) => "required int64 {}",
            Value::Count(_) => "required int64 {} (INTEGER(64,false))",
            Value::Small(_) => "required int32 {} (INTEGER(32,false))",
            Value::OptTime(_) => "optional int64 {}",
            Value::OptCount(_) => "optional int64 {} (INTEGER(64,false))",
            Value::OptSmall(_) => "optional int32 {} (INTEGER(32,false))",
        };
        kind.replace("{}", self.name) + ";"
    }
}

/// A table on its way to the disk.
pub(crate) struct TableWriter {
    place: PathBuf,
    out: SerializedFileWriter<AtomicFile>,
    rows: u64,
}

impl TableWriter {
    /// Begins a table of these columns that will stand at `place`.
    pub fn create<R>(
        place: &Path,
        table: Table,
        columns: &[Column<R>],
    ) -> Result<Self, StoreError> {
        let fields: String = columns.iter().map(Column::schema).collect();
        let schema = parse_message_type(&format!("message {} {{ {fields} }}", table.name()))
            .map_err(|e| refused(place, e))?;
        let mut properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_key_value_metadata(Some(meanings(table)))
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for column in columns.iter().filter(|c| !matches!(c.value, Value::Text(_))) {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = AtomicFile::create(place)?;
        let out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
            .map_err(|e| refused(place, e))?;
        Ok(Self { place: place.to_path_buf(), out, rows: 0 })
    }

    /// Adds rows.
    pub fn append<R>(&mut self, columns: &[Column<R>], rows: &[R]) -> Result<(), StoreError> {
        for rows in rows.chunks(GROUP) {
            let mut group = self.out.next_row_group().map_err(|e| refused(&self.place, e))?;
            for column in columns {
                write_column(&mut group, column, rows).map_err(|e| refused(&self.place, e))?;
            }
            group.close().map_err(|e| refused(&self.place, e))?;
            self.rows += rows.len() as u64;
        }
        Ok(())
    }

    /// Puts the table in its place; its number of rows, size and checksum.
    pub fn commit(self) -> Result<(u64, Sum), StoreError> {
        let file = self.out.into_inner().map_err(|e| refused(&self.place, e))?;
        Ok((self.rows, file.commit()?))
    }
}

/// What each column means, as `quell.rtt_ns` = `ns: round-trip time …`.
fn meanings(table: Table) -> Vec<KeyValue> {
    let meaning = |column: &ColumnMeaning| {
        let unit =
            if column.unit.is_empty() { String::new() } else { format!("{}: ", column.unit) };
        KeyValue::new(format!("quell.{}", column.name), unit + column.meaning)
    };
    table.columns().iter().map(meaning).collect()
}

fn write_column<R>(
    group: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    column: &Column<R>,
    rows: &[R],
) -> Result<(), ParquetError> {
    match column.value {
        Value::Text(of) => {
            // Neighbours mostly have the same text: they share one copy of it.
            let mut last: Option<(&str, ByteArray)> = None;
            let values: Vec<ByteArray> = rows
                .iter()
                .map(|row| match &last {
                    Some((text, bytes)) if *text == of(row) => bytes.clone(),
                    _ => {
                        let bytes = ByteArray::from(of(row));
                        last = Some((of(row), bytes.clone()));
                        bytes
                    }
                })
                .collect();
            put::<ByteArrayType>(group, &values, None)
        }
        Value::Time(of) => put::<Int64Type>(group, &values(rows, of), None),
        Value::Count(of) => put::<Int64Type>(group, &values(rows, |r| of(r) as i64), None),
        Value::Small(of) => put::<Int32Type>(group, &values(rows, |r| of(r) as i32), None),
        Value::OptTime(of) => put_optional::<Int64Type, R>(group, rows, of),
        Value::OptCount(of) => {
            put_optional::<Int64Type, R>(group, rows, |r| of(r).map(|v| v as i64))
        }
        Value::OptSmall(of) => {
            put_optional::<Int32Type, R>(group, rows, |r| of(r).map(|v| v as i32))
        }
    }
}

fn values<R, T>(rows: &[R], of: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

fn put_optional<T: DataType, R>(
    group: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    rows: &[R],
    of: impl Fn(&R) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let all: Vec<Option<T::T>> = rows.iter().map(of).collect();
    let levels: Vec<i16> = all.iter().map(|v| i16::from(v.is_some())).collect();
    let present: Vec<T::T> = all.into_iter().flatten().collect();
    put::<T>(group, &present, Some(&levels))
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("more columns than the schema has".to_owned()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// A parquet error while writing is the disk's, as a rule: the kernel's answer is dug out of it.
fn refused(place: &Path, error: ParquetError) -> StoreError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(io) => *io,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    StoreError::Io { doing: "write", path: place.to_path_buf(), source }
}

/// Most rows that are held as columns at a time while a table is read.
const BATCH: usize = 1 << 15;

/// A part of a table in memory: the columns of some rows of a row group.
pub(crate) struct Group<'a> {
    path: &'a Path,
    reader: &'a dyn RowGroupReader,
    /// Readers of columns, where they stand.
    columns: RefCell<HashMap<String, ColumnReader>>,
    rows: Cell<usize>,
    /// Rows of the table before it.
    before: Cell<usize>,
    /// Rows of the row group that were not read before.
    left: Cell<usize>,
}

/// Rows from which on several threads read a table side by side.
const MANY: i64 = 100_000;
/// Most threads that do.
const MOST_READERS: usize = 4;

/// Reads a table, some rows at a time: its row groups, as they stand in the file, into one part or several, which are given in that order. Errors,
/// before anything is made of it, when it has not so many rows, or says that it has more than `alike` which are all alike.
pub(crate) fn read<P: Send>(
    path: &Path,
    file: File,
    rows: u64,
    alike: u64,
    part: impl Fn() -> P + Sync,
    each: impl Fn(&mut P, &Group<'_>) -> Result<(), StoreError> + Sync,
) -> Result<Vec<P>, StoreError> {
    let broken = || StoreError::damaged(path, "its pages can't be read");
    // The file's checksum was right, so it is what a Quell wrote; but a folder that came from elsewhere can hold anything, and the
    // library asserts where it should return an error.
    let read = quietly(|| {
        let length = file.metadata().map_err(StoreError::io("read", path))?.len();
        pages::check_end(path, &file, length)?;
        let file = Arc::new(file);
        let shared = SharedFile { file: Arc::clone(&file), length };
        let reader = SerializedFileReader::new(shared).map_err(|e| StoreError::damaged(path, e))?;
        let found = rows_that_can_be(path, reader.metadata(), length, alike)?;
        if found != rows {
            let what = format!("it has {found} rows where the manifest says {rows}");
            return Err(StoreError::damaged(path, what));
        }
        pages::check(path, &file, reader.metadata())?;
        let some = |groups: Range<usize>| {
            let mut made = part();
            let earlier = &reader.metadata().row_groups()[..groups.start];
            let mut before = earlier.iter().map(|g| g.num_rows() as usize).sum();
            for index in groups {
                let group =
                    reader.get_row_group(index).map_err(|e| StoreError::damaged(path, e))?;
                let left = Cell::new(usize::try_from(group.metadata().num_rows()).unwrap_or(0));
                let (columns, rows) = (RefCell::default(), Cell::new(0));
                let place = Cell::new(before);
                let here =
                    Group { path, reader: group.as_ref(), columns, rows, before: place, left };
                while here.left() > 0 {
                    here.rows.set(here.left().min(BATCH));
                    each(&mut made, &here)?;
                    here.left.set(here.left() - here.rows());
                    here.before.set(here.before.get() + here.rows());
                }
                before = here.before.get();
            }
            Ok(made)
        };
        let ranges = shares(reader.metadata());
        if let [all] = &ranges[..] {
            return Ok(vec![some(all.clone())?]);
        }
        std::thread::scope(|scope| {
            let some = &some;
            let whole = move |range| quietly(|| some(range)).unwrap_or_else(|()| Err(broken()));
            let begin = |range: Range<usize>| scope.spawn(move || whole(range));
            let running: Vec<_> = ranges.into_iter().map(begin).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(broken())))
                .collect()
        })
    });
    read.unwrap_or_else(|()| Err(broken()))
}

thread_local! {
    /// Whether this thread reads what may make the library panic.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Nothing where it panics, of which nobody is told.
fn quietly<T>(read: impl FnOnce() -> T) -> Result<T, ()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !READS.get() {
                usual(info);
            }
        }));
    });
    let before = READS.replace(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    READS.set(before);
    read.map_err(|_| ())
}

/// A file of which each reader says where it reads: the library's own way for files moves the one place that all of a file's handles share, and
/// several threads read it here.
struct SharedFile {
    file: Arc<File>,
    length: u64,
}

/// Reads on from a place.
struct ReadOn {
    file: Arc<File>,
    at: u64,
}

impl Read for ReadOn {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<ReadOn>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(ReadOn { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // What a file says of its own parts may be wrong.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes from {start} on")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The row groups, shared out so that each thread has about as many rows.
fn shares(metadata: &ParquetMetaData) -> Vec<Range<usize>> {
    let groups = metadata.row_groups();
    let rows: i64 = groups.iter().map(RowGroupMetaData::num_rows).sum();
    let threads = match rows < MANY {
        true => 1,
        false => available_parallelism().map_or(1, usize::from).min(MOST_READERS),
    };
    let (mut shares, mut from, mut taken) = (Vec::new(), 0, 0);
    for (index, group) in groups.iter().enumerate() {
        taken += group.num_rows();
        let due = shares.len() as i64 + 1;
        if taken.saturating_mul(threads as i64) >= rows.saturating_mul(due) {
            shares.push(from..index + 1);
            from = index + 1;
        }
    }
    if from < groups.len() || shares.is_empty() {
        shares.push(from..groups.len());
    }
    shares
}

/// How many rows a table says that it has, if it can have so many. A row becomes up to 150 bytes in memory, and rows that are all alike take next to
/// nothing in the file; so many of them nobody measures.
fn rows_that_can_be(
    path: &Path,
    metadata: &ParquetMetaData,
    bytes: u64,
    alike: u64,
) -> Result<u64, StoreError> {
    let mut rows = 0_u64;
    for group in metadata.row_groups() {
        match usize::try_from(group.num_rows()) {
            Ok(count) if count <= GROUP => rows = rows.saturating_add(count as u64),
            _ => {
                let what =
                    format!("a row group of {} rows, where {GROUP} are most", group.num_rows());
                return Err(StoreError::damaged(path, what));
            }
        }
    }
    if rows > alike && rows > bytes {
        let what = format!("it says that its {bytes} bytes hold {rows} rows");
        return Err(StoreError::damaged(path, what));
    }
    Ok(rows)
}

impl Group<'_> {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows.get()
    }

    /// How many rows of its row group it and those behind it have.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    /// The error that one of its rows can't be.
    pub fn wrong(&self, row: usize, why: &str) -> StoreError {
        StoreError::damaged(self.path, format!("row {}: {why}", self.before.get() + row + 1))
    }

    /// A column of names.
    pub fn text(&self, name: &str) -> Result<Texts, StoreError> {
        let broken = || StoreError::damaged(self.path, format!("{name} is not UTF-8"));
        if let Some(only) = self.only(name) {
            let text = String::from_utf8(only).map_err(|_| broken())?;
            plausible::name(name, &text).map_err(|why| self.wrong(0, &why))?;
            return Ok(Texts { known: vec![text], which: Vec::new() });
        }
        let texts = match &mut *self.column(name)? {
            ColumnReader::ByteArrayColumnReader(reader) => self.required(name, reader)?,
            _ => return Err(self.kind(name, "texts")),
        };
        let mut known: Vec<String> = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut which = Vec::with_capacity(texts.len());
        // Rows that follow each other mostly share one text of the column's dictionary.
        let mut last: Option<(*const u8, usize, u32)> = None;
        for (row, bytes) in texts.iter().enumerate() {
            let (at, length) = (bytes.data().as_ptr(), bytes.len());
            let number = match last {
                Some((start, len, number)) if (start, len) == (at, length) => number,
                _ => {
                    let text = bytes.as_utf8().map_err(|_| broken())?;
                    plausible::name(name, text).map_err(|why| self.wrong(row, &why))?;
                    *numbers.entry(text).or_insert_with(|| {
                        known.push(text.to_owned());
                        known.len() as u32 - 1
                    })
                }
            };
            last = Some((at, length, number));
            which.push(number);
        }
        Ok(Texts { known, which })
    }

    /// A column of times.
    pub fn time(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        match &mut *self.column(name)? {
            ColumnReader::Int64ColumnReader(reader) => self.required(name, reader),
            _ => Err(self.kind(name, "64-bit numbers")),
        }
    }

    /// A column of counts.
    pub fn count(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        Ok(self.time(name)?.into_iter().map(|v| v as u64).collect())
    }

    /// A column of small counts.
    pub fn small(&self, name: &str) -> Result<Vec<u32>, StoreError> {
        match &mut *self.column(name)? {
            ColumnReader::Int32ColumnReader(reader) => {
                Ok(self.required(name, reader)?.into_iter().map(|v: i32| v as u32).collect())
            }
            _ => Err(self.kind(name, "32-bit numbers")),
        }
    }

    /// A column of times where there may be none.
    pub fn opt_time(&self, name: &str) -> Result<Optional<i64>, StoreError> {
        self.optional_as(name, |v| v)
    }

    /// A column of counts where there may be none.
    pub fn opt_count(&self, name: &str) -> Result<Optional<u64>, StoreError> {
        self.optional_as(name, |v| v as u64)
    }

    fn optional_as<T>(&self, name: &str, of: fn(i64) -> T) -> Result<Optional<T>, StoreError> {
        if self.is_empty(name) {
            return Ok(Optional::Nothing);
        }
        match &mut *self.column(name)? {
            ColumnReader::Int64ColumnReader(reader) => self.optional(name, reader, of),
            _ => Err(self.kind(name, "64-bit numbers")),
        }
    }

    /// A column of small counts where there may be none.
    pub fn opt_small(&self, name: &str) -> Result<Optional<u32>, StoreError> {
        if self.is_empty(name) {
            return Ok(Optional::Nothing);
        }
        match &mut *self.column(name)? {
            ColumnReader::Int32ColumnReader(reader) => {
                self.optional(name, reader, |v: i32| v as u32)
            }
            _ => Err(self.kind(name, "32-bit numbers")),
        }
    }

    /// A column of counts that earlier versions of the layout don't have: none in each of its rows then.
    pub fn added(&self, name: &str) -> Result<Optional<u64>, StoreError> {
        let schema = self.reader.metadata().schema_descr();
        match schema.columns().iter().any(|c| c.name() == name) {
            true => self.opt_count(name),
            false => Ok(Optional::Nothing),
        }
    }

    /// What the file says of all values of a column in this row group.
    fn statistics(&self, name: &str) -> Option<&Statistics> {
        let columns = self.reader.metadata().columns();
        columns.iter().find(|c| c.column_descr().name() == name)?.statistics()
    }

    /// Whether a column has no value in this row group.
    fn is_empty(&self, name: &str) -> bool {
        let rows = u64::try_from(self.reader.metadata().num_rows()).ok();
        self.statistics(name).is_some_and(|s| s.null_count_opt() == rows)
    }

    /// The bytes that each row of this row group has in a column that has one in each.
    fn only(&self, name: &str) -> Option<Vec<u8>> {
        let said = self.statistics(name)?;
        let (least, most) = (said.min_bytes_opt()?, said.max_bytes_opt()?);
        let is_only = least == most
            && said.min_is_exact()
            && said.max_is_exact()
            && said.null_count_opt().unwrap_or(0) == 0;
        is_only.then(|| least.to_vec())
    }

    /// The reader of a column, which goes on where it stood.
    fn column(&self, name: &str) -> Result<RefMut<'_, ColumnReader>, StoreError> {
        let columns = self.columns.borrow_mut();
        if let Ok(there) = RefMut::filter_map(columns, |c| c.get_mut(name)) {
            return Ok(there);
        }
        let schema = self.reader.metadata().schema_descr();
        let index =
            schema.columns().iter().position(|c| c.name() == name).ok_or_else(|| {
                StoreError::damaged(self.path, format!("it has no column {name}"))
            })?;
        let reader = self.reader.get_column_reader(index);
        let reader = reader.map_err(|e| StoreError::damaged(self.path, e))?;
        Ok(RefMut::map(self.columns.borrow_mut(), |c| c.entry(name.to_owned()).or_insert(reader)))
    }

    fn required<T: DataType>(
        &self,
        name: &str,
        reader: &mut ColumnReaderImpl<T>,
    ) -> Result<Vec<T::T>, StoreError> {
        let (_, values) = self.part(name, reader)?;
        match values.len() == self.rows() {
            true => Ok(values),
            false => Err(StoreError::damaged(self.path, format!("{name} has gaps"))),
        }
    }

    fn optional<T: DataType, V>(
        &self,
        name: &str,
        reader: &mut ColumnReaderImpl<T>,
        of: fn(T::T) -> V,
    ) -> Result<Optional<V>, StoreError> {
        let (levels, values) = self.part(name, reader)?;
        let mut values = values.into_iter().map(of);
        Ok(Optional::Each(match levels.is_empty() {
            // A required column has no levels: every value is there.
            true => values.map(Some).collect(),
            false => levels.iter().map(|&l| if l > 0 { values.next() } else { None }).collect(),
        }))
    }

    /// The next rows of a column: which of them have a value, and the values.
    fn part<T: DataType>(
        &self,
        name: &str,
        reader: &mut ColumnReaderImpl<T>,
    ) -> Result<(Vec<i16>, Vec<T::T>), StoreError> {
        let damaged = |what: &dyn std::fmt::Display| {
            StoreError::damaged(self.path, format!("column {name}: {what}"))
        };
        let (mut levels, mut values) = (Vec::new(), Vec::with_capacity(self.rows()));
        let mut rows = 0;
        while rows < self.rows() {
            let (records, _, _) = reader
                .read_records(self.rows() - rows, Some(&mut levels), None, &mut values)
                .map_err(|e| damaged(&e))?;
            if records == 0 {
                return Err(damaged(&format!("{rows} values for {} rows", self.rows())));
            }
            rows += records;
        }
        Ok((levels, values))
    }

    fn kind(&self, name: &str, wanted: &str) -> StoreError {
        StoreError::damaged(self.path, format!("column {name} does not hold {wanted}"))
    }
}

/// A column of texts: few different ones, as a rule.
pub(crate) struct Texts {
    known: Vec<String>,
    /// Which of them each row has; empty where all rows have the only one.
    which: Vec<u32>,
}

impl Texts {
    /// The text of a row.
    pub fn at(&self, row: usize) -> &str {
        &self.known[self.number(row)]
    }

    /// Which of the column's texts a row has.
    pub fn number(&self, row: usize) -> usize {
        if self.which.is_empty() { 0 } else { self.which[row] as usize }
    }

    /// All texts of the column by their numbers, each as what it means; the one that means nothing, where there is one.
    pub fn meanings<T>(&self, of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, &str> {
        self.known.iter().map(|text| of(text).ok_or(text.as_str())).collect()
    }
}

/// A column in which values may be missing.
pub(crate) enum Optional<T> {
    /// All of them are.
    Nothing,
    /// One a row.
    Each(Vec<Option<T>>),
}

impl<T: Copy> Index<usize> for Optional<T> {
    type Output = Option<T>;

    fn index(&self, row: usize) -> &Option<T> {
        match self {
            Optional::Nothing => &None,
            Optional::Each(values) => &values[row],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one column, with these rows again and again.
    fn table(rows: &[u64], times: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("table");
        let columns = [Column { name: "n", value: Value::Count(|n: &u64| *n) }];
        let mut writer = TableWriter::create(&place, Table::Samples, &columns).unwrap();
        (0..times).for_each(|_| writer.append(&columns, rows).unwrap());
        writer.commit().unwrap();
        std::fs::read(&place).unwrap()
    }

    fn numbers(bytes: Vec<u8>, rows: u64, alike: u64) -> Result<Vec<u64>, String> {
        let each = |found: &mut Vec<u64>, group: &Group<'_>| {
            assert!(group.rows() <= BATCH, "{} rows at a time", group.rows());
            found.extend(group.count("n")?);
            Ok(())
        };
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let parts = read(Path::new("n.parquet"), file, rows, alike, Vec::new, each);
        Ok(parts.map_err(|e| e.to_string())?.concat())
    }

    #[test]
    fn a_table_says_itself_what_its_columns_mean() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &table(&[1], 1)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let told = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let of =
            |key: &str| told.iter().find(|kv| kv.key == key).and_then(|kv| kv.value.as_deref());
        assert_eq!(told.len(), Table::Samples.columns().len());
        let rtt = of("quell.rtt_ns").unwrap();
        assert!(rtt.starts_with("ns: round-trip time"), "{rtt}");
        assert_eq!(of("quell.scenario"), Some("the measurement's scenario"));
    }

    #[test]
    fn a_table_is_read_some_rows_at_a_time_and_comes_out_whole() {
        let rows: Vec<u64> = (0..100_000).map(|n| n * n % 1009).collect();
        assert_eq!(
            numbers(table(&rows, 2), 200_000, 1 << 20).unwrap(),
            [&rows[..], &rows[..]].concat()
        );
    }

    const QUIET: &str = "a_reader_that_panics_says_nothing_but_that_the_table_is_damaged";

    #[test]
    fn a_reader_that_panics_says_nothing_but_that_the_table_is_damaged() {
        const CHILD: &str = "QUELL_TEST_PANICS";
        if std::env::var_os(CHILD).is_some() {
            let rows: Vec<u64> = (0..MANY as u64).collect();
            for (rows, times) in [(&rows[..1], 1), (&rows[..], 2)] {
                let mut file = tempfile::tempfile().unwrap();
                std::io::Write::write_all(&mut file, &table(rows, times)).unwrap();
                let each = |(): &mut (), _: &Group<'_>| panic!("an assertion of the library's");
                let wanted = (rows.len() * times) as u64;
                let error = read(Path::new("n.parquet"), file, wanted, 1 << 20, || (), each);
                let error = error.unwrap_err().to_string();
                assert!(error.contains("its pages can't be read"), "{error}");
            }
            return;
        }
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("table::tests::{QUIET}"), "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && !said.contains("panicked"), "{said}");
    }

    #[test]
    fn a_table_with_rows_taken_out_of_it_is_refused() {
        let error = numbers(table(&[1, 2, 3], 1), 5, 1 << 20).unwrap_err();
        assert!(error.contains("it has 3 rows where the manifest says 5"), "{error}");
    }

    #[test]
    fn twenty_million_rows_in_next_to_no_bytes_are_refused_before_they_are_made() {
        let bytes = table(&vec![7; GROUP], 20);
        assert!(bytes.len() < 1_000_000, "{} bytes", bytes.len());
        let error = numbers(bytes, 20 << 20, 1 << 23).unwrap_err();
        assert!(error.contains("bytes hold 20971520 rows"), "{error}");
    }

    #[test]
    fn a_column_that_is_compressed_as_no_other_is_refused_in_plain_words() {
        let mut bytes = table(&[1, 2, 3], 1);
        // In the column's description behind its path: field 4, its codec, Snappy (1) as a zigzag number.
        let codec = [0x01, b'n', 0x15, 0x02];
        let at = bytes.windows(4).rposition(|part| part == codec).unwrap();
        bytes[at + 3] = 2 << 1;
        let error = numbers(bytes, 3, 1 << 20).unwrap_err();
        assert!(error.contains("damaged: n is compressed in another way than Snappy;"), "{error}");
    }

    #[test]
    fn a_page_that_promises_more_than_it_can_hold_is_refused_before_there_is_room_for_it() {
        // Numbers that the delta encoding can't pack, and Snappy can.
        let rows: Vec<u64> = (0..20_000).map(|n| n * n % 251).collect();
        let mut bytes = table(&rows, 1);
        assert_eq!(numbers(bytes.clone(), 20_000, 1 << 20).unwrap(), rows);
        // After the magic number the first page: its type (a data page, 0), then its size unpacked, in three bytes.
        assert_eq!((&bytes[4..7], bytes[9] < 128), (&[0x15, 0, 0x15][..], true));
        bytes[7..10].copy_from_slice(&[0xfe, 0xff, 0x7f]);
        let error = numbers(bytes, 20_000, 1 << 20).unwrap_err();
        assert!(error.contains("says that it unpacks to 1048575"), "{error}");
    }
}
