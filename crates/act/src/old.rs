//! Undo logs as older versions of Quell wrote them.
//!
//! ```text
//!   version 1    queues were known by other marks: can't be read; who finds one is told what to do
//!   version 2    no routes of single prefixes: can't be read either
//!   version 3    no classes that come and go: can't be read either
//!   version 4    no tables that mark hosts; read, and written anew as the present one before anything is added
//!   version 5    the present one
//! ```

use crate::goal::{DeviceBefore, FileGoal, LinkGoal, OffloadGoal, RouteGoal, SysctlGoal};
use crate::made::Made;
use crate::record::{Begun, Earlier, Record, VERSION, Who};
use crate::{Before, Guests};
use quell_model::frame::Decoder;
use serde::Deserialize;

/// The oldest version that is read.
pub(crate) const OLDEST: u32 = 4;

/// The version of a log's records; none where it does not begin as one.
pub(crate) fn version(bytes: &[u8]) -> Option<u32> {
    /// A record begins with its kind; what stands behind the version is nobody's matter here.
    #[derive(Deserialize)]
    enum Head {
        Begun(u32),
    }
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    match decoder.next_value() {
        Ok(Some(Head::Begun(version))) => Some(version),
        _ => None,
    }
}

/// Why a log of another version can't be read, and what to do.
pub(crate) fn unread(version: u32, is_tuning: bool) -> String {
    let whose = if version < VERSION { "an older" } else { "a newer" };
    let (with, without) = match is_tuning {
        true => (
            "quell tune revert",
            "remove this file and run `quell tune revert`, which goes by /var/lib/quell/tune.toml; settings that were made with --for-now go with the next boot",
        ),
        false => (
            "quell shape off",
            "look with `quell tree`, take off with `tc qdisc del` what is not to be there, and remove this file; all of it goes with the next boot",
        ),
    };
    format!(
        "{whose} Quell wrote it (version {version} of the log; this one reads {OLDEST} to {VERSION}): take off what it knows with that Quell (`{with}`); \
         or without it: {without}"
    )
}

