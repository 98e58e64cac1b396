//! OpenWrt's /etc/config/sqm.
//!
//! ```text
//!   config queue 'wan'
//!       option interface 'pppoe-wan'
//!       option upload '9500'            kbit/s; 0 leaves that way alone
//!       option linklayer 'atm'          with `overhead`, counted from the IP packet
//! ```

use super::Imported;
use crate::{LinePolicy, LineType, PolicyName};
use quell_units::Rate;
use std::collections::BTreeMap;

type Section = BTreeMap<String, String>;

/// Options that say nothing of the queues.
const SILENT: [&str; 7] = [
    "enabled",
    "interface",
    "debug_logging",
    "verbosity",
    "qdisc_advanced",
    "qdisc_really_really_advanced",
    "linklayer_advanced",
];

const TAKEN: [&str; 9] = [
    "upload",
    "download",
    "qdisc",
    "script",
    "linklayer",
    "overhead",
    "tcMPU",
    "eqdisc_opts",
    "iqdisc_opts",
];

/// Options that ask for what is done anyway, with the value that does.
const ANYWAY: [(&str, &str); 3] =
    [("squash_dscp", "0"), ("squash_ingress", "1"), ("linklayer_adaptation_mechanism", "default")];

/// Words for CAKE that ask for what is done anyway, up and down.
const OWN_WORDS: [(&str, &[&str]); 2] = [
    ("eqdisc_opts", &["nat", "diffserv3", "dual-srchost", "egress"]),
    ("iqdisc_opts", &["nat", "besteffort", "dual-dsthost", "ingress"]),
];

/// An Ethernet header, which an overhead from the IP packet has in it.
const ETHERNET: u16 = 14;

/// Reads the queue of an interface; of the only one where none is named.
pub fn sqm(text: &str, interface: Option<&str>) -> Result<Imported, String> {
    let sections = sections(text)?;
    let all = sections.iter().map(|s| s.get("interface").map_or("?", String::as_str));
    let names: Vec<&str> = all.collect();
    let is_on = |s: &&Section| s.get("enabled").is_some_and(|on| on == "1");
    let wanted: Vec<&Section> = match interface {
        Some(name) => {
            sections.iter().filter(|s| s.get("interface").is_some_and(|i| i == name)).collect()
        }
        None => sections.iter().filter(is_on).collect(),
    };
    let section = match (&wanted[..], interface) {
        ([one], _) => *one,
        ([], Some(name)) => {
            return Err(format!("no queue is for `{name}`; there are: {}", names.join(", ")));
        }
        ([], None) if sections.is_empty() => return Err("no `config queue` is in it".into()),
        ([], None) => {
            return Err(format!("no queue is enabled; name one of: {}", names.join(", ")));
        }
        _ => return Err(format!("several queues are there; name one of: {}", names.join(", "))),
    };
    taken(section)
}

fn taken(section: &Section) -> Result<Imported, String> {
    let mut left_out = Vec::new();
    let get = |key: &str| section.get(key).map(String::as_str);
    let rate = |key: &str| match get(key) {
        None | Some("" | "0") => Ok(None),
        Some(text) => text
            .parse::<u32>()
            .map(|kbit| Some(Rate::from_bps(u64::from(kbit) * 1000)))
            .map_err(|_| format!("option {key} '{text}' is no rate in kbit/s")),
    };
    let policy = policy(get("script").unwrap_or_default(), get("qdisc"), &mut left_out);
    let mut ptm = false;
    for (key, own) in OWN_WORDS {
        let words = get(key).unwrap_or_default().split_whitespace();
        let others: Vec<&str> = words.filter(|word| !own.contains(word)).collect();
        ptm |= others.contains(&"ptm");
        let others: Vec<&str> = others.into_iter().filter(|word| *word != "ptm").collect();
        if !others.is_empty() {
            left_out.push(format!("option {key} '{}'", others.join(" ")));
        }
    }
    let layer = if ptm { Some("ptm") } else { get("linklayer") };
    let (link, overhead) = line(layer, get("overhead"), get("tcMPU"), &mut left_out)?;
    for (key, value) in section {
        let said = SILENT.contains(&key.as_str())
            || TAKEN.contains(&key.as_str())
            || ANYWAY.contains(&(key, value));
        if !said && !value.is_empty() {
            left_out.push(format!("option {key} '{value}'"));
        }
    }
    let (up, down) = (rate("upload")?, rate("download")?);
    if up.is_none() && down.is_none() {
        return Err("neither way has a rate".into());
    }
    let policy = Some(policy);
    Ok(Imported {
        wanted: LinePolicy { policy, up, down, link, overhead, ..LinePolicy::default() },
        left_out,
    })
}

