use super::*;
use crate::{Filter, Handle, Tree};
use proptest::prelude::*;
use quell_units::Span;

fn hosts(classes: u16) -> Parts {
    Parts::hosts(1, 0x10, Hosts::new(HostKey::Src, classes), 4, Handle::class(1, 2))
}

#[test]
fn classes_beyond_the_last_minor_are_refused() {
    assert!(Config::new(hosts(1024)).is_ok());
    let layout =
        Layout::Classes { major: 1, base: 0x10, host_step: 65, tier_step: 1, flow_step: 0 };
    let said = Config::new(Parts { layout, ..hosts(1024) }).unwrap_err().to_string();
    assert!(said.contains("1024 hosts, 1 tiers and 1 flows from 1:10"), "{said}");
    assert!(Config::new(Parts { layout, ..hosts(1008) }).is_ok());
}

#[test]
fn the_last_class_is_the_last_minor() {
    let layout =
        |base| Layout::Classes { major: 1, base, host_step: 64, tier_step: 0, flow_step: 1 };
    let parts = |base| Parts { layout: layout(base), flows: 64, keys: Keys::OUTER, ..hosts(1023) };
    assert!(Config::new(parts(0xffff - 1022 * 64 - 63)).is_ok());
    assert!(Config::new(parts(0xffff - 1022 * 64 - 62)).is_err());
}

#[test]
fn what_would_match_nothing_is_refused_where_that_drops() {
    assert_eq!(Config::new(Parts { other: None, ..hosts(4) }), Err(ConfigError::NoOther));
    let all_ones = Handle::class(0xffff, 0xffff);
    assert!(Config::new(Parts { other: Some(all_ones), ..hosts(4) }).is_err());
    assert!(Config::new(Parts { other: Some(Handle::qdisc(1)), ..hosts(4) }).is_err());
    assert_eq!(Config::cake(HostKey::Src).unwrap().parts().other, None);
}

#[test]
fn numbers_out_of_range_name_their_range() {
    let refuse = |parts: Parts| Config::new(parts).unwrap_err().to_string();
    assert_eq!(
        refuse(hosts(1025)),
        "the number of host classes is 1025, but must be from 1 to 1024"
    );
    assert!(refuse(hosts(0)).contains("from 1 to 1024"));
    assert!(refuse(Parts::flows(1, 0)).contains("flow classes is 0"));
    assert!(refuse(Parts { flows: 1025, ..Parts::cake(HostKey::Src) }).contains("from 1 to 1024"));
    assert!(Config::flows(1, 0xffff).is_ok());
    let wide = Hosts { v6_prefix: 129, ..Hosts::new(HostKey::Src, 4) };
    assert!(refuse(Parts { hosts: Some(wide), ..hosts(4) }).contains("from 0 to 128"));
}

#[test]
fn more_than_sixteen_tiers_are_refused() {
    let mut tiers = Tiers::default();
    tiers.of[3] = 16;
    let said = Config::new(Parts { tiers, ..hosts(1) }).unwrap_err().to_string();
    assert_eq!(said, "the number of tiers is 17, but must be from 1 to 16");
}

fn any_config() -> impl Strategy<Value = Config> {
    let by = prop::sample::select(HostKey::ALL.to_vec());
    let of = prop::collection::vec(0u8..16, 64);
    let one_tier = prop::bool::ANY;
    let hosts = (
        by,
        1u16..=1024,
        100_000_000u64..=365 * 86400 * 1_000_000_000,
        0u8..=32,
        0u8..=128,
        any::<[bool; 2]>(),
    );
    let hosts = prop::option::of(hosts).prop_map(|hosts| {
        hosts.map(|(by, classes, idle, v4_prefix, v6_prefix, flags)| Hosts {
            by,
            classes,
            idle: Span::from_nanos(idle),
            v4_prefix,
            v6_prefix,
            neighbours: flags[0],
            translated: flags[1],
        })
    });
    let tiers = (of, one_tier, any::<bool>(), prop::option::of(1u16..0xffff));
    let tiers = tiers.prop_map(|(of, one, tunnel, cake_tins)| Tiers {
        of: if one { [0; 64] } else { of.try_into().unwrap() },
        by: if tunnel { TierBy::Tunnel } else { TierBy::Outer },
        cake_tins,
    });
    let steps = [0u16..60, 0..0x1000, 0..64].map(|step| step.boxed());
    let [a, b, c] = steps;
    let layout =
        prop::option::of((1u16..0xffff, 1u16..=0xffff, a, b, c)).prop_map(|layout| match layout {
            None => Layout::Cake,
            Some((major, base, host_step, tier_step, flow_step)) => {
                Layout::Classes { major, base, host_step, tier_step, flow_step }
            }
        });
    let other = (0u16..0xffff, 1u16..=0xffff).prop_map(|(a, b)| Some(Handle::class(a, b)));
    let words = (0u32..0x2000).prop_map(Keys::from_bits);
    let rest = (any::<u64>(), any::<u16>(), any::<bool>());
    (words, 1u16..=1024, hosts, tiers, layout, other, rest).prop_filter_map(
        "what fits together",
        |(keys, flows, hosts, tiers, layout, other, (seed, vxlan_port, tunnels_only))| {
            let tunnels_only = tunnels_only && layout == Layout::Cake;
            let parts =
                Parts { keys, flows, hosts, tiers, layout, other, seed, vxlan_port, tunnels_only };
            Config::new(parts).ok()
        },
    )
}

