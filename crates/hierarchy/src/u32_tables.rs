//! u32's hash tables: a filter of one that somebody made is met only by packets that another filter leads there.
//!
//! ```text
//!   800::807  ip protocol tcp  link 3:          tried in its turn
//!     3::800  sport 873        flowid 1:130     below it, and only by what matched it
//! ```

use crate::record::FilterRecord;
use crate::u32_words;

/// The table that a filter is in by its name, where it is none of those that the kernel makes for each priority (`gen_new_htid`,
/// net/sched/cls_u32.c: from 800 on).
pub(crate) fn linked<'a>(kind: &str, name: &'a str) -> Option<&'a str> {
    let table = name.split(':').next().filter(|_| kind == "u32" && name.contains(':'))?;
    u32::from_str_radix(table, 16).is_ok_and(|number| number < 0x800).then_some(table)
}

/// Puts filters of linked tables behind the first filter that leads there, and says what they compare by what that one has compared.
pub(crate) fn settle(filters: &mut Vec<FilterRecord>) {
    let inside = |filter: &FilterRecord| linked(&filter.kind, &filter.name).is_some();
    let (mut below, mut ordered): (Vec<FilterRecord>, Vec<FilterRecord>) =
        filters.drain(..).partition(|filter| inside(filter));
    let mut at = 0;
    while at < ordered.len() {
        let leader = &ordered[at];
        let place = (leader.parent, leader.hook, leader.chain);
        let protocol = u32_words::ip_protocol(&leader.keys);
        if let Some(table) = leader.link.clone() {
            let is_there = |filter: &FilterRecord| {
                (filter.parent, filter.hook, filter.chain) == place
                    && linked(&filter.kind, &filter.name) == Some(table.as_str())
            };
            let (led, rest): (Vec<_>, Vec<_>) = below.into_iter().partition(is_there);
            below = rest;
            let named = led.into_iter().map(|mut filter| {
                if let (Some(protocol), false) = (protocol, filter.keys.is_empty()) {
                    let words = u32_words::words(&filter.protocol, &filter.keys, Some(protocol));
                    let links = filter.matches.drain(..).filter(|m| m.starts_with("then table "));
                    filter.matches = words.into_iter().chain(links).collect();
                }
                filter
            });
            let behind = at + 1;
            ordered.splice(behind..behind, named);
        }
        at += 1;
    }
    // Where nothing that was told leads there.
    ordered.extend(below);
    ordered.sort_by_key(|f| (f.parent, f.hook.map(|hook| hook as u8), f.chain));
    *filters = ordered;
}
