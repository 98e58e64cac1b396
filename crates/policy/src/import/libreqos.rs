//! LibreQoS' ShapedDevices.csv: a line a device, several of which may be one circuit.
//!
//! ```text
//!   Circuit ID,Circuit Name,…,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
//! ```

use super::{Imported, Listed};
use crate::csv::{CsvRow, rows};
use crate::subscribers::GROUP_LEVELS;
use crate::{Bounds, LinePolicy, PolicyName, PrefixText, TwoWayGroup, TwoWaySubscriber};
use quell_units::Rate;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Columns that must be there, by their names in the first line.
const COLUMNS: [&str; 8] = [
    "Circuit ID",
    "Circuit Name",
    "IPv4",
    "IPv6",
    "Download Min Mbps",
    "Upload Min Mbps",
    "Download Max Mbps",
    "Upload Max Mbps",
];

/// Reads the circuits as subscribers, and their parent nodes as groups, whose rates are in `network`: what is in network.json. What the line
/// carries stands in no such file.
pub fn libreqos(text: &str, network: Option<&str>) -> Result<Imported, String> {
    let (subscribers, mut left_out) = circuits(&rows(text)?, None)?;
    let mut nodes = BTreeMap::new();
    if let Some(network) = network {
        let top: Value =
            serde_json::from_str(network).map_err(|why| format!("network.json: {why}"))?;
        read_nodes(&top, &mut Vec::new(), &mut nodes)?;
    }
    let mut names: BTreeSet<&str> =
        subscribers.iter().filter_map(|one| one.group.as_deref()).collect();
    // And all that they are in.
    let mut inner: Vec<&str> = names.iter().copied().collect();
    while let Some(name) = inner.pop() {
        let outer = nodes.get(name).and_then(|node| node.within.as_deref());
        inner.extend(outer.filter(|outer| names.insert(outer)));
    }
    let mut groups = Vec::new();
    for name in names {
        let members = subscribers.iter().filter(|one| one.group.as_deref() == Some(name));
        let (up, down) = match nodes.get(name) {
            Some(node) => {
                if let Some(cut) = &node.cut {
                    left_out.push(format!(
                        "that {name} is in {cut}: {GROUP_LEVELS} groups may be within each other"
                    ));
                }
                node.rates
            }
            None => {
                left_out.push(format!(
                    "the rates of {name}, which are in network.json (--network FILE); those of its circuits together"
                ));
                let sum = |of: fn(&TwoWaySubscriber) -> Rate| {
                    let bits = members.clone().map(|one| of(one).bps());
                    Rate::from_bps(bits.fold(0, u64::saturating_add))
                };
                (sum(|one| one.up.ceiling), sum(|one| one.down.ceiling))
            }
        };
        let group = nodes.get(name).and_then(|node| node.within.clone());
        groups.push(TwoWayGroup { name: name.to_owned(), up, down, group });
    }
    let policy = Some(PolicyName::Subscribers);
    let wanted = LinePolicy { policy, subscribers, groups, ..LinePolicy::default() };
    Ok(Imported { wanted, left_out })
}

/// A node of network.json: what it may send and receive, no more than all that it is in; the node that it is in.
struct ParentNode {
    rates: (Rate, Rate),
    within: Option<String>,
    /// That in which it stands, where that is too deep for a group.
    cut: Option<String>,
}

/// Nodes stand in each other, as `children`; `path` are those in which these stand.
fn read_nodes(
    all: &Value,
    path: &mut Vec<(String, (Rate, Rate))>,
    nodes: &mut BTreeMap<String, ParentNode>,
) -> Result<(), String> {
    for (name, node) in all.as_object().into_iter().flatten() {
        let rate = |key: &str| {
            let megabits = match node.get(key) {
                Some(Value::String(text)) => megabits(text),
                Some(number) => megabits(&number.to_string()),
                None => None,
            };
            megabits.ok_or_else(|| format!("network.json: {name} has no rate `{key}` in Mbit/s"))
        };
        let (mut up, mut down) = (rate("uploadBandwidthMbps")?, rate("downloadBandwidthMbps")?);
        if let Some((_, most)) = path.last() {
            (up, down) = (up.min(most.0), down.min(most.1));
        }
        let kept = path.get(..GROUP_LEVELS - 1).unwrap_or(path).last();
        let within = kept.map(|(outer, _)| outer.clone());
        let own = path.last().map(|(outer, _)| outer.clone());
        let cut = own.filter(|own| within.as_ref() != Some(own));
        if let Some(children) = node.get("children") {
            path.push((name.clone(), (up, down)));
            read_nodes(children, path, nodes)?;
            path.pop();
        }
        nodes.insert(name.clone(), ParentNode { rates: (up, down), within, cut });
    }
    Ok(())
}

