//! Filters: what decides which class a packet belongs to, or what is done with it.

use std::path::PathBuf;

use quell_units::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::classify::Config;
use crate::packet::{IpProto, MacAddress, Masked, Prefix, Protocol};
use crate::{Action, Handle, Match, Side, fields};

/// A filter with its place in the order, its target and its actions.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Packets it looks at; default all.
    pub protocol: Protocol,
    /// Lower ones are tried first; by position in the list if absent.
    pub prio: Option<u16>,
    /// Its name; for `fw` the mark that it matches. The kernel names it if absent.
    pub handle: Option<u32>,
    /// The class for packets that match.
    pub class: Option<Handle>,
    pub kind: FilterKind,
    /// Done in this order with packets that match.
    pub actions: Vec<Action>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FilterKind {
    U32(U32),
    /// Keys of the flow, mapped or hashed to classes.
    Flow(Flow),
    Fw(Fw),
    Matchall(Matchall),
    /// Fields of the dissected packet.
    Flower(Flower),
    Bpf(Bpf),
    /// Host, tier and flow, by the BPF program of ours. To the kernel it is one of [`FilterKind::Bpf`].
    Classify(Box<Config>),
    /// A packet's subscriber, found in a table by the BPF program of ours. To the kernel it is one of [`FilterKind::Bpf`]; no tree in a file
    /// has it, since somebody must know who is in the table.
    Roster(Side),
}

/// Bits of the packet; all matches must hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct U32 {
    /// At least one; `u32 0x0 0x0 at 0` matches every packet.
    pub r#match: Vec<Match>,
}

/// Maps or hashes keys of a flow to classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// What identifies the flow; one for `map`, several for `hash`.
    pub keys: Vec<FlowKey>,
    /// How keys become a class; default `map`.
    pub mode: FlowMode,
    /// Classes: the result is taken modulo this.
    pub divisor: Option<u32>,
    /// The class for the result 0; default the queue's class 1.
    pub baseclass: Option<Handle>,
    /// Time after which the hash is changed, in whole seconds; only for `hash`. It reorders packets.
    pub perturb: Option<Span>,
    /// Shift the key right by this; only for `map`.
    pub rshift: Option<u32>,
    /// Then add this; only for `map`.
    pub addend: Option<u32>,
    /// Keep these bits of the key; one of `and`, `or`, `xor`; only for `map`.
    pub and: Option<u32>,
    /// Set these bits of the key.
    pub or: Option<u32>,
    /// Turn these bits of the key.
    pub xor: Option<u32>,
}

/// How keys become a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowMode {
    /// The key's value itself.
    #[default]
    Map,
    /// A hash of all keys.
    Hash,
}

/// The enum and all of its variants in order.
macro_rules! flow_keys {
    ($($key:ident),+) => {
        /// What identifies a flow (`FLOW_KEY_*` in `include/uapi/linux/pkt_cls.h`, in its order); the names are `tc`'s.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum FlowKey { $($key),+ }

        impl FlowKey {
            pub const ALL: &[FlowKey] = &[$(FlowKey::$key),+];
        }
    };
}

flow_keys!(
    Src,
    Dst,
    Proto,
    ProtoSrc,
    ProtoDst,
    Iif,
    Priority,
    Mark,
    Nfct,
    NfctSrc,
    NfctDst,
    NfctProtoSrc,
    NfctProtoDst,
    RtClassid,
    SkUid,
    SkGid,
    VlanTag,
    Rxhash
);

/// The firewall mark: the filter's `handle`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fw {
    /// Bits of the mark that count; default all.
    pub mask: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matchall {}

/// Fields of the dissected packet. Ports need `ip_proto`; addresses need `protocol` ip or ipv6, or all, with which they are found behind VLAN
/// tags too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flower {
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number.
    pub ip_proto: Option<IpProto>,
    pub src_ip: Option<Prefix>,
    pub dst_ip: Option<Prefix>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    /// TOS byte or traffic class; a DSCP's name leaves the ECN bits open.
    pub ip_tos: Option<Masked>,
    pub src_mac: Option<MacAddress>,
    pub dst_mac: Option<MacAddress>,
}

impl Flower {
    /// The protocol of the addresses that it asks for.
    pub fn family(&self) -> Option<Protocol> {
        let prefix = self.src_ip.or(self.dst_ip)?;
        Some(if prefix.address.is_ipv4() { Protocol::IP } else { Protocol::IPV6 })
    }
}

