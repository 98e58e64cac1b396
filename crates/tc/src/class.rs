//! Classes: the parts that a classful queue divides its traffic into.

use quell_units::{Bytes, Rate, Span};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::qdisc::LinkLayer;
use crate::tree::ordered;
use crate::{Filter, Handle, Qdisc, Queue, fields};

/// A class, what is in it, and the queue at its leaf.
///
/// Its options are those of the queue that it is in; in a file the kind is never written.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The class's name; given by [`Tree::plan`](crate::Tree::plan) if absent. A band's minor is its number from 1.
    pub id: Option<Handle>,
    /// Its options.
    pub kind: ClassKind,
    /// The queue at its leaf; the kernel puts a FIFO there if absent.
    pub queue: Option<Box<Queue>>,
    /// Classes below it (HTB and HFSC only).
    pub classes: Vec<Class>,
    /// Filters that choose among the classes below it.
    pub filters: Vec<Filter>,
}

/// A class's options, by the queue it is in.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassKind {
    /// In HTB.
    Htb(HtbClass),
    /// In HFSC.
    Hfsc(HfscClass),
    /// In DRR.
    Drr(RoundRobinClass),
    /// A band of prio or ets, or the one place inside tbf, netem or red: nothing to choose but the queue.
    Band,
}

/// A class of HTB.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HtbClass {
    /// What it gets for sure; must be given.
    pub rate: Option<Rate>,
    /// What it may have if others leave it; default `rate`.
    pub ceil: Option<Rate>,
    /// Bytes that may pass at once at `rate`'s expense; default rate / HZ and a packet of 1600.
    pub burst: Option<Bytes>,
    /// The same for `ceil`.
    pub cburst: Option<Bytes>,
    /// Who gets what others leave, 0 first, 7 last; default 0.
    pub prio: Option<u8>,
    /// Bytes in its turn among classes of one priority; default rate / r2q.
    pub quantum: Option<Bytes>,
    /// Bytes added to each packet.
    pub overhead: Option<u16>,
    /// The least that a packet counts as.
    pub mpu: Option<u16>,
    /// Largest packet for the rate table; default 1600.
    pub mtu: Option<Bytes>,
    /// Framing of the link.
    pub linklayer: Option<LinkLayer>,
}

/// A class of HFSC: at least one of `rt` and `ls`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HfscClass {
    /// Guaranteed service.
    pub rt: Option<Curve>,
    /// Share of what is left.
    pub ls: Option<Curve>,
    /// Upper limit of the share.
    pub ul: Option<Curve>,
}

/// A service curve: `m1` for the first `d`, `m2` from then on. A bare rate is a straight line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Slope at first; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub m1: Option<Rate>,
    /// How long `m1` holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d: Option<Span>,
    /// Slope from then on.
    pub m2: Rate,
}

/// A class of DRR.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoundRobinClass {
    /// Bytes in a turn; default the device's MTU with its header.
    pub quantum: Option<Bytes>,
}

impl From<HtbClass> for ClassKind {
    fn from(options: HtbClass) -> Self {
        ClassKind::Htb(options)
    }
}

impl From<HfscClass> for ClassKind {
    fn from(options: HfscClass) -> Self {
        ClassKind::Hfsc(options)
    }
}

impl From<RoundRobinClass> for ClassKind {
    fn from(options: RoundRobinClass) -> Self {
        ClassKind::Drr(options)
    }
}

impl ClassKind {
    /// The kind that a class has under this queue, without options; `None` under a classless one.
    pub fn under(qdisc: &Qdisc) -> Option<ClassKind> {
        Some(match qdisc {
            Qdisc::Htb(_) => ClassKind::Htb(HtbClass::default()),
            Qdisc::Hfsc(_) => ClassKind::Hfsc(HfscClass::default()),
            Qdisc::Drr(_) => ClassKind::Drr(RoundRobinClass::default()),
            other if other.is_classful() => ClassKind::Band,
            _ => return None,
        })
    }

