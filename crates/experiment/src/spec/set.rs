//! `--set path=value`: changes any field of an experiment before it is parsed, keeping the rest of the text as it stands.
//!
//! ```text
//!   duration=5s                     a field
//!   topology.link.dsl.up.rate=1Mbit an element of a list, by its name
//!   scenario.0.title=first          … or by its number
//!   expect=[]                       a TOML value
//! ```

use super::error_line::one_line;
use crate::nearest;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--set {}: {}", one_line(.change), one_line(.why))]
pub struct SetError {
    pub change: String,
    pub why: String,
}

/// Most parts of a path. The deepest field that an experiment has is some ten parts down.
const DEEPEST: usize = 32;

pub fn apply(text: &str, changes: &[String]) -> Result<String, SetError> {
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| SetError {
        change: changes.first().cloned().unwrap_or_default(),
        why: format!("the experiment is not TOML: {}", e.message()),
    })?;
    for change in changes {
        let fail = |why: String| SetError { change: change.clone(), why };
        let (path, value) = change.split_once('=').ok_or_else(|| {
            fail("write path=value, as in topology.link.dsl.up.rate=1Mbit".into())
        })?;
        let keys: Vec<&str> = path.trim().split('.').collect();
        if keys.iter().any(|k| k.is_empty()) {
            return Err(fail("the path has an empty part".into()));
        }
        if keys.len() > DEEPEST {
            let start: String = change.chars().take(40).collect();
            let why = format!("no field is {} parts deep", keys.len());
            return Err(SetError { change: format!("{start}…"), why });
        }
        set(document.as_item_mut(), &keys, parse_value(value.trim())).map_err(fail)?;
    }
    Ok(document.to_string())
}

/// The value of a field by its path, as it stands in the text (a text without its quotes); none where there is none.
pub fn get(text: &str, path: &str) -> Option<String> {
    let document: DocumentMut = text.parse().ok()?;
    let mut item = document.as_item().clone();
    for key in path.split('.') {
        item = inside(&item, key)?;
    }
    let value = item.as_value()?;
    Some(value.as_str().map_or_else(|| value.to_string().trim().to_owned(), str::to_owned))
}

/// What is inside of a table, or of a list by name or number.
fn inside(item: &Item, key: &str) -> Option<Item> {
    let in_list = |names: &[String]| position(names, key).ok();
    if let Some(list) = item.as_array_of_tables() {
        let names: Vec<String> = list.iter().map(|t| name_of(t)).collect();
        return list.get(in_list(&names)?).cloned().map(Item::Table);
    }
    if let Some(array) = item.as_array() {
        let name = |v: &Value| v.as_inline_table().map(|t| name_of(t)).unwrap_or_default();
        let names: Vec<String> = array.iter().map(name).collect();
        return array.get(in_list(&names)?).cloned().map(Item::Value);
    }
    item.as_table_like()?.get(key).cloned()
}

