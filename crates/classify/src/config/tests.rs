use super::*;
use crate::keys::Key;

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
fn prefixes_become_masks() {
    let of = |v4_prefix, v6_prefix| {
        let hosts = Hosts { v4_prefix, v6_prefix, ..Hosts::new(HostKey::Src, 4) };
        let raw =
            RawConfig::from(&Config::new(Parts { hosts: Some(hosts), ..self::hosts(4) }).unwrap());
        (raw.v4_mask, raw.v6_mask)
    };
    assert_eq!(of(32, 128), (u32::MAX, [u64::MAX, u64::MAX]));
    assert_eq!(of(24, 64), (0xffff_ff00, [u64::MAX, 0]));
    assert_eq!(of(0, 0), (0, [0, 0]));
    assert_eq!(of(1, 65), (1 << 31, [u64::MAX, 1 << 63]));
}

#[test]
fn other_keys_leave_hosts_where_they_are_and_another_prefix_does_not() {
    let raw = |parts| RawConfig::from(&Config::new(parts).unwrap());
    let before = raw(hosts(8));
    assert!(raw(Parts { keys: Keys::NONE.with(Key::Mark), ..hosts(8) }).has_hosts_of(&before));
    let by_network = Hosts { v6_prefix: 64, ..Hosts::new(HostKey::Src, 8) };
    assert!(!raw(Parts { hosts: Some(by_network), ..hosts(8) }).has_hosts_of(&before));
}
