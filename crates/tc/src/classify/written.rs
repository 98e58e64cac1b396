//! A configuration as a person writes it in a tree of queues.

use std::collections::BTreeMap;

use quell_units::{Dscp, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::config::{
    CAKE_QUEUES, Config, HostKey, Hosts, Layout, Parts, TierBy, Tiers, VXLAN_PORT,
};
use super::keys::Keys;
use crate::Handle;

/// Host classes where their number is not given.
const HOSTS: u16 = 64;
/// Flow classes where their number is not given.
const FLOWS: u16 = 1024;

/// What a person writes; what is absent is as usual.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigText {
    /// The first class; none for CAKE, whose classes are hosts and flows.
    base: Option<Handle>,
    host: Option<HostKey>,
    hosts: Option<u16>,
    idle: Option<Span>,
    v4_prefix: Option<u8>,
    v6_prefix: Option<u8>,
    neighbours: Option<bool>,
    translated: Option<bool>,
    keys: Vec<String>,
    flows: Option<u16>,
    /// The DSCPs of each tier.
    tiers: Vec<Vec<Dscp>>,
    /// The tier of all others.
    tier: Option<u8>,
    tier_of: Option<TierBy>,
    cake_tins: Option<Handle>,
    host_step: Option<u16>,
    tier_step: Option<u16>,
    flow_step: Option<u16>,
    other: Option<Handle>,
    seed: Option<u64>,
    vxlan_port: Option<u16>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tunnels_only: bool,
}

impl TryFrom<ConfigText> for Config {
    type Error = String;

