//! Queues that empty at the same pace. Pure.
//!
//! ```text
//!                                   ┌──┐
//!                         ┌──┐      │  │
//!               ┌──┐      │  │      │  │      each is entered with the level at which it will be empty: as it rises, nothing is done
//!   level ▲ ════╪══╪══════╪══╪══════╪══╪═══   for those that still wait, and those that it has passed are gone
//! ```
//!
//! That all are paid the same, and none more than it has, is one figure that rises: by what is paid, divided by those that are there.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Queues by their names, each with something that is kept while it is not empty.
#[derive(Debug)]
pub struct Level<K, V> {
    /// What a queue was paid that has been there all the time.
    level: f64,
    /// All that is queued.
    queued: f64,
    queues: HashMap<K, Queue<V>>,
    /// Which is empty first. No level is below zero, and so their bits have the order of the levels.
    ends: BTreeSet<(u64, K)>,
}

#[derive(Debug)]
struct Queue<V> {
    /// The level at which it is empty.
    end: f64,
    kept: V,
}

impl<K, V> Default for Level<K, V> {
    fn default() -> Self {
        Self { level: 0.0, queued: 0.0, queues: HashMap::new(), ends: BTreeSet::new() }
    }
}

impl<K: Copy + Ord + Hash, V: Default> Level<K, V> {
    /// All that is queued.
    pub fn queued(&self) -> f64 {
        self.queued
    }

    /// How many queues are not empty.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Those that are not empty.
    pub fn names(&self) -> Vec<K> {
        self.queues.keys().copied().collect()
    }

    /// What is in this queue; none where it is empty.
    pub fn of(&self, name: K) -> Option<f64> {
        self.queues.get(&name).map(|queue| queue.end - self.level)
    }

    /// What is kept with this queue.
    pub fn get(&self, name: K) -> Option<&V> {
        self.queues.get(&name).map(|queue| &queue.kept)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: K) -> Option<&mut V> {
        self.queues.get_mut(&name).map(|queue| &mut queue.kept)
    }

    /// So much more is in this queue; what is kept with it.
    pub fn add(&mut self, name: K, much: f64) -> &mut V {
        let new = || Queue { end: self.level, kept: V::default() };
        let queue = self.queues.entry(name).or_insert_with(new);
        self.ends.remove(&(queue.end.to_bits(), name));
        queue.end += much;
        self.ends.insert((queue.end.to_bits(), name));
        self.queued += much;
        &mut queue.kept
    }

    /// Pays so much; what was kept with those that are empty by it. What nobody has is not saved up.
    pub fn pay(&mut self, much: f64) -> Vec<V> {
        let (mut left, mut gone) = (much.max(0.0), Vec::new());
        while let Some((end, name)) = self.ends.first().copied() {
            let among = self.ends.len() as f64;
            let rise = (f64::from_bits(end) - self.level).max(0.0);
            if rise * among > left {
                self.level += left / among;
                self.queued = (self.queued - left).max(0.0);
                return gone;
            }
            left -= rise * among;
            self.queued = (self.queued - rise * among).max(0.0);
            self.level = f64::from_bits(end);
            self.ends.pop_first();
            gone.extend(self.queues.remove(&name).map(|queue| queue.kept));
        }
        // Nobody is there, and no rest of the arithmetic either.
        (self.level, self.queued) = (0.0, 0.0);
        gone
    }
}
