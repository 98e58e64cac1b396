//! Several readings of one device in one text, as before and after a test: the last one is meant.

use crate::record::{Attachment, Record, What};
use std::collections::{BTreeMap, BTreeSet};

/// Of queues, of classes and of filters of a device the last reading that has such, and which devices were read several times. A reading
/// begins with a root queue where there is one already.
pub(crate) fn keep_last(records: &mut Vec<Record>) -> Vec<String> {
    let mut readings: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(records.len());
    for record in records.iter() {
        let Some(device) = &record.device else {
            numbers.push(0);
            continue;
        };
        let (reading, has_root) = readings.entry(device.clone()).or_default();
        if matches!(&record.what, What::Queue(queue) if queue.place == Attachment::Root) {
            *reading += usize::from(std::mem::replace(has_root, true));
        }
        numbers.push(*reading);
    }
    if readings.values().all(|(last, _)| *last == 0) {
        return Vec::new();
    }
    let sort = |what: &What| match what {
        What::Queue(_) => 0,
        What::Class(_) => 1,
        What::Filter(_) | What::Asked(_) => 2,
    };
    let mut last: BTreeMap<(String, u8), usize> = BTreeMap::new();
    for (record, number) in records.iter().zip(&numbers) {
        if let Some(device) = &record.device {
            last.insert((device.clone(), sort(&record.what)), *number);
        }
    }
    // Classes of a queue that the last reading does not have are of no one.
    let mut majors: BTreeSet<(String, u16)> = BTreeSet::new();
    for (record, number) in records.iter().zip(&numbers) {
        if let (Some(device), What::Queue(queue)) = (&record.device, &record.what)
            && last[&(device.clone(), 0)] == *number
        {
            majors.insert((device.clone(), queue.handle.major));
        }
    }
    let mut numbers = numbers.into_iter();
    records.retain(|record| {
        let number = numbers.next().unwrap_or(0);
        let Some(device) = &record.device else { return true };
        let has = match &record.what {
            What::Class(class) => majors.contains(&(device.clone(), class.handle.major)),
            _ => true,
        };
        has && last[&(device.clone(), sort(&record.what))] == number
    });
    readings.into_iter().filter(|(_, (last, _))| *last > 0).map(|(device, _)| device).collect()
}
