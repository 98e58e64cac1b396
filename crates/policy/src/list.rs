//! Subscribers in a table of their own: what an operator's books print, and where a log keeps thousands.
//!
//! ```text
//!   name,prefixes,up-floor,up-ceiling,down-floor,down-ceiling,group
//!   ann,192.0.2.0/29 2001:db8:1::/48,2Mbit,20Mbit,4Mbit,40Mbit,north
//! ```
//!
//! LibreQoS' ShapedDevices.csv is known by its first column.

use crate::csv::{CsvRow, cell, rows};
use crate::import::{Listed, circuits};
use crate::{Bounds, PrefixText, TwoWaySubscriber};
use quell_units::Rate;
use std::borrow::Cow;
use std::fmt::Write;

const COLUMNS: [&str; 7] =
    ["name", "prefixes", "up-floor", "up-ceiling", "down-floor", "down-ceiling", "group"];

/// The first six must be there.
const NEEDED: usize = 6;

/// Reads a table. Of LibreQoS' a circuit is in the group that has the name of its parent node, if it is one of `groups`.
pub fn read_list(text: &str, groups: &[&str]) -> Result<Listed, String> {
    let rows = rows(text)?;
    let (first, header) = rows.first().ok_or("nothing is in it")?;
    if header.iter().any(|title| title.trim().eq_ignore_ascii_case("Circuit ID")) {
        return circuits(&rows, Some(groups));
    }
    if let Some(other) = header.iter().find(|title| !COLUMNS.contains(&title.trim())) {
        let other = other.trim();
        let hint = quell_units::nearest::hint(other, &COLUMNS);
        return Err(format!(
            "line {first}: no column is `{other}`{hint}; there are {}",
            COLUMNS.join(", ")
        ));
    }
    let place = |name: &&str| header.iter().position(|title| title.trim() == *name);
    let places = COLUMNS.each_ref().map(place);
    let absent = COLUMNS.iter().zip(places).take(NEEDED).find(|(_, place)| place.is_none());
    if let Some((name, _)) = absent {
        return Err(format!("line {first}: there is no column `{name}`"));
    }
    let all = rows[1..].iter().map(|row| subscriber(row, places, header.len()));
    Ok((all.collect::<Result<_, _>>()?, Vec::new()))
}

fn subscriber(
    (line, row): &CsvRow<'_>,
    places: [Option<usize>; 7],
    columns: usize,
) -> Result<TwoWaySubscriber, String> {
    let wrong = |why: String| format!("line {line}: {why}");
    if row.len() > columns {
        return Err(wrong(format!("{} cells in {columns} columns", row.len())));
    }
    let text = |place: Option<usize>| match place.and_then(|place| row.get(place)) {
        Some(Cow::Borrowed(plain)) => plain.trim(),
        Some(Cow::Owned(quoted)) => quoted,
        None => "",
    };
    let [name, prefixes, bounds @ .., group] = places.map(text);
    let prefix = |text: &str| PrefixText::try_from(text.to_owned()).map_err(&wrong);
    let prefixes = prefixes.split_whitespace().map(prefix).collect::<Result<_, _>>()?;
    let rate = |text: &str| {
        text.trim().parse::<Rate>().map_err(|_| wrong(format!("`{text}` is no rate, as 20Mbit")))
    };
    let [up_floor, up_ceiling, down_floor, down_ceiling] = bounds;
    Ok(TwoWaySubscriber {
        name: name.to_owned(),
        prefixes,
        up: Bounds { floor: rate(up_floor)?, ceiling: rate(up_ceiling)? },
        down: Bounds { floor: rate(down_floor)?, ceiling: rate(down_ceiling)? },
        group: (!group.is_empty()).then(|| group.to_owned()),
    })
}

/// The same as a table, which is read again the same.
pub fn write_list(subscribers: &[TwoWaySubscriber]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for one in subscribers {
        let prefixes: Vec<String> = one.prefixes.iter().map(|p| p.0.to_string()).collect();
        let (up, down) = (one.up, one.down);
        let group = one.group.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{}",
            cell(&one.name),
            prefixes.join(" "),
            up.floor,
            up.ceiling,
            down.floor,
            down.ceiling,
            cell(group)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
name,prefixes,down-floor,down-ceiling,up-floor,up-ceiling,group
ann,192.0.2.0/29 2001:db8:1::/48,4Mbit,40Mbit,2Mbit,20Mbit,north
\" Elm St. 9, \"\"Town\"\"\",192.0.2.9,1Mbit,8Mbit,1Mbit,2500kbit,
";

    #[test]
    fn a_table_is_read_and_written_again_the_same() {
        let (read, _) = read_list(TABLE, &[]).expect("subscribers");
        assert_eq!(read[0].up.ceiling, Rate::from_bps(20_000_000));
        assert_eq!((read[0].prefixes.len(), read[0].group.as_deref()), (2, Some("north")));
        assert_eq!(
            (read[1].name.as_str(), read[1].group.as_deref()),
            (" Elm St. 9, \"Town\"", None)
        );
        assert_eq!(read_list(&write_list(&read), &[]).expect("the same").0, read);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let said =
            |from: &str, to: &str| read_list(&TABLE.replace(from, to), &[]).expect_err("nonsense");
        assert_eq!(said("8Mbit,", "fast,"), "line 3: `fast` is no rate, as 20Mbit");
        assert!(said("192.0.2.9,", "192.0.2.999,").starts_with("line 3: "));
        assert!(
            said("up-floor", "up-flor").contains("did you mean `up-floor`"),
            "{}",
            said("up-floor", "up-flor")
        );
        assert_eq!(said(",up-ceiling", ""), "line 1: there is no column `up-ceiling`");
        assert_eq!(said("20Mbit,north", "20Mbit,north,x"), "line 2: 8 cells in 7 columns");
        assert_eq!(read_list("", &[]).expect_err("empty"), "nothing is in it");
    }

    #[test]
    fn circuits_are_in_the_group_of_their_parent_node() {
        let table = "\
Circuit ID,Circuit Name,Parent Node,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps
1,ann,AP_A,192.0.2.1,,1,1,155,20
2,bob,AP_B,192.0.2.2,,1,1,155,20
";
        let (read, left_out) = read_list(table, &["AP_A"]).expect("circuits");
        let groups: Vec<Option<&str>> = read.iter().map(|one| one.group.as_deref()).collect();
        assert_eq!(groups, [Some("AP_A"), None]);
        assert!(left_out.iter().any(|what| what.contains("AP_B")), "{left_out:?}");
    }
}
