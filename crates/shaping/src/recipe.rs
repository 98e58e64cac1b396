//! `quell shape recipe`: what to paste where Quell will never run, tried in the lab before it is printed.
//!
//! ```text
//!   options ─► trees, as plan has them ─┬─► lab: as it is and shaped ─► comments
//!                                       └─► UCI | networkd's units | commands of ip and tc
//! ```

use crate::persist::escaped;
use crate::{CommandError, command_of, ifb_of, mac_of, open, traits_of, trees};
use quell_act::{Change, Goal, Machine};
use quell_policy::{DeviceTraits, HostsBy, LinePolicy, PolicyName};
use quell_tc::qdisc::{Cake, Framing};
use quell_tc::{Qdisc, Step, Tree};
use quell_units::Rate;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipeTarget {
    Openwrt,
    Networkd,
    Tc,
}

impl RecipeTarget {
    pub fn name(self) -> &'static str {
        match self {
            RecipeTarget::Openwrt => "openwrt",
            RecipeTarget::Networkd => "networkd",
            RecipeTarget::Tc => "tc",
        }
    }

    /// What leads to the internet, where nobody said: OpenWrt's usual name, and the kernel's.
    fn usual_device(self) -> &'static str {
        match self {
            RecipeTarget::Openwrt => "wan",
            RecipeTarget::Networkd | RecipeTarget::Tc => "eth0",
        }
    }
}

pub struct TargetQueues {
    pub device: String,
    pub ifb: String,
    /// The queue of what leaves, and on the way in what leads to the IFB.
    pub own: Tree,
    pub beyond: Option<Tree>,
}

/// One text to paste, with the file that it belongs into.
#[derive(Debug, Clone, Serialize)]
pub struct Piece {
    pub place: String,
    pub text: String,
}

#[derive(Debug, Default)]
pub struct Recipe {
    pub policy: Option<PolicyName>,
    pub device: String,
    pub words: String,
    pub pieces: Vec<Piece>,
    pub said: Vec<String>,
    /// What of it a rehearsal in the lab is without.
    pub not_tried: Option<&'static str>,
}

pub fn cake(tree: &Tree) -> Option<&Cake> {
    match tree.queue.as_ref().map(|queue| &queue.qdisc) {
        Some(Qdisc::Cake(cake)) => Some(cake),
        _ => None,
    }
}

