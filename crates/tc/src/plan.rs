//! From a tree to the steps that make it: every handle assigned, every rule checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::validate::{self, TreeError};
use crate::{Class, ClassKind, Filter, Handle, Qdisc, Queue, Tree};

/// A tree as the kernel takes it: parents before children, classes before the filters that name them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In the order in which they are made.
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Qdisc {
        /// Where: [`Handle::ROOT`] or a class.
        parent: Handle,
        handle: Handle,
        qdisc: Qdisc,
    },
    /// The place for filters on incoming packets, or on both ways.
    Ingress { clsact: bool },
    Class {
        /// The class or queue above it.
        parent: Handle,
        id: Handle,
        /// Its options; never [`ClassKind::Band`].
        kind: ClassKind,
    },
    /// A filter; its priority is set.
    Filter {
        /// The queue, class or hook it hangs on.
        parent: Handle,
        filter: Filter,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Qdisc { parent: Handle::ROOT, handle, qdisc } => {
                write!(f, "root queue {handle} ({})", qdisc.kind())
            }
            Step::Qdisc { parent, handle, qdisc } => {
                write!(f, "queue {handle} ({}) in class {parent}", qdisc.kind())
            }
            Step::Ingress { clsact: true } => f.write_str("clsact qdisc"),
            Step::Ingress { clsact: false } => f.write_str("ingress qdisc"),
            Step::Class { parent, id, kind } => {
                write!(f, "{} class {id} under {parent}", kind.name())
            }
            Step::Filter { parent, filter } => {
                let prio = filter.prio.unwrap_or(0);
                write!(f, "{} filter {prio} at {}", filter.kind.name(), place(*parent))
            }
        }
    }
}

pub(crate) fn place(parent: Handle) -> String {
    match parent {
        Handle::CLSACT_INGRESS => "clsact ingress".into(),
        Handle::CLSACT_EGRESS => "clsact egress".into(),
        Handle::INGRESS_QDISC => "ingress".into(),
        other => other.to_string(),
    }
}

impl Tree {
    /// Checks the tree and puts it in order.
    ///
    /// Handles that are not given are assigned: a root queue is `1:`, a queue in class `1:10` is `10:` if that is
    /// free, and filters get rising priorities in the order in which they are written.
    ///
    /// # Errors
    /// The first rule that the tree breaks; see [`TreeError`].
    pub fn plan(&self) -> Result<Plan, TreeError> {
        let mut planner = Planner::default();
        if let Some(queue) = &self.queue {
            planner.collect(queue)?;
            planner.queue(Handle::ROOT, queue)?;
        }
        let mut used = BTreeSet::new();
        match (&self.ingress, &self.clsact) {
            (Some(_), Some(_)) => return Err(TreeError::IngressAndClsact),
            (Some(ingress), None) => {
                planner.steps.push(Step::Ingress { clsact: false });
                planner.filters(Handle::INGRESS_QDISC, None, &ingress.filters, &mut used)?;
            }
            (None, Some(clsact)) => {
                planner.steps.push(Step::Ingress { clsact: true });
                planner.filters(Handle::CLSACT_INGRESS, None, &clsact.ingress, &mut used)?;
                planner.filters(Handle::CLSACT_EGRESS, None, &clsact.egress, &mut used)?;
            }
            (None, None) => {}
        }
        Ok(Plan { steps: planner.steps })
    }
}

#[derive(Default)]
struct Planner {
    steps: Vec<Step>,
    /// Majors that somebody wrote down, or that were given out.
    taken: BTreeSet<u16>,
}

/// The classes of one queue, by id, for the filters that name them.
struct Targets<'a> {
    qdisc: &'a Qdisc,
    handle: Handle,
    classes: BTreeSet<u16>,
}

impl Planner {
    /// Takes note of every handle that is written down, so that none is given out twice.
    fn collect(&mut self, queue: &Queue) -> Result<(), TreeError> {
        if let Some(major) = written_major(queue) {
            let handle = Handle::qdisc(major);
            if !handle_is_usable(handle) || queue.handle.is_some_and(|own| !own.is_qdisc()) {
                return Err(TreeError::NotAQueueHandle { handle: queue.handle.unwrap_or(handle) });
            }
            if !self.taken.insert(major) {
                return Err(TreeError::Duplicate { handle });
            }
        }
        let mut below: Vec<&Class> = queue.classes.iter().collect();
        while let Some(class) = below.pop() {
            if let Some(queue) = &class.queue {
                self.collect(queue)?;
            }
            below.extend(&class.classes);
        }
        Ok(())
    }

    fn queue(&mut self, parent: Handle, queue: &Queue) -> Result<(), TreeError> {
        let major = match written_major(queue) {
            Some(major) => major,
            None => self.free_major(if parent == Handle::ROOT { 1 } else { parent.minor })?,
        };
        let handle = Handle::qdisc(major);
        validate::qdisc(handle, &queue.qdisc)?;
        self.steps.push(Step::Qdisc { parent, handle, qdisc: queue.qdisc.clone() });
        let mut targets = Targets { qdisc: &queue.qdisc, handle, classes: BTreeSet::new() };
        targets.collect(&queue.classes)?;
        self.classes(&mut targets, handle, &queue.classes)?;
        validate::default_class(&queue.qdisc, handle, &queue.classes)?;
        let mut used = BTreeSet::new();
        self.filters(handle, Some(&targets), &queue.filters, &mut used)?;
        self.class_filters(&targets, &queue.classes, &mut used)?;
        validate::catch_all(&queue.qdisc, handle, &queue.filters)
    }

