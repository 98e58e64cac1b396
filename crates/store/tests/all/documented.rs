//! docs/data.md says of each table what its columns are, in the words that stand in the Parquet files too.

use quell_store::Table;

/// The rows of the table below a heading: name, unit, meaning.
fn rows<'a>(document: &'a str, heading: &str) -> Vec<[&'a str; 3]> {
    let (_, rest) =
        document.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let lines =
        rest.lines().skip_while(|l| !l.starts_with("| `")).take_while(|l| l.starts_with('|'));
    let cells = |line: &'a str| -> [&'a str; 3] {
        let cells: Vec<&str> = line.trim_matches('|').splitn(3, '|').map(str::trim).collect();
        cells.try_into().expect("three cells a row")
    };
    lines.map(cells).collect()
}

#[test]
fn every_column_is_told_with_its_unit_and_meaning() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md");
    let document = std::fs::read_to_string(document).expect("the document is there");
    let common = rows(&document, "every row");
    for table in Table::ALL {
        let told = rows(&document, table.name());
        let columns =
            table.columns().into_iter().map(|c| (format!("`{}`", c.name), c.unit, c.meaning));
        let is_common = |(name, unit, meaning): &(String, &str, &str)| {
            common.contains(&[name.as_str(), *unit, *meaning])
        };
        let wanted: Vec<(String, &str, &str)> = columns.filter(|c| !is_common(c)).collect();
        let told: Vec<(String, &str, &str)> = told
            .into_iter()
            .map(|[name, unit, meaning]| (name.to_owned(), unit, meaning))
            .collect();
        assert_eq!(told, wanted, "{}", table.name());
    }
}