/// The policy that is most like a script of sqm-scripts, and what it has otherwise. A script may be named with its folder, or without its
/// ending.
fn policy(script: &str, qdisc: Option<&str>, left_out: &mut Vec<String>) -> PolicyName {
    let name = script.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".qos").unwrap_or(name);
    let (policy, otherwise) = match (name, qdisc) {
        ("layer_cake", _) | ("", None | Some("cake")) => (PolicyName::Cake, None),
        ("piece_of_cake", _) => (
            PolicyName::Cake,
            Some("one tin for all, as piece_of_cake.qos has; up there are three by DSCP"),
        ),
        ("simple", _) => (PolicyName::Tiers, None),
        ("simplest" | "simplest_tbf", _) => (
            PolicyName::Tiers,
            Some("one tier for all, as simplest.qos has; there are three by DSCP"),
        ),
        // A script of somebody's own around CAKE is nearest to CAKE.
        (_, Some("cake")) => {
            left_out.push(format!("the script {script}, which Quell does not know; CAKE instead"));
            (PolicyName::Cake, None)
        }
        ("", Some(qdisc)) => {
            left_out
                .push(format!("the queue {qdisc} without a script; three tiers by DSCP instead"));
            (PolicyName::Tiers, None)
        }
        _ => {
            left_out.push(format!(
                "the script {script}, which Quell does not know; three tiers by DSCP instead"
            ));
            (PolicyName::Tiers, None)
        }
    };
    left_out.extend(otherwise.map(str::to_owned));
    policy
}

/// What the line is, from the name of its layer and the bytes beyond an IP packet.
fn line(
    layer: Option<&str>,
    overhead: Option<&str>,
    least: Option<&str>,
    left_out: &mut Vec<String>,
) -> Result<(Option<LineType>, u16), String> {
    let bytes: i16 = match overhead {
        None | Some("") => 0,
        Some(text) => text.parse().map_err(|_| format!("option overhead '{text}' is no number"))?,
    };
    let layer = match layer {
        None | Some("" | "none") => return Ok((None, 0)),
        Some(layer) => layer,
    };
    let (atm, ptm) = (matches!(layer, "atm" | "adsl"), layer == "ptm");
    if !atm && !ptm && layer != "ethernet" {
        return Err(format!("option linklayer '{layer}' is none of none, ethernet, atm and adsl"));
    }
    let bytes = u16::try_from(bytes).unwrap_or_else(|_| {
        left_out
            .push(format!("an overhead below zero, '{bytes}'; packets are counted as they are"));
        0
    });
    let least: Option<u16> = match least {
        None | Some("") => None,
        Some(text) => {
            Some(text.parse().map_err(|_| format!("option tcMPU '{text}' is no number"))?)
        }
    };
    let all =
        LineType::all().into_iter().filter(|line| (line.is_atm(), line.is_ptm()) == (atm, ptm));
    let fits = all.filter(|line| least.is_none_or(|least| line.least() == least));
    // The longest header that is no longer; the rest stands beside it.
    let best = fits.filter(|line| line.bytes() <= bytes).max_by_key(|line| line.bytes());
    if let (None, Some(least @ 1..)) = (best, least) {
        left_out.push(format!("option tcMPU '{least}'"));
    }
    // Of a line without cells the least that is counted must be known, since the header's length alone may be another's.
    let known = atm || ptm || least.is_some_and(|least| least > 0);
    match best {
        Some(line) if known || line.bytes() == bytes => Ok((Some(line), bytes - line.bytes())),
        None if atm => {
            let line = LineType::PppoaAtm;
            left_out.push(format!("an overhead of {bytes}; {} has {}", line.name(), line.bytes()));
            Ok((Some(line), 0))
        }
        _ => Ok((None, bytes.saturating_sub(ETHERNET))),
    }
}

fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    let mut of_queue = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = || format!("line {}: `{line}` is no line of a UCI file", number + 1);
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => {}
            comment if comment.starts_with('#') => {}
            "config" => {
                of_queue = rest.split_whitespace().next() == Some("queue");
                if of_queue {
                    sections.push(Section::new());
                }
            }
            "option" | "list" => {
                let rest = rest.trim();
                let (key, value) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
                let value = value.trim();
                let bare = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
                let value = bare('\'').or_else(|| bare('"')).unwrap_or(value);
                if let (true, Some(section)) = (of_queue, sections.last_mut()) {
                    section.insert(key.to_owned(), value.to_owned());
                }
            }
            _ => return Err(wrong()),
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
config queue 'wan'
\toption enabled '1'
\toption interface 'pppoe-wan'
\toption download '47500'
\toption upload '9500'
\toption qdisc 'cake'
\toption script 'piece_of_cake.qos'
\toption linklayer 'atm'
\toption overhead '44'
\toption iqdisc_opts 'nat dual-dsthost wash'

config queue 'guest'
\toption enabled '0'
\toption interface 'br-guest'
\toption upload 1000
";

    #[test]
    fn rates_line_and_policy_are_taken_and_the_rest_is_named() {
        let read = sqm(FILE, None).expect("a queue");
        let wanted = &read.wanted;
        assert_eq!(wanted.policy, Some(PolicyName::Cake));
        let rates = (Some(Rate::from_bps(9_500_000)), Some(Rate::from_bps(47_500_000)));
        assert_eq!(wanted.rates(), rates);
        // PPPoE over ATM has 40.
        assert_eq!((wanted.link, wanted.overhead), (Some(LineType::PppoeAtm), 4));
        let tins = "one tin for all, as piece_of_cake.qos has; up there are three by DSCP";
        assert_eq!(read.left_out, [tins, "option iqdisc_opts 'wash'"]);
    }

    #[test]
    fn each_script_has_a_policy_and_one_that_nobody_knows_is_said() {
        let of = |script: &str, qdisc: Option<&str>| {
            let mut left_out = Vec::new();
            (policy(script, qdisc, &mut left_out), left_out.join("; "))
        };
        for (script, qdisc, wanted) in [
            ("layer_cake.qos", Some("cake"), PolicyName::Cake),
            ("/usr/lib/sqm/layer_cake.qos", None, PolicyName::Cake),
            ("simple.qos", Some("fq_codel"), PolicyName::Tiers),
            // It puts CAKE into each of its three tiers.
            ("simple.qos", Some("cake"), PolicyName::Tiers),
            ("", Some("cake"), PolicyName::Cake),
        ] {
            assert_eq!(of(script, qdisc), (wanted, String::new()), "{script}");
        }
        assert_eq!(of("piece_of_cake", None).0, PolicyName::Cake);
        assert!(of("simplest.qos", None).1.contains("one tier for all"));
        for (qdisc, wanted) in [(Some("cake"), PolicyName::Cake), (None, PolicyName::Tiers)] {
            let (policy, said) = of("mine.qos", qdisc);
            assert_eq!(policy, wanted);
            assert!(said.contains("the script mine.qos, which Quell does not know"), "{said}");
        }
    }

    #[test]
    fn an_interface_may_be_named_and_what_is_not_there_is_told_with_what_is() {
        let guest = sqm(FILE, Some("br-guest")).expect("a queue").wanted;
        assert_eq!(guest.rates(), (Some(Rate::from_bps(1_000_000)), None));
        let said = sqm(FILE, Some("wan")).expect_err("an interface of another name");
        assert!(said.contains("pppoe-wan, br-guest"), "{said}");
        assert!(sqm("", None).expect_err("nothing").contains("no `config queue`"));
        assert!(sqm("config queue\nuploads 3\n", None).expect_err("no word").contains("line 2"));
        let many = FILE.replace("'0'", "'1'");
        assert!(sqm(&many, None).expect_err("two").contains("several queues"));
    }

    #[test]
    fn an_overhead_is_the_same_number_of_bytes_afterwards() {
        let beyond_ip = |layer: &str, bytes: &str| {
            let (link, more) =
                line(Some(layer), Some(bytes), None, &mut Vec::new()).expect("a line");
            link.map_or(ETHERNET, LineType::bytes) + more
        };
        for bytes in ["14", "18", "22", "34", "38", "42", "44"] {
            assert_eq!(beyond_ip("ethernet", bytes).to_string(), bytes);
            assert_eq!(beyond_ip("atm", bytes).to_string(), bytes);
        }
    }
}
