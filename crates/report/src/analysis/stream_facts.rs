//! What facts tell of the streams of a cell, sorted once: each stream asks for its own, and there may be thousands.

use quell_model::{Subject, Told};
use quell_store::CellData;
use std::collections::HashMap;
use std::net::IpAddr;

#[derive(Debug, Clone, Default)]
pub struct Facts<'a> {
    streams: HashMap<&'a str, Vec<(&'a Told, &'a str)>>,
    ways: HashMap<(IpAddr, IpAddr), &'a str>,
    paths: HashMap<(IpAddr, IpAddr), &'a str>,
}

impl<'a> Facts<'a> {
    pub fn of(data: &'a CellData) -> Self {
        let mut facts = Self::default();
        for fact in &data.facts {
            let value = &*fact.value;
            match &fact.subject {
                Subject::Stream(stream, what) => {
                    facts.streams.entry(stream).or_default().push((what, value));
                }
                Subject::Way(from, to) => {
                    facts.ways.entry((*from, *to)).or_insert(value);
                }
                Subject::Path(from, to) => {
                    facts.paths.entry((*from, *to)).or_insert(value);
                }
                _ => {}
            }
        }
        facts
    }

    pub fn of_stream(&self, stream: &str) -> &[(&'a Told, &'a str)] {
        self.streams.get(stream).map_or(&[], |told| told)
    }

    pub fn told(&self, stream: &str, what: &Told) -> Option<&'a str> {
        self.of_stream(stream).iter().find(|(told, _)| *told == what).map(|(_, value)| *value)
    }

    /// The line that packets between two addresses have to share.
    pub fn way(&self, from: IpAddr, to: IpAddr) -> Option<&'a str> {
        self.ways.get(&(from, to)).copied()
    }

    pub fn path(&self, from: IpAddr, to: IpAddr) -> Option<&'a str> {
        self.paths.get(&(from, to)).copied()
    }
}
