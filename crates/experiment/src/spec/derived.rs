//! Rates that follow a line: `rate = "96% of link dsl.up"`. What the line is set or swept to, they are a part of.
//!
//! The text is changed before it is parsed: each such value by the rate that it is, so that all that takes a rate takes it.

use super::set;
use quell_units::{Rate, Ratio};
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Value;

/// What stands between the share and the line.
const OF: &str = " of link ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoLine {
    pub value: String,
    pub why: String,
}

pub fn resolve(text: &str) -> Result<Cow<'_, str>, NoLine> {
    if !text.contains(OF) {
        return Ok(Cow::Borrowed(text));
    }
    // What is no TOML the parser tells of.
    let Ok(root) = text.parse::<toml::Table>() else { return Ok(Cow::Borrowed(text)) };
    let mut found = BTreeSet::new();
    root.values().for_each(|value| collect(value, &mut found));
    let mut text = text.to_owned();
    for value in found {
        let rate =
            rate(&root, &text, &value).map_err(|why| NoLine { value: value.clone(), why })?;
        for quote in ['"', '\''] {
            let literal = format!("{quote}{value}{quote}");
            text = text.replace(&literal, &format!("\"{}bit\"", rate.bps()));
        }
    }
    Ok(Cow::Owned(text))
}

/// The texts that are such rates, wherever they stand.
fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if parts(text).is_some() => {
            found.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Table(table) => table.values().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// The share, and the line as `dsl.up`; none of a text that is about something else.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (share, line) = text.split_once(OF)?;
    let is_share = share.ends_with('%') && share.starts_with(|c: char| c.is_ascii_digit());
    (is_share && !line.contains(' ')).then_some((share, line))
}

fn rate(root: &toml::Table, text: &str, value: &str) -> Result<Rate, String> {
    let (share, line) = parts(value).ok_or("it is no share of a line")?;
    let ratio: Ratio = share.parse().map_err(|e| format!("{e}"))?;
    let (link, way) = line
        .rsplit_once('.')
        .filter(|(_, way)| ["up", "down"].contains(way))
        .ok_or("write the link and the direction, as in \"96% of link dsl.up\"")?;
    let links = root.get("topology").and_then(|t| t.get("link")).and_then(Value::as_array);
    let names = links.into_iter().flatten().filter_map(|l| l.get("name")?.as_str());
    if !names.clone().any(|name| name == link) {
        let names: Vec<&str> = names.collect();
        return Err(format!("there is no link `{link}`{}", crate::nearest::hint(link, &names)));
    }
    let of_line = |way: &str| set::get(text, &format!("topology.link.{link}.{way}.rate"));
    let whole = of_line(way)
        .or_else(|| of_line("both"))
        .ok_or_else(|| format!("the line {line} has no rate"))?;
    let whole: Rate = whole.parse().map_err(|e| format!("the rate of {line}: {e}"))?;
    let bps = (whole.bps() as f64 * ratio.as_f64() + 1e-6).floor() as u64;
    if bps == 0 { Err(format!("{share} of {whole} is nothing")) } else { Ok(Rate::from_bps(bps)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "dsl"
up   = { rate = "2.5Mbit" }
both = { rate = "8Mbit" }
[[queue]]
queue = { kind = "cake", bandwidth = "96% of link dsl.up" } # 96% of link dsl.up
[[queue]]
policy = { rate = '90.5% of link dsl.down' }
"#;

    #[test]
    fn a_rate_is_its_part_of_the_line_that_it_names() {
        let text = resolve(TEXT).expect("the line is there");
        assert!(text.contains("bandwidth = \"2400000bit\""), "{text}");
        assert!(text.contains("rate = \"7240000bit\""), "both directions alike: {text}");
        assert_eq!(text.lines().count(), TEXT.lines().count(), "lines stay where they are");
        let swept =
            set::apply(TEXT, &["topology.link.dsl.up.rate=10Mbit".into()]).expect("it is there");
        assert!(resolve(&swept).expect("so it is").contains("\"9600000bit\""));
    }

    #[test]
    fn a_line_that_is_not_there_or_has_no_rate_is_told() {
        let why = |from: &str, to: &str| resolve(&TEXT.replace(from, to)).expect_err(to).why;
        assert!(why("link dsl.up\" }", "link dls.up\" }").contains("did you mean `dsl`?"));
        assert!(why("link dsl.up\" }", "link dsl\" }").contains("the direction"));
        assert!(why("both = { rate = \"8Mbit\" }", "").contains("dsl.down has no rate"));
        assert!(why("8Mbit", "fast").contains("the rate of dsl.down"));
    }
}
