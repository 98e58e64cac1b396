//! One setting of a plan, and the collection of them.

use crate::defaults::{KernelDefault, default_of};
use crate::facts::HostFacts;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingAction {
    Set(String),
    Keep,
    /// It is left alone, or is not there.
    Leave,
    /// It would be set, and can't be written here.
    Sealed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its key, as net/ipv4/tcp_rmem.
    pub key: &'static str,
    /// Its value now; none where the kernel or the namespace has no such.
    pub now: Option<String>,
    /// What the kernel would set by itself.
    pub default: Option<KernelDefault>,
    pub wanted: SettingAction,
    pub why: String,
    pub source: &'static str,
}

pub(crate) struct Sink<'a> {
    pub host: &'a HostFacts,
    pub lines: Vec<Proposal>,
    pub remarks: Vec<String>,
}

impl Sink<'_> {
    /// A setting that is to have a value; kept where it has it, left where it can't be had.
    pub fn set(&mut self, key: &'static str, value: String, why: String, source: &'static str) {
        let now = self.host.value(key);
        let (wanted, why) = match (now, self.host.sealed.get(key)) {
            (None, _) => (
                SettingAction::Leave,
                format!("there is no such setting here, in this kernel or namespace; {why}"),
            ),
            (Some(now), _) if same(now, &value) => (SettingAction::Keep, why),
            (Some(_), Some(sealed)) => (SettingAction::Sealed, format!("{sealed}; {why}")),
            _ => (SettingAction::Set(value), why),
        };
        self.line(key, wanted, why, source);
    }

    pub fn keep(&mut self, key: &'static str, why: String, source: &'static str) {
        let wanted =
            if self.host.value(key).is_some() { SettingAction::Keep } else { SettingAction::Leave };
        self.line(key, wanted, why, source);
    }

    pub fn leave(&mut self, key: &'static str, why: String, source: &'static str) {
        self.line(key, SettingAction::Leave, why, source);
    }

    pub fn say(&mut self, remark: String) {
        self.remarks.push(remark);
    }

    fn line(
        &mut self,
        key: &'static str,
        wanted: SettingAction,
        why: String,
        source: &'static str,
    ) {
        let now = self.host.value(key).map(spaced);
        let default = default_of(key, self.host);
        self.lines.push(Proposal { key, now, default, wanted, why, source });
    }
}

pub(crate) fn numbers(value: &str) -> Vec<u64> {
    value.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

/// A value with single spaces; the kernel writes tabs.
fn spaced(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

/// A key as people and files write it: net.ipv4.tcp_rmem.
pub fn dotted(key: &str) -> String {
    key.replace('/', ".")
}
