//! Tables as comma-separated values (RFC 4180): the columns of the Parquet files by the same names, empty where there is no value.

use crate::columns::Table;
use crate::run::Run;
use crate::table::{ColumnValue, TableColumn};
use crate::tables::{
    TableRow, flow_columns, flow_rows, queue_columns, queue_rows, sample_columns, sample_rows,
};
use quell_model::CellId;
use std::io::{self, Write};

/// Writes a table of a run, a line of names first; how many rows.
///
/// # Errors
/// Those of `out`.
pub fn csv(run: &Run, table: Table, out: &mut dyn Write) -> io::Result<u64> {
    let names: Vec<&str> = table.columns().iter().map(|c| c.name).collect();
    write!(out, "{}\r\n", names.join(","))?;
    let mut rows = 0;
    for (record, data) in run.iter() {
        let cell = &record.id;
        match table {
            Table::Samples => rows += lines(out, &sample_columns(), sample_rows(cell, data))?,
            Table::Flows => rows += lines(out, &flow_columns(), flow_rows(cell, data))?,
            Table::Queues => rows += lines(out, &queue_columns(), queue_rows(cell, data))?,
            Table::Outputs => {
                for output in &data.outputs {
                    let stderr = if output.stderr { "true" } else { "false" };
                    rows += texts(out, cell, [&output.task, stderr, &output.line])?;
                }
            }
            Table::Facts => {
                for fact in &data.facts {
                    let (when, key) = (fact.when.to_string(), fact.subject.to_string());
                    rows += texts(out, cell, [&when, &key, &fact.value])?;
                }
            }
        }
    }
    Ok(rows)
}

fn lines<'a, S>(
    out: &mut dyn Write,
    columns: &[TableColumn<TableRow<'a, S>>],
    rows: impl Iterator<Item = TableRow<'a, S>>,
) -> io::Result<u64> {
    let mut count = 0;
    for row in rows {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            match column.value {
                ColumnValue::Text(of) => text(out, of(&row))?,
                ColumnValue::Time(of) => write!(out, "{}", of(&row))?,
                ColumnValue::Count(of) => write!(out, "{}", of(&row))?,
                ColumnValue::Small(of) => write!(out, "{}", of(&row))?,
                ColumnValue::OptTime(of) => of(&row).map_or(Ok(()), |v| write!(out, "{v}"))?,
                ColumnValue::OptCount(of) => of(&row).map_or(Ok(()), |v| write!(out, "{v}"))?,
                ColumnValue::OptSmall(of) => of(&row).map_or(Ok(()), |v| write!(out, "{v}"))?,
            }
        }
        out.write_all(b"\r\n")?;
        count += 1;
    }
    Ok(count)
}

fn texts(out: &mut dyn Write, cell: &CellId, values: [&str; 3]) -> io::Result<u64> {
    text(out, &cell.scenario)?;
    out.write_all(b",")?;
    text(out, &cell.probe)?;
    write!(out, ",{}", cell.repeat)?;
    for value in values {
        out.write_all(b",")?;
        text(out, value)?;
    }
    out.write_all(b"\r\n")?;
    Ok(1)
}

/// A text, in quotes where it would end a field; nothing in it commands a terminal, and a spreadsheet takes it for no formula.
fn text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let text = &quell_wire::text::lines(text);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t']) && text.parse::<f64>().is_err();
    if is_formula {
        // As OWASP advises: what begins with an apostrophe is a text.
        return self::text(out, &format!("'{text}"));
    }
    match text.contains(['"', ',', '\n', '\r']) {
        true => write!(out, "\"{}\"", text.replace('"', "\"\"")),
        false => out.write_all(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_stranger_wrote_is_no_command_of_a_terminal_and_no_formula_of_a_spreadsheet() {
        for (given, written) in [
            ("=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\""),
            ("@SUM(1)", "'@SUM(1)"),
            ("-2+3", "'-2+3"),
            ("-2.5", "-2.5"),
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let mut out = Vec::new();
            super::text(&mut out, given).expect("memory takes all bytes");
            assert_eq!(String::from_utf8_lossy(&out), written);
        }
    }
}
