//! Parquet files from a description of columns: each column has a name and says how its value comes from a row.
//!
//! Readers find columns by name, so that their order may change, and columns may be added, without harm to older programs. Integers are
//! delta-encoded and texts go through a dictionary; there is nothing in a file but the rows and
//! what columns mean, so that equal rows give equal bytes.

use crate::columns::ColumnMeaning;
use crate::error::StoreError;
use crate::files::{AtomicFile, Checksum};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::io;
use std::ops::Index;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most rows in a row group, and that are held as columns at a time: bounds the memory of writing and reading.
const GROUP: usize = 1 << 16;

/// Stands in every file in place of the library's version, which would change the bytes with each update.
const CREATED_BY: &str = "quell";

/// Columns of such rows, a line each: name, kind of value, unit, meaning, and where the value comes from.
#[macro_export]
macro_rules! table_columns {
    ($row:ty => $($name:ident $value:ident $unit:literal $meaning:literal $of:expr;)*) => {
        vec![$($crate::table::TableColumn {
            about: $crate::column(stringify!($name), $unit, $meaning),
            value: $crate::table::ColumnValue::<$row>::$value($of),
        }),*]
    };
}

/// A column: what it means, and where its value comes from.
pub struct TableColumn<R> {
    pub about: ColumnMeaning,
    pub value: ColumnValue<R>,
}

pub enum ColumnValue<R> {
    Text(for<'a> fn(&'a R) -> &'a str),
    Time(fn(&R) -> i64),
    Count(fn(&R) -> u64),
    Small(fn(&R) -> u32),
    OptTime(fn(&R) -> Option<i64>),
    OptCount(fn(&R) -> Option<u64>),
    OptSmall(fn(&R) -> Option<u32>),
}

impl<R> TableColumn<R> {
    fn schema(&self) -> String {
        let kind = match self.value {
            ColumnValue::Text(_) => "required binary {} (UTF8)",
            ColumnValue::Time(_) => "required int64 {}",
            ColumnValue::Count(_) => "required int64 {} (INTEGER(64,false))",
            ColumnValue::Small(_) => "required int32 {} (INTEGER(32,false))",
            ColumnValue::OptTime(_) => "optional int64 {}",
            ColumnValue::OptCount(_) => "optional int64 {} (INTEGER(64,false))",
            ColumnValue::OptSmall(_) => "optional int32 {} (INTEGER(32,false))",
        };
        kind.replace("{}", self.about.name) + ";"
    }

    fn push(&self, rows: &[R], into: &mut Pending) {
        match self.value {
            ColumnValue::Text(of) => rows.iter().for_each(|row| into.text(of(row))),
            ColumnValue::Time(of) => into.longs.extend(rows.iter().map(of)),
            ColumnValue::Count(of) => into.longs.extend(rows.iter().map(|r| of(r) as i64)),
            ColumnValue::Small(of) => into.ints.extend(rows.iter().map(|r| of(r) as i32)),
            ColumnValue::OptTime(of) => {
                into.longs.extend(present(&mut into.levels, rows.iter().map(of)));
            }
            ColumnValue::OptCount(of) => {
                let all = rows.iter().map(|r| of(r).map(|v| v as i64));
                into.longs.extend(present(&mut into.levels, all));
            }
            ColumnValue::OptSmall(of) => {
                let all = rows.iter().map(|r| of(r).map(|v| v as i32));
                into.ints.extend(present(&mut into.levels, all));
            }
        }
    }
}

/// A column's values that wait for their row group, in the one of these that is of its kind, and which rows have one where some may lack it.
#[derive(Default)]
struct Pending {
    texts: Vec<ByteArray>,
    longs: Vec<i64>,
    ints: Vec<i32>,
    levels: Vec<i16>,
}

impl Pending {
    /// Neighbours mostly have the same text: they share one copy of it.
    fn text(&mut self, text: &str) {
        let last = self.texts.last().filter(|last| last.data() == text.as_bytes());
        self.texts.push(last.cloned().unwrap_or_else(|| ByteArray::from(text)));
    }

    fn write(self, column: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = (!self.levels.is_empty()).then_some(&*self.levels);
        let written = match column {
            ColumnWriter::ByteArrayColumnWriter(out) => out.write_batch(&self.texts, levels, None),
            ColumnWriter::Int64ColumnWriter(out) => out.write_batch(&self.longs, levels, None),
            ColumnWriter::Int32ColumnWriter(out) => out.write_batch(&self.ints, levels, None),
            _ => Err(ParquetError::General("no column is of this kind".to_owned())),
        };
        written.map(drop)
    }
}

