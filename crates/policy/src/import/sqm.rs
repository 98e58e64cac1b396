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
use quell_tc::qdisc::Framing;
use quell_units::{Rate, Span};
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
const OWN_WORDS: [&[&str]; 2] = [
    &["nat", "diffserv3", "dual-srchost", "egress"],
    &["nat", "besteffort", "dual-dsthost", "ingress"],
];

/// Words of tc-cake(8) for a line: bytes beyond the IP packet, which add up, the least that is counted, cells.
const LINE_WORDS: [(&str, i16, Option<u16>, Option<Framing>); 18] = [
    ("noatm", 0, None, Some(Framing::NoAtm)),
    ("atm", 0, None, Some(Framing::Atm)),
    ("ptm", 0, None, Some(Framing::Ptm)),
    ("raw", 0, None, Some(Framing::NoAtm)),
    ("conservative", 48, None, Some(Framing::Atm)),
    ("ethernet", 38, Some(84), Some(Framing::NoAtm)),
    ("ether-vlan", 4, None, None),
    ("docsis", 18, Some(64), Some(Framing::NoAtm)),
    ("pppoe-ptm", 30, None, Some(Framing::Ptm)),
    ("bridged-ptm", 22, None, Some(Framing::Ptm)),
    ("pppoe-llcsnap", 40, None, Some(Framing::Atm)),
    ("pppoe-vcmux", 32, None, Some(Framing::Atm)),
    ("pppoa-llc", 14, None, Some(Framing::Atm)),
    ("pppoa-vcmux", 10, None, Some(Framing::Atm)),
    ("bridged-llcsnap", 32, None, Some(Framing::Atm)),
    ("bridged-vcmux", 24, None, Some(Framing::Atm)),
    ("ipoa-llcsnap", 16, None, Some(Framing::Atm)),
    ("ipoa-vcmux", 8, None, Some(Framing::Atm)),
];

/// What `rtt` is by another word (tc-cake(8)), in microseconds.
const RTT_WORDS: [(&str, u64); 7] = [
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
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
    let mut imported = taken(section)?;
    // Of those that were not asked for, one is read that is on.
    for off in sections.iter().filter(|s| !is_on(s) && (interface.is_none() || *s == section)) {
        let name = off.get("interface").map_or("?", String::as_str);
        imported.left_out.push(match off == section {
            true => format!("that the queue of {name} is not enabled"),
            false => format!("the queue of {name}, which is not enabled"),
        });
    }
    Ok(imported)
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
    let line = LineWords::of(get("linklayer"), get("overhead"), get("tcMPU"))?;
    let [up_words, down_words] = [("eqdisc_opts", 0), ("iqdisc_opts", 1)].map(|(key, way)| {
        let mut words = CakeWords { line, ..CakeWords::default() };
        let others = words.read(get(key).unwrap_or_default(), OWN_WORDS[way], policy, way == 0);
        if !others.is_empty() {
            left_out.push(format!("option {key} '{}'", others.join(" ")));
        }
        words
    });
    // Both ways are the same line: what is counted is rather too much than too little.
    let (link, overhead, mpu) = up_words.line.or_more(down_words.line).taken();
    let wash_down =
        down_words.wash || (policy == PolicyName::Cake && get("squash_dscp") == Some("1"));
    for (key, value) in section {
        let said = SILENT.contains(&key.as_str())
            || TAKEN.contains(&key.as_str())
            || ANYWAY.contains(&(key, value))
            || (wash_down && key == "squash_dscp");
        if !said && !value.is_empty() {
            left_out.push(format!("option {key} '{value}'"));
        }
    }
    let (up, down) = (rate("upload")?, rate("download")?);
    if up.is_none() && down.is_none() {
        return Err("neither way has a rate".into());
    }
    let wanted = LinePolicy {
        policy: Some(policy),
        up,
        down,
        link,
        overhead,
        mpu,
        rtt: up_words.rtt.or(down_words.rtt),
        ack_filter: up_words.ack_filter,
        wash_up: up_words.wash,
        wash_down,
        ..LinePolicy::default()
    };
    Ok(Imported { wanted, left_out })
}

/// How packets are counted on a line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct LineWords {
    framing: Option<Framing>,
    /// Bytes beyond the IP packet; none where nothing is said of the line.
    bytes: Option<i16>,
    mpu: Option<u16>,
}

