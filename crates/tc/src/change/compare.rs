//! Whether a queue or class is as it is wanted.
//!
//! Options are compared as a person reads them, which takes its time; of thousands most ask for the same and have the same.

use std::cell::RefCell;

use super::thing::{Seen, Thing};
use crate::diff::{class_unlike, qdisc_unlike};
use crate::observed::{ObservedClass, ObservedQdisc};
use crate::{ClassKind, Qdisc, Step};

/// How a queue is not as it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    /// In options that can be changed where it is.
    Alter,
    /// In others.
    Replace,
}

/// What was compared last.
#[derive(Default)]
pub(super) struct KnownSteps<'a> {
    queues: Recent<'a, Qdisc, Difference>,
    classes: Recent<'a, ClassKind, bool>,
}

impl<'a> KnownSteps<'a> {
    pub(super) fn difference(&self, thing: &'a Thing, here: &'a ObservedQdisc) -> Difference {
        match thing {
            Thing::Seen(Seen { raw, .. }) if *raw == here.raw => Difference::None,
            Thing::Seen(_) => Difference::Replace,
            Thing::Step(Step::Qdisc { qdisc, .. }) => {
                self.queues.of(qdisc, &here.options, || of_queue(qdisc, here))
            }
            Thing::Step(_) => Difference::None,
        }
    }

    pub(super) fn is_class(&self, thing: &'a Thing, here: &'a ObservedClass) -> bool {
        match thing {
            Thing::Seen(seen) => seen.raw == here.raw,
            Thing::Step(Step::Class { kind, .. }) => {
                let same = || class_unlike(kind, here).is_empty();
                self.classes.of(kind, &here.options, same)
            }
            Thing::Step(_) => false,
        }
    }
}

fn of_queue(qdisc: &Qdisc, here: &ObservedQdisc) -> Difference {
    let unlike = qdisc_unlike(qdisc, here);
    if unlike.is_empty() {
        return Difference::None;
    }
    let changeable = qdisc.changeable().map(|q| q.fields()).unwrap_or_default();
    let all = unlike.iter().all(|(field, ..)| changeable.contains_key(field));
    if all { Difference::Alter } else { Difference::Replace }
}

/// Tariffs that a line's subscribers have, at most; more are compared each time.
const MOST: usize = 16;

/// Comparisons of what is wanted with what is there, the last one at the end.
struct Recent<'a, T, R>(RefCell<Vec<(&'a T, &'a Option<T>, R)>>);

impl<T, R> Default for Recent<'_, T, R> {
    fn default() -> Self {
        Recent(RefCell::default())
    }
}

impl<'a, T: PartialEq, R: Copy> Recent<'a, T, R> {
    fn of(&self, wanted: &'a T, here: &'a Option<T>, compare: impl FnOnce() -> R) -> R {
        let mut list = self.0.borrow_mut();
        let same = |(w, h, _): &(&T, &Option<T>, R)| *w == wanted && *h == here;
        if let Some(at) = list.iter().rposition(same) {
            let found = list.remove(at);
            list.push(found);
            return found.2;
        }
        let result = compare();
        if list.len() == MOST {
            list.remove(0);
        }
        list.push((wanted, here, result));
        result
    }
}
