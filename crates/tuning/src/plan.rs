//! The settings that are wanted of a host, each with its reason.

use crate::cures::{self, Cure};
use crate::facts::{HostFacts, Wish};
use crate::proposal::{Proposal, SettingAction, Sink, numbers};
use crate::roles;
use crate::window::{Path, Reach};

#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    pub wish: Wish,
    pub lines: Vec<Proposal>,
    /// What is better done for one route or one connection.
    pub cures: Vec<Cure>,
    /// What one transfer reaches with the buffers as they are, both ends alike.
    pub reach_now: Option<Reach>,
    pub reach_then: Option<Reach>,
    /// What else there is to say.
    pub remarks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A role whose values come from the path: which, and all that is missing of it.
    #[error("the values of `{0}` come from the path; give {1}")]
    Unknown(&'static str, String),
    /// A path that no buffer can fill.
    #[error("{0}")]
    TooLarge(String),
}

/// An Ethernet frame on a real line, beyond the packet: header, checksum, preamble and gap (IEEE 802.3).
const ETHERNET: u32 = 38;

impl Tuning {
    /// What is wanted of a host.
    pub fn of(wish: Wish, host: &HostFacts) -> Result<Self, PlanError> {
        let path = path(&wish, ETHERNET)?;
        let mut sink = Sink { host, lines: Vec::new(), remarks: Vec::new() };
        roles::lines(&wish, path.as_ref(), host, &mut sink);
        let Sink { lines, remarks, .. } = sink;
        let cures = cures::of(&wish, path.as_ref(), host);
        let (reach_now, reach_then) = (None, None);
        let mut plan = Tuning { wish, lines, cures, reach_now, reach_then, remarks };
        if let Some(path) = path.filter(|_| wish.role.needs_path()) {
            plan.reach_now = plan.reach(&path, host, false);
            plan.reach_then = plan.reach(&path, host, true);
        }
        Ok(plan)
    }

    /// The settings that are to change, with their values.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.lines.iter().filter_map(|line| match &line.wanted {
            SettingAction::Set(value) => Some((line.key, value.as_str())),
            _ => None,
        })
    }

    /// The settings that would change and can't.
    pub fn sealed(&self) -> impl Iterator<Item = &Proposal> {
        self.lines.iter().filter(|line| line.wanted == SettingAction::Sealed)
    }

    /// What one transfer reaches over a path, as it is or as it is wanted.
    pub fn reach(&self, path: &Path, host: &HostFacts, then: bool) -> Option<Reach> {
        let most = |key: &str| {
            let set = self.settings().find(|(name, _)| then && *name == key).map(|(_, v)| v);
            numbers(set.or(host.value(key))?).last().copied()
        };
        Some(path.reach(most("net/ipv4/tcp_rmem")?, most("net/ipv4/tcp_wmem")?, host))
    }
}

