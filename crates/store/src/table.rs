//! Parquet files from a description of columns: each column has a name and says how its value comes from a row.
//!
//! Readers find columns by name, so that their order may change, and columns may be added, without harm to older programs. Integers are
//! delta-encoded and texts go through a dictionary; there is nothing in a file but the rows and
//! what columns mean, so that equal rows give equal bytes.

use crate::columns::{ColumnMeaning, Table};
use crate::error::StoreError;
use crate::files::{AtomicFile, Checksum};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::io;
use std::ops::Index;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most rows in a row group: bounds the memory of writing and reading.
const GROUP: usize = 1 << 20;

/// Stands in every file in place of the library's version, which would change the bytes with each update.
const CREATED_BY: &str = "quell";

pub(crate) struct TableColumn<R> {
    pub about: ColumnMeaning,
    pub value: ColumnValue<R>,
}

pub(crate) enum ColumnValue<R> {
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
}

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
        columns: &[TableColumn<R>],
    ) -> Result<Self, StoreError> {
        let fields: String = columns.iter().map(TableColumn::schema).collect();
        let schema = parse_message_type(&format!("message {} {{ {fields} }}", table.name()))
            .map_err(|e| refused(place, e))?;
        let mut properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_key_value_metadata(Some(meanings(table)))
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for column in columns.iter().filter(|c| !matches!(c.value, ColumnValue::Text(_))) {
            let path = ColumnPath::from(column.about.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let file = AtomicFile::create(place)?;
        let out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
            .map_err(|e| refused(place, e))?;
        Ok(Self { place: place.to_path_buf(), out, rows: 0 })
    }

    pub fn append<R>(&mut self, columns: &[TableColumn<R>], rows: &[R]) -> Result<(), StoreError> {
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
    pub fn commit(self) -> Result<(u64, Checksum), StoreError> {
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
    column: &TableColumn<R>,
    rows: &[R],
) -> Result<(), ParquetError> {
    match column.value {
        ColumnValue::Text(of) => {
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
        ColumnValue::Time(of) => put::<Int64Type>(group, &values(rows, of), None),
        ColumnValue::Count(of) => put::<Int64Type>(group, &values(rows, |r| of(r) as i64), None),
        ColumnValue::Small(of) => put::<Int32Type>(group, &values(rows, |r| of(r) as i32), None),
        ColumnValue::OptTime(of) => put_optional::<Int64Type, R>(group, rows, of),
        ColumnValue::OptCount(of) => {
            put_optional::<Int64Type, R>(group, rows, |r| of(r).map(|v| v as i64))
        }
        ColumnValue::OptSmall(of) => {
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

/// Some rows of a row group, as columns in memory.
pub(crate) struct RowBatch<'a> {
    path: &'a Path,
    reader: &'a dyn RowGroupReader,
    columns: RefCell<HashMap<String, ColumnReader>>,
    rows: Cell<usize>,
    /// Rows of the row group that were not read before.
    left: Cell<usize>,
}

/// Reads a table of so many rows, some at a time, as they stand in the file.
pub(crate) fn read(
    path: &Path,
    bytes: Vec<u8>,
    rows: u64,
    mut each: impl FnMut(&RowBatch<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let reader =
        SerializedFileReader::new(Bytes::from(bytes)).map_err(|e| StoreError::damaged(path, e))?;
    let found: i64 = reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).sum();
    if u64::try_from(found) != Ok(rows) {
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
                here.rows.set(here.left().min(BATCH));
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
pub(crate) struct Texts {
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
pub(crate) enum Optional<T> {
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
        let about = column("n", "", "a number");
        let columns = [TableColumn { about, value: ColumnValue::Count(|n: &u64| *n) }];
        let mut writer = TableWriter::create(&place, Table::Samples, &columns).unwrap();
        (0..times).for_each(|_| writer.append(&columns, rows).unwrap());
        writer.commit().unwrap();
        std::fs::read(&place).unwrap()
    }

    fn numbers(bytes: Vec<u8>, rows: u64) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        let each = |group: &RowBatch<'_>| {
            assert!(group.rows() <= BATCH, "{} rows at a time", group.rows());
            found.extend(group.count("n")?);
            Ok(())
        };
        read(Path::new("n.parquet"), bytes, rows, each).map_err(|e| e.to_string())?;
        Ok(found)
    }

    #[test]
    fn a_table_says_itself_what_its_columns_mean() {
        let reader = SerializedFileReader::new(Bytes::from(table(&[1], 1))).unwrap();
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
        assert_eq!(numbers(table(&rows, 2), 200_000).unwrap(), [&rows[..], &rows[..]].concat());
    }

    #[test]
    fn a_table_with_rows_taken_out_of_it_is_refused() {
        let error = numbers(table(&[1, 2, 3], 1), 5).unwrap_err();
        assert!(error.contains("it has 3 rows where the manifest says 5"), "{error}");
    }
}
