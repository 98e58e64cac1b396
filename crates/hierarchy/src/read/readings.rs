//! Several readings of one device in one text, as before and after a test: the last one is meant, and the first one is kept beside it.

use crate::record::{Attachment, Record, What};
use std::collections::{BTreeMap, BTreeSet};

/// What was told before the last reading.
#[derive(Default)]
pub(crate) struct Earlier {
    /// Devices that were read several times.
    pub devices: Vec<String>,
    /// Their first readings.
    pub records: Vec<Record>,
    /// Where the first and the last reading of the first of them begin.
    pub lines: Option<(usize, usize)>,
}

/// Leaves of queues, of classes and of filters of a device the last reading that has such. A reading begins with a root queue where there is
/// one already.
pub(crate) fn keep_last(records: &mut Vec<Record>) -> Earlier {
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
        return Earlier::default();
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
    let again = |device: &String| readings.get(device).is_some_and(|(last, _)| *last > 0);
    let devices: Vec<String> = readings.keys().filter(|device| again(device)).cloned().collect();
    let first = records
        .iter()
        .zip(&numbers)
        .filter(|(record, number)| **number == 0 && record.device.as_ref().is_some_and(again));
    let begins = |wanted: usize| {
        let of = |record: &Record| record.device.as_ref() == devices.first();
        let found = records.iter().zip(&numbers).find(|(r, number)| **number == wanted && of(r));
        found.map(|(record, _)| record.line)
    };
    let last_number = devices.first().map_or(0, |device| readings[device].0);
    let earlier = Earlier {
        records: first.map(|(record, _)| record.clone()).collect(),
        lines: begins(0).zip(begins(last_number)),
        devices: devices.clone(),
    };
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
    earlier
}
