//! What is wanted on one interface.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::class::ClassKind;
use crate::{Filter, Handle, Qdisc, fields};

/// Everything wanted on one interface: the queue on the way out and what happens on the way in.
///
/// ```
/// let tree: quell_tc::Tree = toml::from_str(r#"queue = "fq_codel""#).unwrap();
/// assert_eq!(quell_tc::commands(&tree.plan().unwrap(), "eth0"), [
///     "tc qdisc replace dev eth0 root handle 1: fq_codel"
/// ]);
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tree {
    /// The root queue; the device keeps what it has if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Filters for incoming packets. Not together with `clsact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// Filters on both ways, before any queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clsact: Option<Clsact>,
}

/// The ingress qdisc: only a place for filters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingress {
    /// In the order in which they are tried.
    #[serde(rename = "filter", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

/// The clsact qdisc: a place for filters on both ways.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clsact {
    /// For incoming packets, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Filter>,
    /// For outgoing packets, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Filter>,
}

/// A queue with its classes and filters. In a file a bare name is a queue with no options.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// The queue's name; given by [`Tree::plan`] if absent.
    pub handle: Option<Handle>,
    pub qdisc: Qdisc,
    pub classes: Vec<Class>,
    /// Its filters, in the order in which they are tried.
    pub filters: Vec<Filter>,
}

impl<Q: Into<Qdisc>> From<Q> for Queue {
    fn from(qdisc: Q) -> Self {
        Queue { handle: None, qdisc: qdisc.into(), classes: Vec::new(), filters: Vec::new() }
    }
}

impl From<Queue> for Tree {
    fn from(queue: Queue) -> Self {
        Tree { queue: Some(queue), ..Tree::default() }
    }
}

impl Queue {
    /// The same under this handle.
    pub fn with_handle(mut self, handle: Handle) -> Self {
        self.handle = Some(handle);
        self
    }

    /// The same with one more class.
    pub fn with_class(mut self, class: Class) -> Self {
        self.classes.push(class);
        self
    }

    /// The same with one more filter, tried after those before it.
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    fn from_value(value: Value) -> Result<Queue, String> {
        let mut map = match value {
            Value::String(kind) => Map::from_iter([("kind".to_owned(), Value::String(kind))]),
            Value::Object(map) => map,
            other => {
                return Err(format!(
                    "expected a queue's name or a table with `kind`, found {other}"
                ));
            }
        };
        let kind: String = fields::take("queue", &mut map, "kind")?
            .ok_or("a queue needs `kind`, like kind = \"fq_codel\"")?;
        let handle = fields::take(&kind, &mut map, "handle")?;
        let classes = fields::take_list(&mut map, "class");
        let filters = fields::take_list(&mut map, "filter")
            .into_iter()
            .map(|value| Filter::from_value(value).map_err(|error| format!("{kind}: {error}")))
            .collect::<Result<_, _>>()?;
        let qdisc = Qdisc::from_fields(&kind, map)?;
        let classes = classes
            .into_iter()
            .map(|value| Class::from_value(&qdisc, value))
            .collect::<Result<_, _>>()?;
        Ok(Queue { handle, qdisc, classes, filters })
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Queue::from_value(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.qdisc.fields();
        if self.handle.is_none()
            && own.is_empty()
            && self.classes.is_empty()
            && self.filters.is_empty()
        {
            return serializer.serialize_str(self.qdisc.kind());
        }
        let mut first = Map::new();
        first.insert("kind".into(), Value::String(self.qdisc.kind().into()));
        if let Some(handle) = self.handle {
            first.insert("handle".into(), Value::String(handle.to_string()));
        }
        ordered(serializer, [first, own], None, &self.classes, &self.filters)
    }
}

/// A class, what is in it, and the queue at its leaf.
///
/// Its options are those of the queue that it is in; in a file the kind is never written.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The class's name; given by [`Tree::plan`](crate::Tree::plan) if absent. A band's minor is its number from 1.
    pub id: Option<Handle>,
    pub kind: ClassKind,
    /// The queue at its leaf; the kernel puts a FIFO there if absent.
    pub queue: Option<Box<Queue>>,
    /// Classes below it (HTB and HFSC only).
    pub classes: Vec<Class>,
    /// Filters that choose among the classes below it.
    pub filters: Vec<Filter>,
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

    fn from_value(parent: &Qdisc, value: Value) -> Result<Class, String> {
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

/// Writes a table with its plain values first, as TOML wants it.
fn ordered<S: Serializer>(
    serializer: S,
    plain: [Map<String, Value>; 2],
    queue: Option<&Queue>,
    classes: &[Class],
    filters: &[Filter],
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (key, value) in plain.iter().flatten() {
        map.serialize_entry(key, value)?;
    }
    if let Some(queue) = queue {
        map.serialize_entry("queue", queue)?;
    }
    if !classes.is_empty() {
        map.serialize_entry("class", classes)?;
    }
    if !filters.is_empty() {
        map.serialize_entry("filter", filters)?;
    }
    map.end()
}