impl LineWords {
    fn of(layer: Option<&str>, overhead: Option<&str>, mpu: Option<&str>) -> Result<Self, String> {
        let framing = match layer {
            None | Some("" | "none") => return Ok(LineWords::default()),
            Some("atm" | "adsl") => Some(Framing::Atm),
            Some("ptm") => Some(Framing::Ptm),
            Some("ethernet") => Some(Framing::NoAtm),
            Some(layer) => {
                return Err(format!(
                    "option linklayer '{layer}' is none of none, ethernet, atm and adsl"
                ));
            }
        };
        let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let bytes = text(overhead).map_or(Ok(0), |text| {
            text.parse().map_err(|_| format!("option overhead '{text}' is no number"))
        })?;
        let mpu = text(mpu)
            .map(|text| text.parse().map_err(|_| format!("option tcMPU '{text}' is no number")));
        Ok(LineWords { framing, bytes: Some(bytes), mpu: mpu.transpose()? })
    }

    fn or_more(self, other: LineWords) -> LineWords {
        let cells = |line: &LineWords| match line.framing {
            Some(Framing::Atm) => 2,
            Some(Framing::Ptm) => 1,
            _ => 0,
        };
        let framing = if cells(&other) > cells(&self) { other.framing } else { self.framing };
        LineWords { framing, bytes: self.bytes.max(other.bytes), mpu: self.mpu.max(other.mpu) }
    }

    /// The kind of line with the longest header that is no longer, what is beyond that, and the least that is counted. Where no kind has so short
    /// a header, the one with the shortest.
    fn taken(self) -> (Option<LineType>, u16, Option<u16>) {
        let Some(bytes) = self.bytes else { return (None, 0, None) };
        let bytes = u16::try_from(bytes).unwrap_or(0);
        let mpu = self.mpu.filter(|mpu| *mpu > 0);
        let (atm, ptm) = (self.framing == Some(Framing::Atm), self.framing == Some(Framing::Ptm));
        let all = LineType::all().into_iter();
        let all = all.filter(|line| (line.is_atm(), line.is_ptm()) == (atm, ptm));
        let fits = |line: &LineType| match self.mpu {
            _ if atm || ptm => true,
            Some(least) => line.least() == least && least > 0,
            // The header's length alone may be another's.
            None => line.bytes() == bytes,
        };
        let shortest = all.clone().min_by_key(|line| line.bytes()).filter(|_| atm || ptm);
        let best = all.filter(fits).filter(|line| line.bytes() <= bytes);
        match best.max_by_key(|line| line.bytes()).or(shortest) {
            Some(line) => {
                let mpu = mpu.filter(|mpu| *mpu != line.least());
                (Some(line), bytes.saturating_sub(line.bytes()), mpu)
            }
            None => (None, bytes.saturating_sub(ETHERNET), mpu),
        }
    }
}

/// What the words for CAKE of one way say.
#[derive(Debug, Clone, Copy, Default)]
struct CakeWords {
    line: LineWords,
    rtt: Option<Span>,
    ack_filter: bool,
    wash: bool,
}