/// All that a name can hold, each part at its longest, both of classes and of CAKE.
fn longest() -> [Parts; 2] {
    let hosts = Hosts {
        by: HostKey::TunnelSrc,
        classes: MAX_HOSTS,
        idle: Span::from_nanos(365 * 86400 * 1_000_000_000 - 1),
        v4_prefix: 10,
        v6_prefix: 100,
        neighbours: true,
        translated: true,
    };
    let mut of = [0; 64];
    of[63] = 1;
    // As long as they get together: a step of hosts or flows with a figure more means fewer of them.
    let (base, host_step, tier_step, flow_step) = (0x1000, 0x10, 0x1000, 0);
    let classes = Parts {
        keys: Keys::from_bits(0x1fff),
        flows: 0xffff,
        hosts: Some(hosts),
        tiers: Tiers { of, by: TierBy::Tunnel, cake_tins: Some(0xfffe) },
        layout: Layout::Classes { major: 0xfffe, base, host_step, tier_step, flow_step },
        other: Some(Handle::class(0xfffe, 0xffff)),
        seed: u64::MAX,
        vxlan_port: u16::MAX,
        tunnels_only: false,
    };
    let cake =
        Parts { flows: CAKE_QUEUES, layout: Layout::Cake, tunnels_only: true, ..classes.clone() };
    [classes, cake]
}

#[test]
fn the_longest_name_has_room_in_the_kernel() {
    let longest = longest().map(|parts| Config::new(parts).unwrap());
    let names = longest.clone().map(|config| config.to_string());
    assert_eq!(
        names[0],
        format!(
            "quell2 keys=1fff flows=65535 tunnel-src=1024 idle=31535999999999999ns bits=10,100 macs nat tiers={}1 inside tins=fffe \
             at=fffe:1000 by=10,1000,0 rest=fffe:ffff seed=ffffffffffffffff vx=65535",
            "0".repeat(63)
        )
    );
    assert_eq!(names.clone().map(|name| name.len()), [250, 236]);
    for (name, config) in names.iter().zip(longest) {
        assert!(name.len() < NAME_MOST, "{name}");
        assert_eq!(name.parse::<Config>().unwrap(), config);
    }
    // Nor could it be longer, whatever fits together: three steps and a base of four figures each do not.
    assert!(names[0].len() + "ffff,ffff,ffff".len() - "10,1000,0".len() < NAME_MOST);
}

proptest! {
    #[test]
    fn no_name_is_longer_than_that_of_all_parts_at_their_longest(config in any_config()) {
        let [classes, _] = longest().map(|parts| Config::new(parts).unwrap().to_string().len());
        prop_assert!(config.to_string().len() <= classes, "{config}");
    }

    #[test]
    fn whoever_reads_the_filters_name_has_all_that_was_configured(config in any_config()) {
        let name = config.to_string();
        prop_assert!(name.len() < NAME_MOST, "{} bytes: {name}", name.len());
        prop_assert_eq!(name.parse::<Config>().unwrap(), config);
    }

    #[test]
    fn what_is_written_as_toml_is_read_as_the_same(config in any_config()) {
        // Without keys, how many flows there would be says nothing; and TOML counts to 2^63.
        let parts = config.parts().clone();
        let (flows, seed) = (if parts.keys == Keys::NONE { 1 } else { parts.flows }, parts.seed >> 1);
        let keys = if parts.layout == Layout::Cake && parts.keys == Keys::NONE { Keys::ALL_FLOWS } else { parts.keys };
        let flows = if keys == parts.keys { flows } else { 1024 };
        let config = Config::new(Parts { keys, flows, seed, ..parts }).unwrap();
        let text = toml::to_string(&config).unwrap();
        prop_assert_eq!(toml::from_str::<Config>(&text).unwrap(), config, "{}", text);
    }

    #[test]
    fn no_name_is_a_reason_to_panic(text in "quell2( (keys|flows|src|mark|idle|at|by|tiers|rest|bits)=[0-9a-f:,srcdt]{0,9}){0,6}") {
        let _ = text.parse::<Config>();
    }
}