/// A TOML value; what is none, as 1Mbit, is a text.
fn parse_value(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

fn set(item: &mut Item, keys: &[&str], value: Value) -> Result<(), String> {
    let (key, rest) = keys.split_first().ok_or("the path is empty")?;
    if let Some(list) = item.as_array_of_tables_mut() {
        let names: Vec<String> = list.iter().map(|t| name_of(t)).collect();
        let index = position(&names, key)?;
        let table = list.get_mut(index).ok_or("no such element")?;
        return in_table(table, key, rest, value);
    }
    if let Some(Value::Array(array)) = item.as_value_mut() {
        let names: Vec<String> = array
            .iter()
            .map(|v| v.as_inline_table().map(|t| name_of(t)).unwrap_or_default())
            .collect();
        let index = position(&names, key)?;
        if rest.is_empty() {
            array.replace(index, value);
            return Ok(());
        }
        let element = array.get_mut(index).ok_or("no such element")?;
        let table =
            element.as_inline_table_mut().ok_or_else(|| format!("`{key}` has no fields"))?;
        return in_table(table, key, rest, value);
    }
    let table = item.as_table_like_mut().ok_or_else(|| {
        format!("`{key}` can't be set: what is before it is a value with nothing inside")
    })?;
    put(table, key, rest, value)
}

/// Inside an element of a list: the rest of the path names its field.
fn in_table(
    table: &mut dyn TableLike,
    key: &str,
    rest: &[&str],
    value: Value,
) -> Result<(), String> {
    let (field, rest) =
        rest.split_first().ok_or_else(|| format!("say which field of `{key}` to set"))?;
    put(table, field, rest, value)
}

fn put(table: &mut dyn TableLike, key: &str, rest: &[&str], value: Value) -> Result<(), String> {
    if rest.is_empty() {
        table.insert(key, Item::Value(value));
        return Ok(());
    }
    if !table.contains_key(key) {
        // A table that was left out altogether, as a link's `up`: the parser says if it must not be there.
        table.insert(key, Item::Table(Table::new()));
    }
    let inside = table.get_mut(key).ok_or_else(|| format!("there is no `{key}`"))?;
    set(inside, rest, value)
}

fn name_of(table: &dyn TableLike) -> String {
    table.get("name").and_then(Item::as_str).unwrap_or_default().to_string()
}

fn position(names: &[String], key: &str) -> Result<usize, String> {
    if let Some(index) = names.iter().position(|n| n == key) {
        return Ok(index);
    }
    match key.parse::<usize>() {
        Ok(index) if index < names.len() => Ok(index),
        _ => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Err(format!("nothing in the list is named `{key}`{}", nearest::hint(key, &names)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "20s" # how long
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "dsl"
ends = ["a", "b"]
up = { rate = "2Mbit" }
[[probe]]
name = "ping"
kind = "ping"
"#;

    fn changed(change: &str) -> Result<String, String> {
        apply(TEXT, &[change.to_string()]).map_err(|e| e.to_string())
    }

    #[test]
    fn what_was_typed_is_told_without_what_steers_a_terminal() {
        for (change, told) in [("\u{1b}[2J", "\\u{1b}[2J"), ("a\r=1", "a\\r")] {
            let why = apply("= [", &[change.to_string()]).expect_err("that is no TOML").to_string();
            assert!(why.contains(told) && !why.contains(char::is_control), "{why:?}");
        }
    }

    #[test]
    fn fields_are_reached_by_name_and_the_rest_stays_as_it_stands() {
        let text = changed("topology.link.dsl.up.rate=1Mbit").expect("it is there");
        assert!(text.contains("rate = \"1Mbit\""), "{text}");
        assert!(text.contains("# how long"), "comments stay");
        assert!(changed("duration=5s").expect("it is there").contains("duration = \"5s\""));
    }

    #[test]
    fn fields_are_read_by_the_paths_that_set_them() {
        let of = |path: &str| get(TEXT, path);
        assert_eq!(of("topology.link.dsl.up.rate").as_deref(), Some("2Mbit"));
        assert_eq!(of("topology.link.0.up.rate").as_deref(), Some("2Mbit"));
        assert_eq!(of("duration").as_deref(), Some("20s"));
        assert_eq!(of("topology.hosts.1").as_deref(), Some("b"));
        for path in ["", "topology", "topology.link.wan.up", "seed", "duration.x"] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn what_was_left_out_can_be_added() {
        let text = changed("topology.link.dsl.down.delay=5ms").expect("it can");
        let table: toml::Table = toml::from_str(&text).expect("still TOML");
        assert_eq!(table["topology"]["link"][0]["down"]["delay"].as_str(), Some("5ms"));
    }

    #[test]
    fn lists_and_numbers_are_toml() {
        let text = changed("expect=[]").expect("it can");
        assert!(text.contains("expect = []"), "{text}");
        assert!(changed("seed=7").expect("it can").contains("seed = 7"));
        assert!(changed("probe.0.size=100").expect("it can").contains("size = 100"));
    }

    #[test]
    fn a_wrong_name_is_told_from_the_right_one() {
        let error = changed("topology.link.dls.up.rate=1Mbit").expect_err("misspelt");
        assert!(error.contains("did you mean `dsl`?"), "{error}");
        assert!(changed("nonsense").is_err());
        assert!(changed("a..b=1").is_err());
        let endless = format!("{}a=1", "a.".repeat(60_000));
        assert!(changed(&endless).expect_err("far too deep").contains("60001 parts deep"));
    }
}
