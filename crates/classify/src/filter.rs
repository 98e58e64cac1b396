//! Filters of a tree that ask for the classifier, with a program loaded for each.
//!
//! ```text
//!   Filter { kind: Classify(config) } ──load──► Filter { kind: Bpf(fd, named after config) } ──► the kernel
//! ```
//!
//! The name is all of the configuration, so that whoever reads the filter back has it again. Two filters have two programs, with tables of
//! their own.

use std::os::fd::AsRawFd;

use quell_tc::{Bpf, BpfProgram, Change, Class, Filter, FilterKind, Queue, Step, Thing, Tree};

use crate::roster::RosterProgram;
use crate::{Classifier, ClassifyError};

/// Programs that filters name by their descriptors: they must reach the kernel while this lives.
#[derive(Default)]
pub struct Loaded {
    classifiers: Vec<Classifier>,
    rosters: Vec<RosterProgram>,
}

impl Loaded {
    fn filter(&mut self, filter: &mut Filter) -> Result<(), ClassifyError> {
        if let FilterKind::Classify(config) = &filter.kind {
            let program = Classifier::load(config)?;
            let (fd, name) = (program.fd().as_raw_fd(), config.to_string());
            filter.kind =
                Bpf { program: BpfProgram::Loaded { fd, name }, direct_action: false }.into();
            self.classifiers.push(program);
        }
        if let FilterKind::Roster(side) = filter.kind {
            // Whoever put it there enters subscribers then.
            let program = RosterProgram::load(side)?;
            let (fd, name) = (program.fd().as_raw_fd(), side.filter_name().to_owned());
            filter.kind =
                Bpf { program: BpfProgram::Loaded { fd, name }, direct_action: false }.into();
            self.rosters.push(program);
        }
        Ok(())
    }

    fn queue(&mut self, queue: &mut Queue) -> Result<(), ClassifyError> {
        queue.filters.iter_mut().try_for_each(|filter| self.filter(filter))?;
        queue.classes.iter_mut().try_for_each(|class| self.class(class))
    }

    fn class(&mut self, class: &mut Class) -> Result<(), ClassifyError> {
        class.filters.iter_mut().try_for_each(|filter| self.filter(filter))?;
        class.queue.iter_mut().try_for_each(|queue| self.queue(queue))?;
        class.classes.iter_mut().try_for_each(|class| self.class(class))
    }
}

/// A change as the kernel takes it, where it makes a classifier; none where it is as it is. `seen` says of what was once seen which step
/// makes it again, if it was a classifier.
pub fn ready(
    change: &Change,
    seen: impl Fn(&quell_tc::Seen) -> Option<Step>,
    loaded: &mut Loaded,
) -> Result<Option<Change>, ClassifyError> {
    let thing = match change {
        Change::Make(thing) | Change::Alter(thing) => thing,
        Change::Remove { .. } => return Ok(None),
    };
    let step = match thing {
        Thing::Step(step @ Step::Filter { filter, .. }) => {
            let ours = matches!(filter.kind, FilterKind::Classify(_) | FilterKind::Roster(_));
            ours.then(|| step.clone())
        }
        Thing::Step(_) => None,
        Thing::Seen(once) => seen(once),
    };
    let Some(Step::Filter { parent, mut filter }) = step else { return Ok(None) };
    loaded.filter(&mut filter)?;
    let thing = Thing::Step(Step::Filter { parent, filter });
    Ok(Some(match change {
        Change::Alter(_) => Change::Alter(thing),
        _ => Change::Make(thing),
    }))
}

/// Loads a program for each filter of a tree that asks for one, and names it there.
pub fn ready_tree(tree: &mut Tree) -> Result<Loaded, ClassifyError> {
    let mut loaded = Loaded::default();
    // On the way in there are no classes to choose between.
    tree.queue.iter_mut().try_for_each(|queue| loaded.queue(queue))?;
    Ok(loaded)
}