    fn classes(
        &mut self,
        targets: &mut Targets<'_>,
        parent: Handle,
        classes: &[Class],
    ) -> Result<(), TreeError> {
        for (index, class) in classes.iter().enumerate() {
            let id = targets.id_of(index, class)?;
            validate::class(id, targets.qdisc, class)?;
            if class.kind != ClassKind::Band {
                self.steps.push(Step::Class { parent, id, kind: class.kind.clone() });
            }
            if let Some(queue) = &class.queue {
                self.queue(id, queue)?;
            }
            self.classes(targets, id, &class.classes)?;
            // Filters below a nested class may name any class of the queue: they come after all of these.
            if class.id.is_none() && !class.filters.is_empty() {
                return Err(TreeError::Class {
                    class: id,
                    problem: "a class with filters needs an `id`".into(),
                });
            }
        }
        Ok(())
    }

    fn class_filters(
        &mut self,
        targets: &Targets<'_>,
        classes: &[Class],
        used: &mut BTreeSet<u16>,
    ) -> Result<(), TreeError> {
        for class in classes {
            if let Some(id) = class.id {
                self.filters(id, Some(targets), &class.filters, used)?;
            }
            self.class_filters(targets, &class.classes, used)?;
        }
        Ok(())
    }

    /// `used` are priorities of other places on the same queue. The kernel keeps the u32 filters of a queue in one list
    /// by priority and shows all of one priority at each place, so no two places may share one.
    fn filters(
        &mut self,
        parent: Handle,
        targets: Option<&Targets<'_>>,
        filters: &[Filter],
        used: &mut BTreeSet<u16>,
    ) -> Result<(), TreeError> {
        let mut taken: BTreeSet<u16> = filters.iter().filter_map(|filter| filter.prio).collect();
        if let Some(prio) = taken.intersection(used).next() {
            return Err(TreeError::Filter {
                filter: format!("filter {prio} at {}", place(parent)),
                problem: "another place on the same queue has filters of this `prio`".into(),
            });
        }
        taken.extend(used.iter());
        let mut next = 1..=u16::MAX;
        // The first of each priority.
        let mut placed: BTreeMap<u16, &Filter> = BTreeMap::new();
        for wanted in filters {
            let mut filter = wanted.clone();
            let prio = filter.prio.or_else(|| next.find(|prio| !taken.contains(prio)));
            let prio = prio.ok_or(TreeError::NoHandleLeft)?;
            filter.prio = Some(prio);
            used.insert(prio);
            let place = || format!("{} filter at {}", filter.kind.name(), place(parent));
            validate::filter(&filter, placed.get(&prio).copied(), targets.is_some())
                .map_err(|problem| TreeError::Filter { filter: place(), problem })?;
            if let Some(targets) = targets {
                for class in filter.targets() {
                    targets.check(class, place)?;
                }
            }
            placed.entry(prio).or_insert(wanted);
            self.steps.push(Step::Filter { parent, filter });
        }
        Ok(())
    }

    fn free_major(&mut self, wished: u16) -> Result<u16, TreeError> {
        // From 8000: on the kernel gives out handles itself.
        let free = std::iter::once(wished)
            .chain(1..0x8000)
            .find(|major| (1..0x8000).contains(major) && !self.taken.contains(major))
            .ok_or(TreeError::NoHandleLeft)?;
        self.taken.insert(free);
        Ok(free)
    }
}

impl Targets<'_> {
    fn collect(&mut self, classes: &[Class]) -> Result<(), TreeError> {
        for class in classes {
            if let Some(id) = class.id {
                if id.major != self.handle.major || id.minor == 0 {
                    return Err(TreeError::WrongMajor { class: id, queue: self.handle });
                }
                if !self.classes.insert(id.minor) {
                    return Err(TreeError::Duplicate { handle: id });
                }
            }
            self.collect(&class.classes)?;
        }
        Ok(())
    }

    fn id_of(&mut self, index: usize, class: &Class) -> Result<Handle, TreeError> {
        if let Some(id) = class.id {
            return Ok(id);
        }
        let minor = match class.kind {
            ClassKind::Band => u16::try_from(index + 1).ok(),
            _ => (1..=u16::MAX).find(|minor| !self.classes.contains(minor)),
        }
        .ok_or(TreeError::NoHandleLeft)?;
        let id = Handle::class(self.handle.major, minor);
        if !self.classes.insert(minor) {
            return Err(TreeError::Duplicate { handle: id });
        }
        Ok(id)
    }

    fn check(&self, class: Handle, filter: impl Fn() -> String) -> Result<(), TreeError> {
        let known = match self.qdisc.implicit_classes() {
            // CAKE takes the major for the host and the minor for the flow.
            Some(_) if matches!(self.qdisc, Qdisc::Cake(_)) => true,
            Some(minors) => class.major == self.handle.major && minors.contains(&class.minor),
            None => class.major == self.handle.major && self.classes.contains(&class.minor),
        };
        if known {
            return Ok(());
        }
        Err(TreeError::UnknownClass { filter: filter(), class, queue: self.handle })
    }
}

/// The major that a person wrote, on the queue or on one of its classes.
fn written_major(queue: &Queue) -> Option<u16> {
    let of_class = || queue.classes.iter().find_map(|class| class.id).map(|id| id.major);
    queue.handle.map(|handle| handle.major).or_else(of_class)
}

fn handle_is_usable(handle: Handle) -> bool {
    handle.is_qdisc() && handle.major != 0 && handle.major != u16::MAX
}