    fn try_from(w: ConfigText) -> Result<Self, String> {
        let cake = w.base.is_none();
        let host_only = [
            ("hosts", w.hosts.is_some()),
            ("idle", w.idle.is_some()),
            ("v4_prefix", w.v4_prefix.is_some()),
            ("v6_prefix", w.v6_prefix.is_some()),
            ("neighbours", w.neighbours.is_some()),
            ("translated", w.translated.is_some()),
        ];
        if let (None, Some((given, _))) = (w.host, host_only.iter().find(|(_, given)| *given)) {
            return Err(format!(
                "`{given}` needs `host`, which says what a host is known by, like \"src\""
            ));
        }
        let hosts = w.host.map(|by| {
            let usual = Hosts::new(by, if cake { CAKE_QUEUES } else { HOSTS });
            Hosts {
                by,
                classes: w.hosts.unwrap_or(usual.classes),
                idle: w.idle.unwrap_or(usual.idle),
                v4_prefix: w.v4_prefix.unwrap_or(usual.v4_prefix),
                v6_prefix: w.v6_prefix.unwrap_or(usual.v6_prefix),
                neighbours: w.neighbours.unwrap_or(usual.neighbours),
                translated: w.translated.unwrap_or(usual.translated),
            }
        });
        let keys: Keys = match w.keys.is_empty() {
            true if cake || w.flows.is_some() => Keys::ALL_FLOWS,
            true => Keys::NONE,
            false => w.keys.join(",").parse().map_err(|why: super::KeyError| why.to_string())?,
        };
        let flows = match w.flows {
            Some(flows) => flows,
            None if keys == Keys::NONE => 1,
            None => FLOWS,
        };
        let tins = w.cake_tins.map(|handle| handle.major);
        let tiers = tiers(&w.tiers, w.tier.unwrap_or(0), w.tier_of.unwrap_or_default(), tins)?;
        let layout = match w.base {
            None => Layout::Cake,
            Some(Handle { major, minor: base }) => {
                // One behind the other: a host's tiers, a tier's flows.
                let below = |many: u16, step: u16| many.checked_mul(step);
                let flow_step = w.flow_step.unwrap_or((keys != Keys::NONE).into());
                let packed = if keys == Keys::NONE { Some(1) } else { below(flows, flow_step) };
                let tier_step = w.tier_step.or(packed);
                let host_step = match (w.host_step, hosts, tiers.count()) {
                    (Some(step), ..) => Some(step),
                    (None, None, _) => Some(0),
                    (None, Some(_), 1) => packed,
                    (None, Some(_), count) => tier_step.and_then(|step| below(count, step)),
                };
                let (Some(host_step), Some(tier_step)) = (host_step, tier_step) else {
                    return Err(
                        "there are no classes above 0xffff: take fewer hosts, tiers or flows"
                            .into(),
                    );
                };
                Layout::Classes { major, base, host_step, tier_step, flow_step }
            }
        };
        let parts = Parts {
            keys,
            flows,
            hosts,
            tiers,
            layout,
            other: w.other,
            seed: w.seed.unwrap_or(0),
            vxlan_port: w.vxlan_port.unwrap_or(VXLAN_PORT),
            tunnels_only: w.tunnels_only,
        };
        Config::new(parts).map_err(|why| why.to_string())
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigText::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ConfigText::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

fn tiers(
    named: &[Vec<Dscp>],
    rest: u8,
    by: TierBy,
    cake_tins: Option<u16>,
) -> Result<Tiers, String> {
    let mut tiers = Tiers { of: [rest; 64], by, cake_tins };
    let mut known = BTreeMap::new();
    for (tier, dscps) in (0u8..).zip(named) {
        for dscp in dscps {
            if known.insert(*dscp, tier).is_some() {
                return Err(format!("the DSCP {dscp} is named in two tiers"));
            }
            tiers.of[usize::from(dscp.value())] = tier;
        }
    }
    if !named.is_empty() && usize::from(rest) >= named.len() {
        return Err(format!(
            "`tier` is {rest}, but of `tiers` there are {}, counted from 0",
            named.len()
        ));
    }
    Ok(tiers)
}

impl From<Config> for ConfigText {
    fn from(config: Config) -> Self {
        let Parts { keys, flows, hosts, tiers, layout, other, seed, vxlan_port, tunnels_only } =
            config.parts().clone();
        let (mut named, mut rest) = (Vec::new(), None);
        if tiers.count() > 1 || tiers.of[0] > 0 {
            // All others are most of them.
            let most = (0..tiers.count())
                .max_by_key(|tier| tiers.of.iter().filter(|of| u16::from(**of) == *tier).count());
            let most = most.unwrap_or(0) as u8;
            named = vec![Vec::new(); usize::from(tiers.count())];
            for (dscp, tier) in (0..64).filter_map(Dscp::new).zip(tiers.of) {
                if tier != most {
                    named[usize::from(tier)].push(dscp);
                }
            }
            rest = Some(most);
        }
        let (base, steps) = match layout {
            Layout::Cake => (None, None),
            Layout::Classes { major, base, host_step, tier_step, flow_step } => {
                (Some(Handle::class(major, base)), Some([host_step, tier_step, flow_step]))
            }
        };
        let step = |at: usize| steps.map(|steps| steps[at]);
        ConfigText {
            base,
            host: hosts.map(|hosts| hosts.by),
            hosts: hosts.map(|hosts| hosts.classes),
            idle: hosts.map(|hosts| hosts.idle),
            v4_prefix: hosts.map(|hosts| hosts.v4_prefix),
            v6_prefix: hosts.map(|hosts| hosts.v6_prefix),
            neighbours: hosts.map(|hosts| hosts.neighbours).filter(|on| *on),
            translated: hosts.map(|hosts| hosts.translated).filter(|on| *on),
            keys: keys.to_string().split(',').filter(|k| !k.is_empty()).map(Into::into).collect(),
            flows: (keys != Keys::NONE).then_some(flows),
            tiers: named,
            tier: rest,
            tier_of: Some(tiers.by).filter(|by| *by != TierBy::default()),
            cake_tins: tiers.cake_tins.map(Handle::qdisc),
            host_step: step(0),
            tier_step: step(1),
            flow_step: step(2),
            other,
            seed: Some(seed).filter(|seed| *seed != 0),
            vxlan_port: Some(vxlan_port).filter(|port| *port != VXLAN_PORT),
            tunnels_only,
        }
    }
}