/// A BPF program as a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Bpf {
    pub program: BpfProgram,
    /// The program's return value is the verdict, and the class is set in the packet.
    pub direct_action: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BpfProgram {
    /// Pinned in a BPF file system.
    Pinned(PathBuf),
    /// Classic BPF, as `tcpdump -ddd` prints it: `N,code jt jf k,…`.
    Bytecode(Vec<[u32; 4]>),
    /// Loaded already by this process; can't be written to a file.
    Loaded {
        /// The program's file descriptor, open until the filter is applied.
        fd: i32,
        name: String,
    },
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BpfText {
    pinned: Option<PathBuf>,
    bytecode: Option<String>,
    direct_action: bool,
}

impl Serialize for Bpf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = BpfText { direct_action: self.direct_action, ..BpfText::default() };
        match &self.program {
            BpfProgram::Pinned(path) => text.pinned = Some(path.clone()),
            BpfProgram::Bytecode(code) => text.bytecode = Some(bytecode_text(code)),
            BpfProgram::Loaded { .. } => {}
        }
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bpf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = BpfText::deserialize(deserializer)?;
        let program = match (text.pinned, text.bytecode) {
            (Some(path), None) => BpfProgram::Pinned(path),
            (None, Some(code)) => {
                BpfProgram::Bytecode(parse_bytecode(&code).map_err(de::Error::custom)?)
            }
            _ => return Err(de::Error::custom("give one of `pinned` and `bytecode`")),
        };
        Ok(Bpf { program, direct_action: text.direct_action })
    }
}

pub(crate) fn bytecode_text(code: &[[u32; 4]]) -> String {
    let lines = code.iter().map(|[code, jt, jf, k]| format!(",{code} {jt} {jf} {k}"));
    std::iter::once(code.len().to_string()).chain(lines).collect()
}

fn parse_bytecode(text: &str) -> Result<Vec<[u32; 4]>, String> {
    let bad = || format!("\"{text}\" is not \"N,code jt jf k,…\" with N instructions");
    let mut parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let count: usize = parts.next().and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    let code: Vec<[u32; 4]> = parts
        .map(|line| {
            let numbers: Vec<u32> = line
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()
                .map_err(|_| bad())?;
            let [op, jt, jf, k]: [u32; 4] = numbers.try_into().map_err(|_| bad())?;
            let fits = op <= 0xffff && jt <= 0xff && jf <= 0xff;
            if fits { Ok([op, jt, jf, k]) } else { Err(bad()) }
        })
        .collect::<Result<_, _>>()?;
    // The kernel takes at most BPF_MAXINSNS.
    if code.len() == count && (1..=4096).contains(&count) { Ok(code) } else { Err(bad()) }
}

impl Filter {
    /// A filter on all protocols with this target.
    pub fn new(kind: impl Into<FilterKind>, class: Option<Handle>) -> Self {
        Filter {
            protocol: Protocol::ALL,
            prio: None,
            handle: None,
            class,
            kind: kind.into(),
            actions: Vec::new(),
        }
    }