#[test]
fn names_of_others_are_none_of_ours() {
    for name in [
        "",
        "quell_classify",
        "quell2x",
        "quell1 at=1:1 by=0,0,0 rest=1:1",
        "quell2 by=0,0,0 at=1:1",
        "quell2 more",
    ] {
        assert!(name.parse::<Config>().is_err(), "{name}");
    }
}

#[test]
fn a_name_that_another_version_gave_is_known_as_such() {
    let written = "quell1 src=2 idle=60s at=1:1 steps=1,1,0 other=1:3";
    assert!(is_of_another_version(written) && written.parse::<Config>().is_err());
    assert!(is_of_another_version("quell10 what may come"));
    let ours = Config::new(hosts(4)).unwrap().to_string();
    for name in [ours.as_str(), "", "quell", "quell_classify", "quell1x at=1:1", "quell-roster1 to"]
    {
        assert!(!is_of_another_version(name), "{name}");
    }
}

/// A tree in which a DRR has a class for each of four hosts and one for the rest.
fn tree(filter: &str) -> Result<Tree, toml::de::Error> {
    toml::from_str(&format!(
        r#"queue = {{ kind = "drr", handle = "2:",
            class = [ {{ id = "2:1" }}, {{ id = "2:2" }}, {{ id = "2:3" }}, {{ id = "2:4" }}, {{ id = "2:5" }} ],
            filter = [ {{ kind = "classify", {filter} }}, {{ kind = "matchall", class = "2:5" }} ] }}"#
    ))
}

#[test]
fn a_person_says_what_a_host_is_told_by_and_how_many_there_are() {
    let read = tree(r#"base = "2:1", host = "src", hosts = 4, other = "2:5""#).unwrap();
    read.plan().expect("each host has its class");
    let queue = read.queue.unwrap();
    let hosts = Hosts::new(HostKey::Src, 4);
    let wanted = Config::new(Parts::hosts(2, 1, hosts, 1, Handle::class(2, 5))).unwrap();
    assert_eq!(queue.filters[0], Filter::new(wanted, None));
    // Host, tier and flow lie one behind the other where no step is given.
    let text = r#"base = "1:10"
        host = "dst"
        hosts = 2
        flows = 4
        tiers = [["EF", "CS5"], [], ["CS1"]]
        tier = 1
        other = "1:1""#;
    let config: Config = toml::from_str(text).unwrap();
    let layout =
        Layout::Classes { major: 1, base: 0x10, host_step: 12, tier_step: 4, flow_step: 1 };
    assert_eq!(config.parts().layout, layout);
    assert_eq!(config.parts().tiers.of[46], 0);
    assert_eq!(config.parts().tiers.of[0], 1);
    assert_eq!(config.classes().count(), 2 * 3 * 4 + 1);
}

#[test]
fn a_host_without_a_class_is_found_before_packets_are_lost() {
    let said = tree(r#"base = "2:1", host = "src", hosts = 5, other = "2:6""#).unwrap().plan();
    assert!(said.unwrap_err().to_string().contains("its class `2:6`"));
    let said = |filter| tree(filter).unwrap_err().to_string();
    assert!(said(r#"base = "2:1", hosts = 4, other = "2:5""#).contains("`hosts` needs `host`"));
    assert!(said(r#"base = "2:1", host = "src", hosts = 4"#).contains("no class was given"));
    assert!(said(r#"base = "2:1", host = "src", hots = 4, other = "2:5""#).contains("hots"));
    assert!(said(r#"base = "2:1", tiers = [["EF"], ["EF"]], other = "2:5""#).contains("two tiers"));
}