/// The values that are there; of each row whether it has one goes to `levels`.
fn present<T>(
    levels: &mut Vec<i16>,
    all: impl Iterator<Item = Option<T>>,
) -> impl Iterator<Item = T> {
    all.inspect(|value| levels.push(i16::from(value.is_some()))).flatten()
}

/// A table on its way to the disk; it has its name when it is [committed](TableWriter::commit).
pub struct TableWriter {
    place: PathBuf,
    out: SerializedFileWriter<AtomicFile>,
    rows: u64,
    /// Of each column, and of how many rows.
    pending: Vec<Pending>,
    waiting: usize,
}

impl TableWriter {
    /// Begins a table of these columns that will stand at `place`.
    pub fn create<R>(
        place: &Path,
        name: &str,
        columns: &[TableColumn<R>],
    ) -> Result<Self, StoreError> {
        let fields: String = columns.iter().map(TableColumn::schema).collect();
        let schema = parse_message_type(&format!("message {} {{ {fields} }}", name))
            .map_err(|e| refused(place, e))?;
        let mut properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_key_value_metadata(Some(meanings(columns)))
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        let is_whole = |c: &&TableColumn<R>| !matches!(c.value, ColumnValue::Text(_));
        for column in columns.iter().filter(is_whole) {
            let path = ColumnPath::from(column.about.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = AtomicFile::create(place)?;
        let out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
            .map_err(|e| refused(place, e))?;
        let pending = columns.iter().map(|_| Pending::default()).collect();
        Ok(Self { place: place.to_path_buf(), out, rows: 0, pending, waiting: 0 })
    }

    pub fn append<R>(&mut self, columns: &[TableColumn<R>], rows: &[R]) -> Result<(), StoreError> {
        let mut rows = rows;
        while !rows.is_empty() {
            let (now, later) = rows.split_at(rows.len().min(GROUP - self.waiting));
            columns.iter().zip(&mut self.pending).for_each(|(column, into)| column.push(now, into));
            self.waiting += now.len();
            self.rows += now.len() as u64;
            if self.waiting == GROUP {
                self.flush()?;
            }
            rows = later;
        }
        Ok(())
    }

    /// Writes what waits as a row group.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.waiting) == 0 {
            return Ok(());
        }
        let mut group = || {
            let mut group = self.out.next_row_group()?;
            for pending in &mut self.pending {
                let Some(mut column) = group.next_column()? else { break };
                std::mem::take(pending).write(column.untyped())?;
                column.close()?;
            }
            group.close().map(drop)
        };
        group().map_err(|e| refused(&self.place, e))
    }

    /// Puts the table in its place; its number of rows, size and checksum.
    pub fn commit(mut self) -> Result<(u64, Checksum), StoreError> {
        self.flush()?;
        let file = self.out.into_inner().map_err(|e| refused(&self.place, e))?;
        Ok((self.rows, file.commit()?))
    }
}

/// What each column means, as `quell.rtt_ns` = `ns: round-trip time …`.
fn meanings<R>(columns: &[TableColumn<R>]) -> Vec<KeyValue> {
    let meaning = |column: &ColumnMeaning| {
        let unit =
            if column.unit.is_empty() { String::new() } else { format!("{}: ", column.unit) };
        KeyValue::new(format!("quell.{}", column.name), unit + column.meaning)
    };
    columns.iter().map(|column| meaning(&column.about)).collect()
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

/// Some rows of a row group, as columns in memory.
pub struct RowBatch<'a> {
    path: &'a Path,
    reader: &'a dyn RowGroupReader,
    columns: RefCell<HashMap<String, ColumnReader>>,
    rows: Cell<usize>,
    /// Rows of the row group that were not read before.
    left: Cell<usize>,
}

/// Reads a table, of so many rows where that is known, some at a time, as they stand in the file.
pub fn read(
    path: &Path,
    bytes: Vec<u8>,
    rows: Option<u64>,
    mut each: impl FnMut(&RowBatch<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let reader =
        SerializedFileReader::new(Bytes::from(bytes)).map_err(|e| StoreError::damaged(path, e))?;
    let found: i64 = reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).sum();
    if let Some(rows) = rows
        && u64::try_from(found) != Ok(rows)
    {
        let what = format!("it has {found} rows where the manifest says {rows}");
        return Err(StoreError::damaged(path, what));
    }
    let mut all = || {
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index).map_err(|e| StoreError::damaged(path, e))?;
            let left = Cell::new(usize::try_from(group.metadata().num_rows()).unwrap_or(0));
            let (columns, rows) = (RefCell::default(), Cell::new(0));
            let here = RowBatch { path, reader: group.as_ref(), columns, rows, left };
            while here.left() > 0 {
                here.rows.set(here.left().min(GROUP));
                each(&here)?;
                here.left.set(here.left() - here.rows());
            }
        }
        Ok(())
    };
    // A file whose checksum fits and which is none of Quell's: the library asserts where it should return an error.
    catch_unwind(AssertUnwindSafe(&mut all))
        .unwrap_or_else(|_| Err(StoreError::damaged(path, "its pages can't be read")))
}