/// A record of version 4.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) enum RecordOf4 {
    Begun(u32, Box<BegunOf4>),
    Applied(Option<u64>, Vec<Made>),
    Confirmed,
    Leaving(Who, Box<BeforeOf4>),
    Returning,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct BegunOf4 {
    boot: String,
    namespace: u64,
    device: String,
    index: Option<u32>,
    who: Who,
    wanted: String,
    recipe: String,
    earlier: Option<Earlier>,
    before: BeforeOf4,
    origin: Option<BeforeOf4>,
    steps: Vec<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct BeforeOf4 {
    links: Vec<LinkGoal>,
    devices: Vec<DeviceBefore>,
    offloads: Vec<OffloadGoal>,
    sysctls: Vec<SysctlGoal>,
    routes: Vec<RouteGoal>,
    files: Vec<FileGoal>,
    guests: Vec<Guests>,
    our_guests: Vec<Guests>,
}

impl From<RecordOf4> for Record {
    fn from(record: RecordOf4) -> Self {
        match record {
            RecordOf4::Begun(version, begun) => {
                let now = if version == OLDEST { VERSION } else { version };
                Record::Begun(now, Box::new((*begun).into()))
            }
            RecordOf4::Applied(until, made) => Record::Applied(until, made),
            RecordOf4::Confirmed => Record::Confirmed,
            RecordOf4::Leaving(who, before) => Record::Leaving(who, Box::new((*before).into())),
            RecordOf4::Returning => Record::Returning,
        }
    }
}

impl From<BegunOf4> for Begun {
    fn from(old: BegunOf4) -> Self {
        let BegunOf4 { boot, namespace, device, index, who, wanted, recipe, steps, .. } = old;
        let earlier = old.earlier;
        let (before, origin) = (old.before.into(), old.origin.map(Into::into));
        Begun {
            boot,
            namespace,
            device,
            index,
            who,
            wanted,
            recipe,
            earlier,
            before,
            origin,
            steps,
        }
    }
}

impl From<BeforeOf4> for Before {
    fn from(old: BeforeOf4) -> Self {
        let BeforeOf4 { links, devices, offloads, sysctls, routes, files, guests, our_guests } =
            old;
        let host_tables = Vec::new();
        Before { links, devices, offloads, sysctls, routes, files, guests, our_guests, host_tables }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Log, Standing};
    use quell_model::frame::encode;
    use serde::Serialize;
    use std::path::Path;

    fn who() -> Who {
        Who { pid: 7, command: "quell shape apply".into(), at: 1_795_413_461 }
    }

    fn before(value: &str) -> BeforeOf4 {
        let key = "net/ipv4/ip_forward".to_owned();
        let sysctls = vec![SysctlGoal { key, value: value.into() }];
        let files =
            vec![FileGoal { path: "/etc/some".into(), content: Some((b"text".to_vec(), 0o644)) }];
        BeforeOf4 {
            links: vec![],
            devices: vec![],
            offloads: vec![],
            sysctls,
            routes: vec![],
            files,
            guests: vec![],
            our_guests: vec![],
        }
    }

    fn begun() -> BegunOf4 {
        BegunOf4 {
            boot: "a boot".into(),
            namespace: 4_026_531_840,
            device: "eth0".into(),
            index: Some(2),
            who: who(),
            wanted: "10Mbit".into(),
            recipe: "a recipe".into(),
            earlier: None,
            before: before("0"),
            origin: None,
            steps: vec!["a step".into()],
        }
    }

    fn written(path: &Path, records: &[RecordOf4]) {
        let bytes: Vec<u8> = records.iter().flat_map(|r| encode(r).unwrap()).collect();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_log_of_version_4_is_read_and_goes_on_as_the_present_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("4026531840-eth0.undo");
        let begin = || RecordOf4::Begun(OLDEST, Box::new(begun()));
        written(&path, &[begin(), RecordOf4::Applied(Some(9), vec![])]);
        let mut log = Log::read(&path).unwrap().unwrap();
        assert_eq!((log.standing, log.begun.clone()), (Standing::Awaiting(9), begun().into()));
        assert_eq!(
            version(&std::fs::read(&path).unwrap()),
            Some(OLDEST),
            "reading changes nothing"
        );
        log.confirmed().unwrap();
        assert_eq!(version(&std::fs::read(&path).unwrap()), Some(VERSION));
        let again = log.again().unwrap().unwrap();
        assert_eq!((again.standing, again.begun), (Standing::Confirmed, log.begun));
        // One that was being taken off.
        let leaving = RecordOf4::Leaving(who(), Box::new(before("1")));
        written(&path, &[begin(), RecordOf4::Applied(None, vec![]), leaving]);
        let left = Log::read(&path).unwrap().unwrap();
        assert_eq!(
            (left.standing, &left.begun.before),
            (Standing::Unfinished, &before("1").into())
        );
    }

    #[test]
    fn of_a_version_that_is_not_known_it_is_said_what_to_do() {
        #[derive(Serialize)]
        enum Strange {
            Begun(u32, &'static str),
        }
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, version| {
            let path = folder.path().join(name);
            std::fs::write(&path, encode(&Strange::Begun(version, "what else is there")).unwrap())
                .unwrap();
            Log::read(&path).unwrap_err().to_string()
        };
        let older = said("1-eth0.undo", 1);
        for part in [
            "1-eth0.undo",
            "an older Quell",
            "version 1",
            "quell shape off",
            "tc qdisc del",
            "remove this file",
        ] {
            assert!(older.contains(part), "{part} in {older}");
        }
        let newer = said("1-:tune.undo", 6);
        for part in ["a newer Quell", "version 6", "quell tune revert", "tune.toml"] {
            assert!(newer.contains(part), "{part} in {newer}");
        }
    }
}
