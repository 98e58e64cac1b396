//! The recipe as OpenWrt's /etc/config/sqm.
//!
//! ```text
//!   layer_cake.qos:  cake bandwidth … [atm] [overhead … mpu …]  diffserv3 nat  [besteffort]     [wash]       OPTS
//!                         up/download  linklayer overhead tcMPU                squash_ingress   squash_dscp  eqdisc_opts, iqdisc_opts
//! ```

use super::piece::{Piece, Recipe, Wish, cake};
use crate::failure::Failure;
use quell_tc::qdisc::{Cake, Framing};
use quell_units::Rate;

/// The file.
pub fn recipe(wish: &Wish) -> Result<Recipe, Failure> {
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
    options.extend(up.map(|cake| ("eqdisc_opts", words("nat dual-srchost", cake))));
    options.extend(down.map(|cake| ("iqdisc_opts", words("nat dual-dsthost ingress", cake))));
    // Both ways are the same line.
    options.extend(up.or(down).map(layer).unwrap_or_default());
    let option = |(key, value): &(&str, String)| format!("\toption {key} '{value}'\n");
    let text = format!("config queue 'shape'\n{}", options.iter().map(option).collect::<String>());
    Ok(Recipe { pieces: vec![Piece { place: "/etc/config/sqm".into(), text }], said })
}

/// A rate as sqm has it; 0 leaves that way alone.
fn kbit(way: &str, cake: Option<&Cake>, said: &mut Vec<String>) -> Result<String, Failure> {
    let Some(rate) = cake.and_then(|cake| cake.bandwidth) else { return Ok("0".to_owned()) };
    let kbit = rate.bps() / 1000;
    if kbit == 0 {
        return Err(Failure::usage(format!("{way} {rate}: sqm counts in kbit/s, and 0 is none")));
    }
    let whole = Rate::from_bps(kbit * 1000);
    if whole != rate {
        said.push(format!("{way} is {whole} and not {rate}, since sqm counts in whole kbit/s"));
    }
    Ok(kbit.to_string())
}

/// Words for CAKE that sqm has no option for.
fn words(usual: &str, cake: &Cake) -> String {
    let ptm = if cake.framing == Some(Framing::Ptm) { " ptm" } else { "" };
    format!("{usual}{ptm}")
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
    use super::super::super::wanted::trees;
    use super::super::tests::wish;
    use super::*;
    use quell_shaper::import::sqm;
    use quell_shaper::{DeviceTraits, LineType, PolicyName};

    #[test]
    fn what_is_printed_for_sqm_is_read_back_as_the_same_queues() {
        let links = LineType::ALL.into_iter().map(Some).chain([None]);
        for (link, overhead) in links.flat_map(|link| [0, 3, 24].map(|more| (link, more))) {
            let (_, wish) = wish(link, overhead);
            let text = recipe(&wish).expect("a recipe").pieces.remove(0).text;
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
