//! The recipe as files of systemd: systemd.network(5), systemd.netdev(5), systemd.service(5).
//!
//! ```text
//!   eth0    ── [CAKE] of its .network          what leaves
//!   eth0    ── ingress, filter ─┐              networkd has no filters: a service calls tc
//!   i-eth0  ── .netdev          └─► CAKE       networkd has no word for `ingress` of CAKE: the same service
//! ```

use super::super::persist::escaped;
use super::commands;
use super::piece::{Piece, Recipe, Wish, cake};
use crate::failure::Failure;
use quell_tc::Tree;
use quell_tc::qdisc::{Cake, Diffserv, FlowIsolation, Framing};
use quell_units::Rate;

/// The files.
pub fn recipe(wish: &Wish) -> Result<Recipe, Failure> {
    let Wish { device, ifb, own, beyond } = wish;
    let mut pieces = Vec::new();
    let mut said = Vec::new();
    if let Some(cake) = cake(own) {
        let place = format!("/etc/systemd/network/FILE.d/shape.conf, for {device}'s .network FILE");
        pieces.push(Piece { place, text: section(cake)? });
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
        said.push(format!("networkd makes {ifb} but can't feed it, having no filters, nor say of CAKE that it stands"));
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
    Ok(Recipe { pieces, said })
}

/// CAKE as networkd says it.
fn section(cake: &Cake) -> Result<String, Failure> {
    let Cake { bandwidth, diffserv, isolation, nat, framing, overhead, mpu, .. } = cake;
    let mut lines = vec!["[CAKE]".to_owned(), "Handle=1".to_owned()];
    lines.extend(bandwidth.map(|rate| format!("Bandwidth={}", bits(rate))));
    lines.extend(diffserv.map(|tins| format!("PriorityQueueingPreset={}", preset(tins))));
    lines.extend(isolation.map(|mode| format!("FlowIsolationMode={}", isolated(mode))));
    lines.extend(nat.map(|nat| format!("NAT={}", if nat { "yes" } else { "no" })));
    lines.extend(overhead.map(|bytes| format!("OverheadBytes={bytes}")));
    lines.extend(mpu.map(|bytes| format!("MPUBytes={bytes}")));
    lines.extend(framing.map(|cells| format!("CompensationMode={}", compensation(cells))));
    Ok(lines.join("\n") + "\n")
}

/// Networkd's letters are powers of 1000.
fn bits(rate: Rate) -> String {
    match rate.bps() {
        bps if bps % 1000 == 0 => format!("{}K", bps / 1000),
        bps => bps.to_string(),
    }
}

fn preset(tins: Diffserv) -> &'static str {
    match tins {
        Diffserv::Diffserv3 => "diffserv3",
        Diffserv::Diffserv4 => "diffserv4",
        Diffserv::Diffserv8 => "diffserv8",
        Diffserv::BestEffort => "besteffort",
        Diffserv::Precedence => "precedence",
    }
}

fn isolated(mode: FlowIsolation) -> &'static str {
    match mode {
        FlowIsolation::Flowblind => "none",
        FlowIsolation::Srchost => "src-host",
        FlowIsolation::Dsthost => "dst-host",
        FlowIsolation::Hosts => "hosts",
        FlowIsolation::Flows => "flows",
        FlowIsolation::DualSrchost => "dual-src-host",
        FlowIsolation::DualDsthost => "dual-dst-host",
        FlowIsolation::TripleIsolate => "triple",
    }
}

fn compensation(cells: Framing) -> &'static str {
    match cells {
        Framing::NoAtm => "none",
        Framing::Atm => "atm",
        Framing::Ptm => "ptm",
    }
}

/// What networkd can't: the IFB's queue, and all that comes sent there.
fn service(wish: &Wish, beyond: &Tree) -> Result<String, Failure> {
    let Wish { device, ifb, own, .. } = wish;
    let unit = |name: &str| format!("sys-subsystem-net-devices-{}.device", escaped(name));
    let (first, second) = (unit(device), unit(ifb));
    let way_in = Tree { ingress: own.ingress.clone(), ..Tree::default() };
    let mut calls = vec![format!("ip link set {ifb} up")];
    calls.extend(commands::of(beyond, ifb)?);
    calls.extend(commands::of(&way_in, device)?);
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

#[cfg(test)]
mod tests {
    use super::super::tests::wish;
    use super::*;
    use quell_shaper::LineType;

    #[test]
    fn what_networkd_can_say_is_in_its_section_and_the_rest_in_a_service() {
        let (_, wish) = wish(Some(LineType::PppoeAtm), 4);
        let recipe = recipe(&wish).expect("a recipe");
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
        assert_eq!(recipe(&up).expect("a recipe").pieces.len(), 1);
        let (_, mut down) = wish(None, 0);
        down.own.queue = None;
        let recipe = recipe(&down).expect("a recipe");
        assert_eq!(recipe.pieces.len(), 2);
        assert!(!recipe.said.iter().any(|said| said.contains("reconfigure")));
    }
}
