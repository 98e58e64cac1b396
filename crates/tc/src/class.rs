//! Classes: the parts that a classful queue divides its traffic into.

mod kind;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

pub use kind::{ClassKind, Curve, HfscClass, HtbClass, RoundRobinClass};

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