impl RowBatch<'_> {
    /// That the file has what can't be.
    pub fn damaged(&self, what: impl ToString) -> StoreError {
        StoreError::damaged(self.path, what)
    }

    pub fn rows(&self) -> usize {
        self.rows.get()
    }

    /// How many rows of its row group it and those behind it have.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    pub fn text(&self, name: &str) -> Result<Texts, StoreError> {
        let broken = || StoreError::damaged(self.path, format!("{name} is not UTF-8"));
        if let Some(only) = self.only(name) {
            let text = String::from_utf8(only).map_err(|_| broken())?;
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
        for bytes in &texts {
            let (at, length) = (bytes.data().as_ptr(), bytes.len());
            let number = match last {
                Some((start, len, number)) if (start, len) == (at, length) => number,
                _ => {
                    let text = bytes.as_utf8().map_err(|_| broken())?;
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

    pub fn time(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        match &mut *self.column(name)? {
            ColumnReader::Int64ColumnReader(reader) => self.required(name, reader),
            _ => Err(self.kind(name, "64-bit numbers")),
        }
    }

    pub fn count(&self, name: &str) -> Result<Vec<u64>, StoreError> {
        Ok(self.time(name)?.into_iter().map(|v| v as u64).collect())
    }

    pub fn small(&self, name: &str) -> Result<Vec<u32>, StoreError> {
        match &mut *self.column(name)? {
            ColumnReader::Int32ColumnReader(reader) => {
                Ok(self.required(name, reader)?.into_iter().map(|v: i32| v as u32).collect())
            }
            _ => Err(self.kind(name, "32-bit numbers")),
        }
    }

    pub fn opt_time(&self, name: &str) -> Result<Optional<i64>, StoreError> {
        self.optional_as(name, |v| v)
    }

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
pub struct Texts {
    known: Vec<String>,
    /// Which of them each row has; empty where all rows have the only one.
    which: Vec<u32>,
}

impl Texts {
    pub fn at(&self, row: usize) -> &str {
        &self.known[self.number(row)]
    }

    pub fn number(&self, row: usize) -> usize {
        if self.which.is_empty() { 0 } else { self.which[row] as usize }
    }

    /// All texts of the column by their numbers, each as what it means; the one that means nothing, where there is one.
    pub fn meanings<T>(&self, of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, &str> {
        self.known.iter().map(|text| of(text).ok_or(text.as_str())).collect()
    }
}

/// A column in which values may be missing.
pub enum Optional<T> {
    Nothing,
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
    use crate::columns::column;

    fn table(rows: &[u64], times: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("table");
        let about = column("n_ns", "ns", "a number");
        let columns = [TableColumn { about, value: ColumnValue::Count(|n: &u64| *n) }];
        let mut writer = TableWriter::create(&place, "samples", &columns).unwrap();
        (0..times).for_each(|_| writer.append(&columns, rows).unwrap());
        writer.commit().unwrap();
        std::fs::read(&place).unwrap()
    }

    fn numbers(bytes: Vec<u8>, rows: u64) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        let each = |group: &RowBatch<'_>| {
            assert!(group.rows() <= GROUP, "{} rows at a time", group.rows());
            found.extend(group.count("n_ns")?);
            Ok(())
        };
        read(Path::new("n.parquet"), bytes, Some(rows), each).map_err(|e| e.to_string())?;
        Ok(found)
    }

    #[test]
    fn a_table_says_itself_what_its_columns_mean() {
        let reader = SerializedFileReader::new(Bytes::from(table(&[1], 1))).unwrap();
        let told = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let of =
            |key: &str| told.iter().find(|kv| kv.key == key).and_then(|kv| kv.value.as_deref());
        assert_eq!((told.len(), of("quell.n_ns")), (1, Some("ns: a number")));
    }

    #[test]
    fn a_table_is_read_some_rows_at_a_time_and_comes_out_whole() {
        let rows: Vec<u64> = (0..100_000).map(|n| n * n % 1009).collect();
        assert_eq!(numbers(table(&rows, 2), 200_000).unwrap(), [&rows[..], &rows[..]].concat());
    }

    #[test]
    fn a_table_with_rows_taken_out_of_it_is_refused() {
        let error = numbers(table(&[1, 2, 3], 1), 5).unwrap_err();
        assert!(error.contains("it has 3 rows where the manifest says 5"), "{error}");
    }
}