/// The same of a table; who is below a parent node is in the group of that name, where there is one, or all are.
pub(crate) fn circuits(all: &[CsvRow<'_>], groups: Option<&[&str]>) -> Result<Listed, String> {
    let ((first, header), rows) = all.split_first().ok_or("nothing is in it")?;
    let column = |name: &str| {
        let found = header.iter().position(|title| title.trim().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("line {first}: no column is `{name}`"))
    };
    let columns = COLUMNS.map(column);
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(columns) {
        *place = column?;
    }
    let parent = column("Parent Node").ok();
    let mut circuits: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut subscribers: Vec<TwoWaySubscriber> = Vec::new();
    let (mut left_out, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    for (number, row) in rows {
        let at = |place: usize| row.get(place).map_or("", |cell| cell.trim());
        let [id, name, v4, v6, down_min, up_min, down_max, up_max] = places.map(at);
        let wrong = |why: String| format!("line {number}: {why}");
        let addresses = v4.split(',').chain(v6.split(',')).map(str::trim);
        let prefixes = addresses
            .filter(|text| !text.is_empty())
            .map(|text| PrefixText::try_from(text.to_owned()).map_err(&wrong));
        let prefixes = prefixes.collect::<Result<Vec<_>, _>>()?;
        let rate = |text: &str| {
            megabits(text).ok_or_else(|| wrong(format!("`{text}` is no rate in Mbit/s")))
        };
        let mut bounds = |min: &str, max: &str| {
            let (floor, ceiling) = (rate(min)?, rate(max)?);
            if floor > ceiling {
                left_out.insert(format!("a least rate above the most in line {number}"));
            }
            Ok::<_, String>(Bounds { floor: floor.min(ceiling), ceiling })
        };
        let (up, down) = (bounds(up_min, up_max)?, bounds(down_min, down_max)?);
        let node = parent.map_or("", at);
        let is_group = !node.is_empty() && groups.is_none_or(|groups| groups.contains(&node));
        let group = is_group.then(|| node.to_owned());
        if group.is_none() && !node.is_empty() {
            nodes.insert(node.to_owned());
        }
        if let Some(known) = circuits.get(id).and_then(|at| subscribers.get_mut(*at)) {
            known.prefixes.extend(prefixes);
            if (known.up, known.down) != (up, down) {
                left_out.insert(format!(
                    "other rates of circuit {id} in line {number}; its first count"
                ));
            }
            continue;
        }
        circuits.insert(id.to_owned(), subscribers.len());
        let taken = name.is_empty() || names.contains(name);
        let name = if taken { format!("{name} ({id})") } else { name.to_owned() };
        names.insert(name.clone());
        subscribers.push(TwoWaySubscriber { name, prefixes, up, down, group });
    }
    // A policy without its packets is none.
    subscribers.retain(|one| {
        let is_known = !one.prefixes.is_empty();
        if !is_known {
            left_out.insert(format!("circuit {}, which has no address", one.name));
        }
        is_known
    });
    for title in header.iter().filter(|title| ["MAC", "Comment", "sqm"].contains(&title.trim())) {
        left_out.insert(format!("the column {title}"));
    }
    if subscribers.is_empty() {
        return Err("no circuit is in it".into());
    }
    if let Some(node) = nodes.first() {
        let more = nodes.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        left_out.insert(format!(
            "parent nodes ({node}{more}), whose rates are in network.json; a [[group]] of that name has such"
        ));
    }
    Ok((subscribers, left_out.into_iter().collect()))
}

fn megabits(text: &str) -> Option<Rate> {
    let megabits: f64 = text.parse().ok()?;
    let sane = megabits.is_finite() && (0.0..=1e6).contains(&megabits);
    sane.then(|| Rate::from_bps((megabits * 1e6).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment
Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment
1,\"9 Elm St., Town\",1,Router,AP_A,,\"192.0.2.1, 192.0.2.14\",2001:db8:100::/56,1,1,155,20,
2,10 Elm St.,2,Router,AP_A,,192.0.2.2,,0.5,0.5,2.5,1.0,slow, but fine
2,10 Elm St.,3,Phone,AP_A,,192.0.2.3,,0.5,0.5,2.5,1.0,
";

    #[test]
    fn devices_of_a_circuit_are_one_subscriber() {
        let read = libreqos(FILE, None).expect("circuits");
        let [ann, bob] = &read.wanted.subscribers[..] else { panic!("{read:?}") };
        assert_eq!((ann.name.as_str(), ann.prefixes.len()), ("9 Elm St., Town", 3));
        assert_eq!(bob.prefixes.len(), 2);
        assert_eq!(bob.down.floor, Rate::from_bps(500_000));
        assert_eq!(bob.down.ceiling, Rate::from_bps(2_500_000));
        assert_eq!(ann.up.ceiling, Rate::from_bps(20_000_000));
        assert!(read.left_out.iter().any(|what| what.contains("network.json")), "{read:?}");
    }

    #[test]
    fn what_no_policy_can_hold_is_named_and_the_rest_is_read() {
        let lost = "3,12 Elm St.,4,Router,AP_A,,,,1,1,10,10,\n4,14 Elm St.,5,Router,AP_A,,192.0.2.9,,8,1,5,10,\n";
        let read = libreqos(&format!("{FILE}{lost}"), None).expect("circuits");
        let Bounds { floor, ceiling } = read.wanted.subscribers[2].down;
        assert_eq!((read.wanted.subscribers.len(), floor), (3, ceiling));
        for says in ["circuit 12 Elm St., which has no address", "above the most in line 7"] {
            assert!(read.left_out.iter().any(|what| what.contains(says)), "{:?}", read.left_out);
        }
    }

    #[test]
    fn a_quoted_cell_may_have_the_end_of_a_line_in_it() {
        let file = FILE.replace("9 Elm St., Town", "9 Elm St.\n\"\"Town\"\"").replace('\n', "\r\n");
        let read = libreqos(&file, None).expect("circuits");
        assert_eq!(read.wanted.subscribers[0].name, "9 Elm St.\r\n\"Town\"");
        assert_eq!(read.wanted.subscribers.len(), 2);
        let said =
            libreqos(&file.replace("192.0.2.2,", "192.0.2.256,"), None).expect_err("no address");
        assert!(said.starts_with("line 5: "), "{said}");
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        let said =
            libreqos(&FILE.replace("192.0.2.2,", "192.0.2.256,"), None).expect_err("no address");
        assert!(said.starts_with("line 4: "), "{said}");
        let said =
            libreqos(&FILE.replace("2.5,1.0,slow", "fast,1.0,slow"), None).expect_err("no rate");
        assert!(said.contains("`fast` is no rate"), "{said}");
        assert!(libreqos("a,b\n1,2\n", None).expect_err("no header").contains("`Circuit ID`"));
        assert!(libreqos("", None).is_err());
        let said =
            libreqos(&FILE.replace("2,10 Elm St.,2", "2,\"10 Elm St.,2"), None).expect_err("open");
        assert_eq!(said, "line 4: a quote is not closed");
    }

    #[test]
    fn parent_nodes_are_groups_with_what_they_and_all_above_them_have() {
        let network = r#"{ "Site": { "downloadBandwidthMbps": 400, "uploadBandwidthMbps": 40.5, "children": {
            "AP_A": { "downloadBandwidthMbps": 500, "uploadBandwidthMbps": "30", "type": "AP" } } } }"#;
        let groups = |network: Option<&str>| {
            let read = libreqos(FILE, network).expect("circuits");
            assert!(read.wanted.subscribers.iter().all(|one| one.group.as_deref() == Some("AP_A")));
            let one = |g: &TwoWayGroup| {
                format!("{} {}/{} in {:?}", g.name, g.down, g.up, g.group.as_deref())
            };
            let left_out = read.left_out.join("\n");
            (read.wanted.groups.iter().map(one).collect::<Vec<_>>(), left_out)
        };
        let (told, left_out) = groups(Some(network));
        let site = "Site 400Mbit/40.5Mbit in None";
        assert_eq!(told, ["AP_A 400Mbit/30Mbit in Some(\"Site\")", site]);
        assert!(!left_out.contains("AP_A"), "{left_out}");
        let (told, left_out) = groups(None);
        assert_eq!(told, ["AP_A 157.5Mbit/21Mbit in None"]);
        assert!(left_out.contains("--network"), "{left_out}");
        // Of seven within each other the innermost two stand beside each other.
        let rates = r#""downloadBandwidthMbps": 400, "uploadBandwidthMbps": 40"#;
        let deep = |names: &[&str]| {
            let open = |name: &&str| format!("{{ \"{name}\": {{ {rates}, \"children\": ");
            names.iter().map(open).collect::<String>() + "{}" + &"} }".repeat(names.len())
        };
        let (told, left_out) = groups(Some(&deep(&["a", "b", "c", "d", "e", "f", "AP_A"])));
        assert_eq!((told.len(), &*told[0]), (6, "AP_A 400Mbit/40Mbit in Some(\"e\")"));
        assert!(left_out.contains("that AP_A is in f"), "{left_out}");
        let said = libreqos(FILE, Some("{\"AP_A\": {}}")).expect_err("no rates");
        assert!(said.contains("AP_A has no rate `uploadBandwidthMbps`"), "{said}");
    }
}