    /// The kind's name, as the kernel spells it; a band has none of its own.
    pub fn name(&self) -> &'static str {
        match self {
            ClassKind::Htb(_) => "htb",
            ClassKind::Hfsc(_) => "hfsc",
            ClassKind::Drr(_) => "drr",
            ClassKind::Band => "band",
        }
    }

    /// True where classes may hold classes.
    pub fn nests(&self) -> bool {
        matches!(self, ClassKind::Htb(_) | ClassKind::Hfsc(_))
    }

    /// The options that were given, by name.
    pub fn fields(&self) -> Map<String, Value> {
        match self {
            ClassKind::Htb(options) => fields::of(options),
            ClassKind::Hfsc(options) => fields::of(options),
            ClassKind::Drr(options) => fields::of(options),
            ClassKind::Band => Map::new(),
        }
    }

    fn with_fields(&self, what: &str, map: Map<String, Value>) -> Result<ClassKind, String> {
        Ok(match self {
            ClassKind::Htb(_) => ClassKind::Htb(fields::parse(what, map)?),
            ClassKind::Hfsc(_) => ClassKind::Hfsc(fields::parse(what, curves(map)?)?),
            ClassKind::Drr(_) => ClassKind::Drr(fields::parse(what, map)?),
            ClassKind::Band => match map.keys().next() {
                None => ClassKind::Band,
                Some(key) => {
                    return Err(format!(
                        "{what}: unknown field `{key}`: a band has only `id`, `queue` and `filter`"
                    ));
                }
            },
        })
    }
}

/// Writes a bare rate out as a curve.
fn curves(mut map: Map<String, Value>) -> Result<Map<String, Value>, String> {
    for key in ["rt", "ls", "ul"] {
        if let Some(rate) = map.get(key).filter(|value| !value.is_object()).cloned() {
            map.insert(key.into(), Value::Object(Map::from_iter([("m2".to_owned(), rate)])));
        }
    }
    Ok(map)
}

impl Class {
    /// A class with its options, without a queue, classes or filters of its own.
    pub fn new(id: Handle, kind: impl Into<ClassKind>) -> Self {
        Self {
            id: Some(id),
            kind: kind.into(),
            queue: None,
            classes: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// The same with a queue at its leaf.
    pub fn with_queue(mut self, queue: impl Into<Queue>) -> Self {
        self.queue = Some(Box::new(queue.into()));
        self
    }

    /// The same with a class below it.
    pub fn with_class(mut self, class: Class) -> Self {
        self.classes.push(class);
        self
    }

    pub(crate) fn from_value(parent: &Qdisc, value: Value) -> Result<Class, String> {
        let what = format!("{} class", parent.kind());
        let Some(kind) = ClassKind::under(parent) else {
            return Err(format!(
                "a class under `{}`, which has none: put classes under htb, hfsc, drr, prio or ets",
                parent.kind()
            ));
        };
        let mut map = fields::table(&what, value)?;
        let id: Option<Handle> = fields::take(&what, &mut map, "id")?;
        let what = id.map_or(what, |id| format!("{} class {id}", parent.kind()));
        let inside = |error: String| format!("{what}: {error}");
        let queue = fields::take(&what, &mut map, "queue")?;
        let classes = fields::take_list(&mut map, "class")
            .into_iter()
            .map(|value| Class::from_value(parent, value).map_err(inside))
            .collect::<Result<_, _>>()?;
        let filters = fields::take_list(&mut map, "filter")
            .into_iter()
            .map(|value| Filter::from_value(value).map_err(inside))
            .collect::<Result<_, _>>()?;
        let kind = kind.with_fields(&what, map)?;
        Ok(Class { id, kind, queue, classes, filters })
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut first = Map::new();
        if let Some(id) = self.id {
            first.insert("id".into(), Value::String(id.to_string()));
        }
        ordered(
            serializer,
            [first, self.kind.fields()],
            self.queue.as_deref(),
            &self.classes,
            &self.filters,
        )
    }
}