    /// The same with one more action.
    pub fn with_action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Sends every packet to another device; u32 is in every kernel with filters, matchall is not.
    pub fn all_to(device: &str) -> Filter {
        let any = Match::Raw { width: 32, value: 0, mask: 0, at: 0, next_header: false };
        Filter::new(U32 { r#match: vec![any] }, None)
            .with_action(Action::Redirect(device.to_owned()))
    }

    /// The family of the addresses that it looks for in packets of any protocol, so behind VLAN tags too: `tc` has no words for that.
    pub fn family_behind_tags(&self) -> Option<Protocol> {
        match &self.kind {
            FilterKind::Flower(flower) => {
                flower.family().filter(|_| self.protocol == Protocol::ALL)
            }
            _ => None,
        }
    }

    /// True if no packet escapes it.
    pub fn is_catch_all(&self) -> bool {
        self.protocol == Protocol::ALL
            && match &self.kind {
                FilterKind::Matchall(_) => true,
                FilterKind::U32(u32) => {
                    u32.r#match.iter().flat_map(Match::keys).all(|key| key.mask == 0)
                }
                // A hash always gives a class; a map may lack its key.
                FilterKind::Flow(flow) => flow.mode == FlowMode::Hash,
                FilterKind::Flower(flower) => *flower == Flower::default(),
                // The classifier gives each packet a class, as long as nobody takes it away.
                FilterKind::Fw(_)
                | FilterKind::Bpf(_)
                | FilterKind::Classify(_)
                | FilterKind::Roster(_) => false,
            }
    }

    pub(crate) fn from_value(value: Value) -> Result<Filter, String> {
        let mut map = fields::table("filter", value)?;
        let kind: String = fields::take("filter", &mut map, "kind")?
            .ok_or("a filter needs `kind`, like kind = \"matchall\"")?;
        let what = format!("{kind} filter");
        let protocol = fields::take(&what, &mut map, "protocol")?.unwrap_or(Protocol::ALL);
        let prio = fields::take(&what, &mut map, "prio")?;
        let handle = fields::take(&what, &mut map, "handle")?;
        let class = fields::take(&what, &mut map, "class")?;
        let actions = fields::take_list(&mut map, "action")
            .into_iter()
            .map(|value| {
                serde_json::from_value(value).map_err(|error| format!("{what}: action: {error}"))
            })
            .collect::<Result<_, _>>()?;
        // One of these may stand alone, without brackets.
        for key in ["match", "keys"] {
            if let Some(one) = map.get_mut(key).filter(|value| value.is_string()) {
                *one = Value::Array(vec![one.take()]);
            }
        }
        let kind = FilterKind::from_fields(&kind, map)?;
        Ok(Filter { protocol, prio, handle, class, kind, actions })
    }

    /// All that was given, by name.
    pub fn fields(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("kind".into(), self.kind.name().into());
        if self.protocol != Protocol::ALL {
            map.insert("protocol".into(), self.protocol.to_string().into());
        }
        let mut put = |key: &str, value: Option<Value>| value.map(|v| map.insert(key.into(), v));
        put("prio", self.prio.map(Value::from));
        put("handle", self.handle.map(Value::from));
        put("class", self.class.map(|class| class.to_string().into()));
        map.extend(self.kind.fields());
        if !self.actions.is_empty() {
            map.insert("action".into(), serde_json::to_value(&self.actions).unwrap_or_default());
        }
        map
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Filter::from_value(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

macro_rules! filter_kinds {
    ($($variant:ident $name:literal),+) => {
        impl FilterKind {
            /// Every kind's name in a tree in a file.
            pub const KINDS: &'static [&'static str] = &[$($name),+];

            /// The kind's name in a tree.
            pub fn name(&self) -> &'static str {
                match self {
                    $(FilterKind::$variant(_) => $name,)+
                    FilterKind::Roster(_) => "roster",
                }
            }

            /// The kind's name, as the kernel spells it.
            pub fn kernel_name(&self) -> &'static str {
                match self {
                    FilterKind::Classify(_) | FilterKind::Roster(_) => "bpf",
                    other => other.name(),
                }
            }

            fn from_fields(kind: &str, map: Map<String, Value>) -> Result<Self, String> {
                match kind {
                    $($name => fields::parse(concat!($name, " filter"), map).map(Self::$variant),)+
                    other => Err(fields::unknown_kind("filter", other, Self::KINDS)),
                }
            }

            /// What it matches, by name.
            pub fn fields(&self) -> Map<String, Value> {
                match self {
                    $(FilterKind::$variant(options) => fields::of(options),)+
                    FilterKind::Roster(side) => {
                        Map::from_iter([("by".to_owned(), side.address().into())])
                    }
                }
            }
        }
    };
}

filter_kinds!(U32 "u32", Flow "flow", Fw "fw", Matchall "matchall", Flower "flower", Bpf "bpf", Classify "classify");

macro_rules! from_options {
    ($($kind:ident),+) => {
        $(impl From<$kind> for FilterKind {
            fn from(options: $kind) -> Self { FilterKind::$kind(options) }
        })+
    };
}

from_options!(U32, Flow, Fw, Matchall, Flower, Bpf);

impl From<Config> for FilterKind {
    fn from(config: Config) -> Self {
        FilterKind::Classify(Box::new(config))
    }
}

impl From<Side> for FilterKind {
    fn from(side: Side) -> Self {
        FilterKind::Roster(side)
    }
}