impl CakeWords {
    /// Reads them; what is not taken comes back. Only CAKE has the last three.
    fn read<'a>(
        &mut self,
        text: &'a str,
        own: &[&str],
        policy: PolicyName,
        up: bool,
    ) -> Vec<&'a str> {
        let cake = policy == PolicyName::Cake;
        let mut others = Vec::new();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let row = LINE_WORDS.iter().find(|row| row.0 == word);
            let rtt = RTT_WORDS.iter().find(|row| row.0 == word && cake);
            match (word, row, rtt) {
                (_, Some((_, bytes, mpu, framing)), _) => {
                    let line = &mut self.line;
                    line.bytes = Some(line.bytes.unwrap_or(0).saturating_add(*bytes));
                    line.mpu = mpu.or(line.mpu);
                    line.framing = framing.or(line.framing);
                }
                (_, _, Some((_, us))) => self.rtt = Some(Span::from_micros(*us)),
                ("ack-filter", ..) if cake && up => self.ack_filter = true,
                ("wash", ..) if cake => self.wash = true,
                ("overhead" | "mpu" | "rtt" | "memlimit", ..) => {
                    let value = words.next().unwrap_or_default();
                    if !self.valued(word, value, cake) {
                        others.extend([word, value]);
                    }
                }
                _ if own.contains(&word) => {}
                _ => others.push(word),
            }
        }
        others
    }

    /// A word with a value; whether it is taken. Memory is bounded anyway.
    fn valued(&mut self, word: &str, value: &str, cake: bool) -> bool {
        match word {
            "overhead" => {
                let bytes = value.parse().ok();
                self.line.bytes = bytes.or(self.line.bytes);
                bytes.is_some()
            }
            "mpu" => {
                let mpu = value.parse().ok();
                self.line.mpu = mpu.or(self.line.mpu);
                self.line.bytes = self.line.bytes.or(Some(0));
                mpu.is_some()
            }
            "rtt" if cake => {
                let rtt = value.parse().ok();
                self.rtt = rtt.or(self.rtt);
                rtt.is_some()
            }
            _ => cake && word == "memlimit",
        }
    }
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
        assert!(wanted.wash_down);
        assert_eq!(read.left_out, [tins, "the queue of br-guest, which is not enabled"]);
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
        let guest = sqm(FILE, Some("br-guest")).expect("a queue");
        assert_eq!(guest.wanted.rates(), (Some(Rate::from_bps(1_000_000)), None));
        assert!(guest.left_out.contains(&"that the queue of br-guest is not enabled".into()));
        let said = sqm(FILE, Some("wan")).expect_err("an interface of another name");
        assert!(said.contains("pppoe-wan, br-guest"), "{said}");
        assert!(sqm("", None).expect_err("nothing").contains("no `config queue`"));
        assert!(sqm("config queue\nuploads 3\n", None).expect_err("no word").contains("line 2"));
        let many = FILE.replace("'0'", "'1'");
        assert!(sqm(&many, None).expect_err("two").contains("several queues"));
    }

    /// What a packet costs on a line that is said so: bytes beyond the IP packet, the least, cells.
    fn counted(options: &str) -> (u16, u16, bool, bool) {
        let text = format!("config queue\n\toption enabled 1\n\toption upload 1000\n{options}");
        let wanted = sqm(&text, None).expect("a queue").wanted;
        let bytes = wanted.link.map_or(ETHERNET, LineType::bytes) + wanted.overhead;
        let least = wanted.mpu.unwrap_or(wanted.link.map_or(0, LineType::least));
        let is = |of: fn(LineType) -> bool| wanted.link.is_some_and(of);
        (bytes, least, is(LineType::is_atm), is(LineType::is_ptm))
    }

    #[test]
    fn packets_are_counted_as_said_or_rather_larger() {
        for (layer, overhead, mpu, words, as_counted) in [
            ("atm", "44", "", "", (44, 0, true, false)),
            // As somebody posted it.
            ("atm", "44", "96", "", (44, 96, true, false)),
            ("adsl", "10", "0", "", (14, 0, true, false)),
            ("ethernet", "44", "84", "", (44, 84, false, false)),
            ("ethernet", "22", "64", "", (22, 64, false, false)),
            ("ethernet", "38", "", "", (38, 84, false, false)),
            ("ethernet", "34", "0", "", (34, 0, false, false)),
            ("ethernet", "18", "68", "", (18, 68, false, false)),
            ("ethernet", "-4", "", "", (14, 0, false, false)),
            ("ethernet", "34", "", "ptm", (34, 0, false, true)),
            ("none", "44", "84", "", (14, 0, false, false)),
            ("none", "", "", "docsis", (18, 64, false, false)),
            ("none", "", "", "ethernet ether-vlan", (42, 84, false, false)),
            ("none", "", "", "overhead 44 mpu 84", (44, 84, false, false)),
            ("none", "", "", "atm overhead 8", (14, 0, true, false)),
            ("none", "", "", "pppoe-llcsnap", (40, 0, true, false)),
            ("none", "", "", "conservative", (48, 0, true, false)),
            ("none", "", "", "bridged-ptm ether-vlan", (26, 0, false, true)),
        ] {
            let options = format!(
                "\toption linklayer {layer}\n\toption overhead '{overhead}'\n\toption tcMPU '{mpu}'\n\toption eqdisc_opts '{words}'\n"
            );
            assert_eq!(counted(&options), as_counted, "{options}");
        }
        // What only one way says holds for both.
        assert_eq!(counted("\toption iqdisc_opts 'docsis'\n"), (18, 64, false, false));
    }

    #[test]
    fn words_for_cake_are_taken_where_cake_is() {
        let words = "\toption eqdisc_opts 'docsis ack-filter rtt 30ms nat diffserv3'\n\
                     \toption iqdisc_opts 'docsis regional wash ack-filter nonat'\n";
        let file = |script: &str| {
            let head =
                "config queue\n\toption enabled 1\n\toption upload 9500\n\toption download 85000\n";
            sqm(&format!("{head}\toption script '{script}'\n{words}"), None).expect("a queue")
        };
        let Imported { wanted, left_out } = file("layer_cake.qos");
        assert_eq!(
            (wanted.link, wanted.rtt),
            (Some(LineType::Docsis), Some(Span::from_millis(30)))
        );
        assert_eq!((wanted.ack_filter, wanted.wash_up, wanted.wash_down), (true, false, true));
        assert_eq!(left_out, ["option iqdisc_opts 'ack-filter nonat'"]);
        let tiers = file("simple.qos");
        assert_eq!((tiers.wanted.link, tiers.wanted.rtt), (Some(LineType::Docsis), None));
        assert!(tiers.left_out[0].contains("ack-filter rtt 30ms"), "{:?}", tiers.left_out);
    }
}