fn path(wish: &Wish, overhead: u32) -> Result<Option<Path>, PlanError> {
    let needs = wish.role.needs_path();
    let role = wish.role.name();
    let (rate, rtt) = match (wish.rate, wish.rtt) {
        (Some(rate), Some(rtt)) => (rate, rtt),
        (rate, rtt) if needs => {
            let rate = rate.is_none().then_some("its rate, as --rate 10Gbit");
            let rtt = rtt.is_none().then_some(
                "its round-trip time, as --rtt 100ms (or --rtt-to HOST, which measures it)",
            );
            let missing: Vec<&str> = rate.into_iter().chain(rtt).collect();
            return Err(PlanError::Unknown(role, missing.join(", and ")));
        }
        _ => return Ok(None),
    };
    let path = Path { rate, rtt, mtu: wish.mtu, overhead };
    if needs && path.product() > 1 << 40 {
        return Err(PlanError::TooLarge(format!(
            "{rate} over {rtt} has {} bytes under way, a thousand times what a window can hold; look at the units",
            path.product()
        )));
    }
    Ok(Some(path))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::defaults::default_of;
    use crate::facts::{Release, Role};
    use std::collections::BTreeMap;

    /// A host with the defaults of its kernel.
    pub fn host(release: Release, buffer_pages: u64) -> HostFacts {
        let mut host = HostFacts {
            release,
            page: 4096,
            memory: buffer_pages * 4096,
            buffer_pages: Some(buffer_pages),
            now: BTreeMap::new(),
            fresh: BTreeMap::new(),
            sealed: BTreeMap::new(),
            has_fq: Some(true),
            has_fq_codel: Some(true),
        };
        for key in crate::KEYS {
            if let Some(known) = default_of(key, &host) {
                host.now.insert(key.into(), known.value.replace(' ', "\t"));
            }
        }
        host.now.insert("net/core/netdev_budget_usecs".into(), "8000".into());
        host
    }

    pub fn wish(role: Role) -> Wish {
        Wish {
            role,
            rate: Some("10Gbit".parse().expect("a rate")),
            rtt: Some("100ms".parse().expect("a time")),
            streams: 1,
            mtu: 1500,
            reply: None,
        }
    }

    fn settings(plan: &Tuning) -> BTreeMap<&str, &str> {
        plan.settings().collect()
    }

    #[test]
    fn a_transfer_host_gets_what_its_longest_path_needs() {
        let host = host(Release::new(6, 1), 16 << 18);
        let plan = Tuning::of(wish(Role::Transfer), &host).expect("a plan");
        let set = settings(&plan);
        // 125 MB under way: twice that to receive, 2.83 times to send, in whole MiB.
        assert_eq!(set["net/ipv4/tcp_rmem"], "4096 131072 250609664");
        assert_eq!(set["net/ipv4/tcp_wmem"], "4096 16384 353370112");
        assert_eq!(set["net/core/default_qdisc"], "fq");
        assert!(!set.contains_key("net/ipv4/tcp_congestion_control"), "that is a route's matter");
        assert!(!set.contains_key("net/ipv4/tcp_no_metrics_save"), "that is for measuring");
        let (now, then) = (plan.reach_now.expect("known"), plan.reach_then.expect("known"));
        assert!(now.bits_per_second < 120e6, "{now:?}");
        assert!(then.bits_per_second > 9.4e9, "{then:?}");
        let measure = Tuning::of(wish(Role::Measure), &host).expect("a plan");
        assert_eq!(settings(&measure)["net/ipv4/tcp_no_metrics_save"], "1");
    }

    #[test]
    fn every_line_says_why_and_from_where() {
        for role in Role::ALL {
            let plan = Tuning::of(wish(role), &host(Release::new(6, 18), 4 << 18)).expect("a plan");
            assert!(!plan.lines.is_empty());
            for line in &plan.lines {
                assert!(line.why.len() > 15 && line.source.len() > 5, "{role}: {line:?}");
                assert!(crate::KEYS.contains(&line.key), "{} is read of no host", line.key);
            }
        }
    }

    #[test]
    fn what_somebody_switched_off_that_the_kernel_has_on_is_switched_on() {
        let mut host = host(Release::new(6, 1), 4 << 18);
        host.now.insert("net/ipv4/tcp_timestamps".into(), "0".into());
        host.now.insert("net/ipv4/tcp_sack".into(), "0".into());
        let plan = Tuning::of(wish(Role::Transfer), &host).expect("a plan");
        let set = settings(&plan);
        assert_eq!((set["net/ipv4/tcp_timestamps"], set["net/ipv4/tcp_sack"]), ("1", "1"));
        assert!(!set.contains_key("net/ipv4/tcp_window_scaling"));
    }

    #[test]
    fn what_is_missing_or_sealed_is_left_and_said() {
        let mut host = host(Release::new(6, 1), 4 << 18);
        host.now.remove("net/core/rmem_max");
        host.sealed.insert("net/ipv4/tcp_rmem".into(), "it is read-only".into());
        let plan = Tuning::of(wish(Role::Transfer), &host).expect("a plan");
        let line = |key| plan.lines.iter().find(|line| line.key == key).expect("it is named");
        assert_eq!(line("net/core/rmem_max").wanted, SettingAction::Leave);
        assert!(line("net/core/rmem_max").why.contains("no such setting"));
        assert_eq!(line("net/ipv4/tcp_rmem").wanted, SettingAction::Sealed);
        assert!(line("net/ipv4/tcp_rmem").why.contains("it is read-only"));
    }

    #[test]
    fn without_rate_or_time_it_is_said_what_to_give() {
        let host = host(Release::new(6, 1), 4 << 18);
        let mut wish = wish(Role::Transfer);
        wish.rtt = None;
        let said = Tuning::of(wish, &host).expect_err("nothing to reckon from").to_string();
        assert!(said.contains("--rtt"), "{said}");
        wish.rate = None;
        let said = Tuning::of(wish, &host).expect_err("nothing").to_string();
        assert!(said.contains("--rate") && said.contains("--rtt"), "both at once: {said}");
        wish.role = Role::Latency;
        Tuning::of(wish, &host).expect("it needs neither");
        let endless = Wish {
            rate: Some(Rate::from_bps(u64::MAX)),
            rtt: Some(Span::from_secs(9)),
            ..self::tests::wish(Role::Transfer)
        };
        assert!(Tuning::of(endless, &host).expect_err("no window").to_string().contains("units"));
    }

    use proptest::prelude::*;
    use quell_units::{Rate, Span};

    proptest! {
        #[test]
        fn nothing_is_ever_below_the_default_or_below_what_is_there(
            (role, minor, pages) in (0usize..4, 0u32..20, 8_000u64..20_000_000),
            (rate, rtt) in (1_000u64..400_000_000_000, 1_000u64..2_000_000_000),
            (streams, mtu) in (1u32..10_000, 576u32..9001),
            (rmem, wmem, core, scale) in (0u64..1 << 31, 0u64..1 << 31, 0u64..1 << 31, -3i32..4),
        ) {
            let mut host = host(Release::new(6, minor), pages);
            let mut put = |key: &str, value: String| drop(host.now.insert(key.into(), value));
            put("net/ipv4/tcp_rmem", format!("4096\t131072\t{rmem}"));
            put("net/ipv4/tcp_wmem", format!("4096\t16384\t{wmem}"));
            put("net/core/rmem_max", core.to_string());
            put("net/ipv4/tcp_adv_win_scale", scale.to_string());
            let wish = Wish {
                role: Role::ALL[role],
                rate: Some(Rate::from_bps(rate)),
                rtt: Some(Span::from_nanos(rtt)),
                streams,
                mtu,
                reply: None,
            };
            let plan = Tuning::of(wish, &host).expect("a plan");
            for (key, value) in plan.settings() {
                let (now, wanted) = (numbers(host.value(key).expect("it is there")), numbers(value));
                let default = default_of(key, &host).map(|known| numbers(&known.value)).unwrap_or_default();
                if crate::FRESH.contains(&key) || key.ends_with("qdisc") { continue }
                for (at, wanted) in wanted.iter().enumerate() {
                    prop_assert!(*wanted >= now[at], "{key} {value}");
                    prop_assert!(default.get(at).is_none_or(|d| wanted >= d), "{key} {value} {default:?}");
                }
                prop_assert!(wanted.windows(2).all(|two| two[0] <= two[1]), "{key} {value}");
                let largest = if key == "net/ipv4/tcp_mem" { u64::MAX >> 1 } else { i32::MAX as u64 };
                prop_assert!(wanted.iter().all(|n| *n <= largest), "{key} {value}");
            }
        }
    }
}