/// A name that means the same in a shell, in UCI and in a unit.
pub fn plain_device(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let fits = (1..16).contains(&text.len()) && !text.starts_with(['-', '.']);
    if fits && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}`: a recipe is for an interface whose name has at most 15 letters, digits, dots, dashes and underscores"
    ))
}

/// What to paste for a policy; of an interface that is not named, for the one that usually leads to the internet there.
pub fn recipe(
    all: &LinePolicy,
    target: RecipeTarget,
    device: Option<&str>,
) -> Result<Recipe, CommandError> {
    if all.tree.is_some() {
        return Err(CommandError::usage(
            "a recipe is made of a policy; of a tree of one's own, `quell shape plan` prints the commands",
        ));
    }
    // A kernel that lacks it is told by itself when the recipe is pasted; no target can load the classifier.
    let policy = all.named().unwrap_or(PolicyName::Cake);
    let name = target.name();
    if target != RecipeTarget::Tc && policy != PolicyName::Cake {
        let why = match target {
            RecipeTarget::Openwrt => {
                "sqm-scripts have their own tiers, which are not the queues that were tried"
            }
            RecipeTarget::Networkd | RecipeTarget::Tc => {
                "systemd-networkd has no filters, so it can't tell packets apart"
            }
        };
        return Err(CommandError::usage(format!(
            "{} can't be said for {name}: {why}; --policy cake can, and --for tc says all",
            policy.name()
        )));
    }
    let named = device;
    let device = device.unwrap_or(target.usual_device()).to_owned();
    if policy == PolicyName::HostFair && all.hosts.is_empty() {
        return Err(CommandError::usage(format!(
            "host-fair that finds its hosts can't be said for {name}: what finds them is a program that Quell loads. Name the hosts \
             with --host, or take --policy cake, which finds them by itself"
        )));
    }
    if policy == PolicyName::Cake && all.found.is_some_and(|found| found.by() == HostsBy::Inside) {
        return Err(CommandError::usage(format!(
            "what is in tunnels can't be distinguished for {name}: what looks into them is a program that Quell loads. Leave --hosts-by out"
        )));
    }
    let traits = traits(target, named)?;
    if all.by_nat(policy) {
        return Err(CommandError::usage(format!(
            "what tells {} apart behind address translation can't be said for {name}: Quell makes a table for it that no command makes. \
             --policy cake looks through translation by itself",
            policy.name()
        )));
    }
    let (own, beyond) = trees(all, policy, traits, &device)?;
    let wish = TargetQueues { ifb: ifb_of(&device), device, own, beyond };
    let mut recipe = match target {
        RecipeTarget::Openwrt => for_openwrt(&wish)?,
        RecipeTarget::Networkd => for_networkd(&wish)?,
        RecipeTarget::Tc => for_tc(&wish)?,
    };
    if traits.tracked && all.names_ipv4(policy) {
        recipe.said.push(
            "(where addresses are translated on its way out, IPv4 packets have all the router's address there, and count as all others'; \
             --policy cake looks through that)"
                .into(),
        );
    }
    if all.follow.is_some() {
        recipe.said.push(
            "the rates stay at the floors: to follow a line takes `quell shape follow`, for which there are no words here"
                .into(),
        );
    }
    if named.is_none() {
        recipe.said.insert(
            0,
            format!(
                "{} is taken for the interface that leads to the internet there; --dev names another",
                wish.device
            ),
        );
    }
    recipe.policy = Some(policy);
    recipe.not_tried = not_tried(&wish);
    recipe.words = all.words(policy);
    recipe.device = wish.device;
    Ok(recipe)
}

/// What the interface is like: this machine's, where it has one of that name. Elsewhere it is that of a router, which translates addresses.
fn traits(target: RecipeTarget, device: Option<&str>) -> Result<DeviceTraits, CommandError> {
    let elsewhere = DeviceTraits { headless: false, tracked: true };
    match device {
        Some(device) if target != RecipeTarget::Openwrt => {
            let now = open()?.read(&Goal::default()).map_err(CommandError::system)?;
            Ok(now.links.get(device).map_or(elsewhere, traits_of))
        }
        _ => Ok(elsewhere),
    }
}

/// What of the recipe the lab's queues were without.
fn not_tried(wish: &TargetQueues) -> Option<&'static str> {
    let nat = |tree: &Tree| cake(tree).is_some_and(|cake| cake.nat == Some(true));
    let any = nat(&wish.own) || wish.beyond.as_ref().is_some_and(nat);
    any.then_some("(there without CAKE's `nat`, since nobody translates addresses in the lab)")
}

// A shell: those commands that `quell shape plan` prints, where nothing is there yet.

fn for_tc(wish: &TargetQueues) -> Result<Recipe, CommandError> {
    let TargetQueues { device, ifb, own, beyond } = wish;
    let mut lines = Vec::new();
    let mut off = vec![format!("tc qdisc del dev {device} root")];
    if let Some(tree) = beyond {
        let mac = mac_of(device);
        lines.push(command_of(&Change::MakeIfb { name: ifb.clone(), mac, index: None }));
        lines.extend(tc_commands(tree, ifb)?);
        off.push(format!("tc qdisc del dev {device} ingress"));
        off.push(format!("ip link del {ifb}"));
    }
    if own.queue.is_none() {
        off.remove(0);
    }
    lines.extend(tc_commands(own, device)?);
    let mut said = vec!["as root; gone after a reboot, or by these:".to_owned()];
    said.extend(off.iter().map(|line| format!("  {line}")));
    if cake(own).or(beyond.as_ref().and_then(cake)).is_some() {
        said.push(
            "a kernel that refuses `nat` tracks no connections: leave the word out there".into(),
        );
    }
    if looks_behind_tags(own) || beyond.as_ref().is_some_and(looks_behind_tags) {
        said.push("a packet with a VLAN tag is one of all others here: tc has no words for the addresses behind it".into());
    }
    Ok(Recipe {
        pieces: vec![Piece { place: "a shell".into(), text: lines.join("\n") + "\n" }],
        said,
        ..Recipe::default()
    })
}

/// Whether Quell's own queues look further than commands can say.
fn looks_behind_tags(tree: &Tree) -> bool {
    let steps = tree.plan().map(|plan| plan.steps).unwrap_or_default();
    steps.iter().any(|step| match step {
        Step::Filter { filter, .. } => filter.family_behind_tags().is_some(),
        _ => false,
    })
}

fn tc_commands(tree: &Tree, device: &str) -> Result<Vec<String>, CommandError> {
    let plan = tree.plan().map_err(CommandError::usage)?;
    Ok(quell_tc::commands(&plan, device))
}

// systemd: systemd.network(5), systemd.netdev(5), systemd.service(5). networkd has no filters and no word for `ingress` of CAKE: a service calls tc.

fn for_networkd(wish: &TargetQueues) -> Result<Recipe, CommandError> {
    let TargetQueues { device, ifb, own, beyond } = wish;
    let mut pieces = Vec::new();
    let mut said = Vec::new();
    if let Some(cake) = cake(own) {
        let place = format!("/etc/systemd/network/FILE.d/shape.conf, for {device}'s .network FILE");
        pieces.push(Piece { place, text: section(cake) });
        said.push(format!(
            "`networkctl status {device}` names FILE; without one networkd leaves {device} alone"
        ));
    }
    if let Some(tree) = beyond {
        let netdev = format!("[NetDev]\nName={ifb}\nKind=ifb\n");
        let place = format!("/etc/systemd/network/25-{ifb}.netdev");
        pieces.push(Piece { place, text: netdev });
        let place = format!("/etc/systemd/system/shape-{device}.service");
        pieces.push(Piece { place, text: service(wish, tree)? });
        said.push(format!(
            "networkd makes {ifb} but can't feed it, having no filters, nor say of CAKE that it is"
        ));
        said.push("behind the line (`ingress`): the service does both with tc".into());
    }
    said.push("then: networkctl reload".into());
    if wish.own.queue.is_some() {
        said.push(format!("      networkctl reconfigure {device}"));
    }
    if beyond.is_some() {
        said.push(format!(
            "      systemctl daemon-reload && systemctl enable --now shape-{device}.service"
        ));
    }
    Ok(Recipe { pieces, said, ..Recipe::default() })
}

fn section(cake: &Cake) -> String {
    let Cake { bandwidth, nat, framing, overhead, mpu, rtt, ack_filter, wash, .. } = cake;
    let mut lines = vec!["[CAKE]".to_owned(), "Handle=1".to_owned()];
    lines.extend(bandwidth.map(|rate| format!("Bandwidth={}", bits(rate))));
    // What leaves has three tins, and is told by its source.
    lines.push("PriorityQueueingPreset=diffserv3\nFlowIsolationMode=dual-src-host".to_owned());
    lines.extend(nat.map(|nat| format!("NAT={}", if nat { "yes" } else { "no" })));
    lines.extend(overhead.map(|bytes| format!("OverheadBytes={bytes}")));
    lines.extend(mpu.map(|bytes| format!("MPUBytes={bytes}")));
    lines.extend(rtt.map(|rtt| format!("RTTSec={}us", rtt.nanos() / 1000)));
    lines.extend(ack_filter.map(|_| "AckFilter=yes".to_owned()));
    lines.extend(wash.map(|_| "Wash=yes".to_owned()));
    lines.extend(match framing {
        Some(Framing::Atm) => Some("CompensationMode=atm".to_owned()),
        Some(Framing::Ptm) => Some("CompensationMode=ptm".to_owned()),
        _ => None,
    });
    lines.join("\n") + "\n"
}

/// Networkd's letters are powers of 1000.
fn bits(rate: Rate) -> String {
    match rate.bps() {
        bps if bps % 1000 == 0 => format!("{}K", bps / 1000),
        bps => bps.to_string(),
    }
}

/// What networkd can't: the IFB's queue, and all that comes sent there.
fn service(wish: &TargetQueues, beyond: &Tree) -> Result<String, CommandError> {
    let TargetQueues { device, ifb, own, .. } = wish;
    let unit = |name: &str| format!("sys-subsystem-net-devices-{}.device", escaped(name));
    let (first, second) = (unit(device), unit(ifb));
    let way_in = Tree { ingress: own.ingress.clone(), ..Tree::default() };
    let mut calls = vec![format!("ip link set {ifb} up")];
    calls.extend(tc_commands(beyond, ifb)?);
    calls.extend(tc_commands(&way_in, device)?);
    let calls: String = calls.iter().map(|call| format!("ExecStart={call}\n")).collect();
    Ok(format!(
        "[Unit]\n\
         Description=Queue what comes in at {device} on {ifb}\n\
         BindsTo={first} {second}\n\
         After={first} {second}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         {calls}\
         ExecStop=tc qdisc del dev {device} ingress\n\
         \n\
         [Install]\n\
         WantedBy={first}\n"
    ))
}

// OpenWrt's /etc/config/sqm.
//
//   layer_cake.qos:  cake bandwidth … [atm] [overhead … mpu …]  diffserv3 nat  [besteffort]     [wash]       OPTS
//                         up/download  linklayer overhead tcMPU                squash_ingress   squash_dscp  eqdisc_opts, iqdisc_opts

fn for_openwrt(wish: &TargetQueues) -> Result<Recipe, CommandError> {
    let (up, down) = (cake(&wish.own), wish.beyond.as_ref().and_then(cake));
    let mut said = vec![
        "needs the package sqm-scripts (luci-app-sqm for the web); instead of a queue section that is there".to_owned(),
        "then: /etc/init.d/sqm enable && /etc/init.d/sqm restart".to_owned(),
        "flow offloading (network, firewall) goes around all queues: it must be off".to_owned(),
    ];
    let mut options = vec![
        ("enabled", "1".to_owned()),
        ("interface", wish.device.clone()),
        ("upload", kbit("up", up, &mut said)?),
        ("download", kbit("down", down, &mut said)?),
        ("qdisc", "cake".to_owned()),
        ("script", "layer_cake.qos".to_owned()),
        // DSCPs are neither cleared nor looked at on the way in.
        ("qdisc_advanced", "1".to_owned()),
        ("squash_dscp", "0".to_owned()),
        ("squash_ingress", "1".to_owned()),
        ("qdisc_really_really_advanced", "1".to_owned()),
    ];
    options.extend(up.map(|cake| ("eqdisc_opts", cake_words("nat dual-srchost", cake))));
    options.extend(down.map(|cake| ("iqdisc_opts", cake_words("nat dual-dsthost ingress", cake))));
    // Both ways are the same line.
    options.extend(up.or(down).map(layer).unwrap_or_default());
    let option = |(key, value): &(&str, String)| format!("\toption {key} '{value}'\n");
    let text = format!("config queue 'shape'\n{}", options.iter().map(option).collect::<String>());
    Ok(Recipe {
        pieces: vec![Piece { place: "/etc/config/sqm".into(), text }],
        said,
        ..Recipe::default()
    })
}

/// A rate as sqm has it; 0 leaves that way alone.
fn kbit(way: &str, cake: Option<&Cake>, said: &mut Vec<String>) -> Result<String, CommandError> {
    let Some(rate) = cake.and_then(|cake| cake.bandwidth) else { return Ok("0".to_owned()) };
    let kbit = rate.bps() / 1000;
    if kbit == 0 {
        return Err(CommandError::usage(format!(
            "{way} {rate}: sqm counts in kbit/s, and 0 is none"
        )));
    }
    let whole = Rate::from_bps(kbit * 1000);
    if whole != rate {
        said.push(format!("{way} is {whole} and not {rate}, since sqm counts in whole kbit/s"));
    }
    Ok(kbit.to_string())
}

/// Words for CAKE that sqm has no option for.
fn cake_words(usual: &str, cake: &Cake) -> String {
    let Cake { framing, rtt, ack_filter, wash, memlimit, .. } = cake;
    let mut words = usual.to_owned();
    words += if *framing == Some(Framing::Ptm) { " ptm" } else { "" };
    words += &rtt.map(|rtt| format!(" rtt {rtt}")).unwrap_or_default();
    words += if ack_filter.is_some() { " ack-filter" } else { "" };
    words += if *wash == Some(true) { " wash" } else { "" };
    words + &memlimit.map(|bytes| format!(" memlimit {}", bytes.get())).unwrap_or_default()
}

/// What a packet costs on the line, counted from the IP packet.
fn layer(cake: &Cake) -> Vec<(&'static str, String)> {
    let Some(overhead) = cake.overhead else {
        return vec![("linklayer", "none".to_owned())];
    };
    let layer = if cake.framing == Some(Framing::Atm) { "atm" } else { "ethernet" };
    vec![
        ("linklayer", layer.to_owned()),
        ("overhead", overhead.to_string()),
        ("linklayer_advanced", "1".to_owned()),
        ("tcMPU", cake.mpu.unwrap_or(0).to_string()),
        ("linklayer_adaptation_mechanism", "default".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_policy::LineType;
    use quell_policy::import::sqm;

    /// A wish for a line of 10 up and 50 down.
    fn wish(link: Option<LineType>, overhead: u16) -> (LinePolicy, TargetQueues) {
        let line = Some("10/50".parse().expect("rates"));
        let all = LinePolicy { line, link, overhead, ..LinePolicy::default() };
        let traits = DeviceTraits { headless: false, tracked: true };
        let (own, beyond) = trees(&all, PolicyName::Cake, traits, "eth0").expect("trees");
        (all, TargetQueues { device: "eth0".into(), ifb: ifb_of("eth0"), own, beyond })
    }

    #[test]
    fn a_name_that_a_shell_would_take_for_something_else_is_refused() {
        for good in ["eth0", "pppoe-wan", "br-lan.7", "wg_home", "eth0@x"] {
            assert_eq!(plain_device(good).as_deref(), Ok(good));
        }
        for bad in ["", "a b", "$(reboot)", "a'b", "-rf", "..", "a/b", "0123456789abcdef", "ü"] {
            assert!(plain_device(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn that_the_lab_translates_no_addresses_is_said_where_the_recipe_does() {
        let (all, router) = wish(None, 0);
        assert!(not_tried(&router).is_some_and(|said| said.contains("`nat`")));
        let traits = DeviceTraits { headless: false, tracked: false };
        let (own, beyond) = trees(&all, PolicyName::Cake, traits, "eth0").expect("trees");
        assert_eq!(not_tried(&TargetQueues { own, beyond, ..router }), None);
    }

    #[test]
    fn what_networkd_can_say_is_in_its_section_and_the_rest_in_a_service() {
        let (_, wish) = wish(Some(LineType::PppoeAtm), 4);
        let recipe = for_networkd(&wish).expect("a recipe");
        let [network, netdev, service] = &recipe.pieces[..] else { panic!("three files") };
        assert_eq!(
            network.text,
            "[CAKE]\nHandle=1\nBandwidth=9500K\nPriorityQueueingPreset=diffserv3\n\
             FlowIsolationMode=dual-src-host\nNAT=yes\nOverheadBytes=44\nCompensationMode=atm\n"
        );
        assert_eq!(netdev.text, "[NetDev]\nName=i-eth0\nKind=ifb\n");
        for line in [
            "BindsTo=sys-subsystem-net-devices-eth0.device sys-subsystem-net-devices-i\\x2deth0.device",
            "ExecStart=tc qdisc replace dev i-eth0 root handle 1: cake bandwidth 47.5Mbit",
            "ExecStart=tc qdisc replace dev eth0 ingress",
            "mirred egress redirect dev i-eth0",
        ] {
            assert!(service.text.contains(line), "`{line}` should be in: {}", service.text);
        }
        assert!(recipe.said.iter().any(|said| said.contains("can't feed it")), "said aloud");
    }

    #[test]
    fn rates_are_whole_kilobits_or_else_bits() {
        for (bps, said) in [
            (9_500_000, "9500K"),
            (47_500_000, "47500K"),
            (2_375_900, "2375900"),
            (999, "999"),
            (100_000_000_000, "100000000K"),
        ] {
            assert_eq!(bits(Rate::from_bps(bps)), said);
        }
    }

    #[test]
    fn where_only_one_way_is_wanted_nothing_is_made_for_the_other() {
        let (_, mut up) = wish(None, 0);
        (up.beyond, up.own.ingress) = (None, None);
        assert_eq!(for_networkd(&up).expect("a recipe").pieces.len(), 1);
        let (_, mut down) = wish(None, 0);
        down.own.queue = None;
        let recipe = for_networkd(&down).expect("a recipe");
        assert_eq!(recipe.pieces.len(), 2);
        assert!(!recipe.said.iter().any(|said| said.contains("reconfigure")));
    }

    #[test]
    fn what_is_printed_for_sqm_is_read_back_as_the_same_queues() {
        let links = LineType::all().into_iter().map(Some).chain([None]);
        for (link, overhead) in links.flat_map(|link| [0, 3, 24].map(|more| (link, more))) {
            let (_, wish) = wish(link, overhead);
            let text = for_openwrt(&wish).expect("a recipe").pieces.remove(0).text;
            let read = sqm(&text, Some("eth0")).expect("a queue");
            assert_eq!(read.left_out, [""; 0], "{text}");
            let traits = DeviceTraits { headless: false, tracked: true };
            assert_eq!(read.wanted.policy, Some(PolicyName::Cake));
            let again = trees(&read.wanted, PolicyName::Cake, traits, "eth0").expect("trees");
            assert_eq!(again, (wish.own, wish.beyond), "{link:?} and {overhead}: {text}");
        }
    }

    #[test]
    fn a_rate_that_sqm_can_not_say_is_told() {
        let mut said = Vec::new();
        let at = |bps| Cake { bandwidth: Some(Rate::from_bps(bps)), ..Cake::default() };
        assert_eq!(kbit("up", Some(&at(2_375_900)), &mut said).expect("a rate"), "2375");
        assert_eq!(said.len(), 1);
        assert!(kbit("up", Some(&at(999)), &mut said).is_err());
        assert_eq!(kbit("up", None, &mut said).expect("none"), "0");
    }
}
