//! Undo logs as older versions of Quell wrote them.
//!
//! ```text
//!   version 1    queues were known by other marks: can't be read; who finds one is told what to do
//!   version 2    no routes of single prefixes: can't be read either
//!   version 3    no classes that come and go; read, and written anew as the present one before anything is added
//!   version 4    the present one
//! ```

use crate::Before;
use crate::goal::{DeviceBefore, FileGoal, LinkGoal, OffloadGoal, RouteGoal, SysctlGoal};
use crate::made::{Made, Print};
use crate::record::{Begun, Earlier, Record, VERSION, Who};
use quell_model::frame::Decoder;
use serde::Deserialize;

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
        "{whose} Quell wrote it (version {version} of the log; this one reads 3 to {VERSION}): take off what it knows with that Quell (`{with}`); \
         or without it: {without}"
    )
}

/// A record of version 3.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) enum RecordOf3 {
    Begun(u32, Box<BegunOf3>),
    Applied(Option<u64>, Vec<MadeOf3>),
    Confirmed,
    Leaving(Who, Box<BeforeOf3>),
    Returning,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct BegunOf3 {
    boot: String,
    namespace: u64,
    device: String,
    index: Option<u32>,
    who: Who,
    wanted: String,
    recipe: String,
    earlier: Option<EarlierOf3>,
    before: BeforeOf3,
    origin: Option<BeforeOf3>,
    steps: Vec<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct BeforeOf3 {
    links: Vec<LinkGoal>,
    devices: Vec<DeviceBefore>,
    offloads: Vec<OffloadGoal>,
    sysctls: Vec<SysctlGoal>,
    routes: Vec<RouteGoal>,
    files: Vec<FileGoal>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct EarlierOf3 {
    wanted: String,
    recipe: String,
    made: Vec<MadeOf3>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
pub(crate) struct MadeOf3 {
    name: String,
    index: Option<u32>,
    things: Vec<Print>,
}

fn all_made(old: Vec<MadeOf3>) -> Vec<Made> {
    let one = |MadeOf3 { name, index, things }| Made { name, index, things, guests: Vec::new() };
    old.into_iter().map(one).collect()
}

impl From<EarlierOf3> for Earlier {
    fn from(EarlierOf3 { wanted, recipe, made }: EarlierOf3) -> Self {
        Earlier { wanted, recipe, made: all_made(made) }
    }
}

impl From<RecordOf3> for Record {
    fn from(record: RecordOf3) -> Self {
        match record {
            RecordOf3::Begun(version, begun) => {
                let now = if version == 3 { VERSION } else { version };
                Record::Begun(now, Box::new((*begun).into()))
            }
            RecordOf3::Applied(until, made) => Record::Applied(until, all_made(made)),
            RecordOf3::Confirmed => Record::Confirmed,
            RecordOf3::Leaving(who, before) => Record::Leaving(who, Box::new((*before).into())),
            RecordOf3::Returning => Record::Returning,
        }
    }
}

impl From<BegunOf3> for Begun {
    fn from(old: BegunOf3) -> Self {
        let BegunOf3 { boot, namespace, device, index, who, wanted, recipe, steps, .. } = old;
        let earlier = old.earlier.map(Into::into);
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

impl From<BeforeOf3> for Before {
    fn from(old: BeforeOf3) -> Self {
        let BeforeOf3 { links, devices, offloads, sysctls, routes, files } = old;
        let (guests, our_guests) = (Vec::new(), Vec::new());
        Before { links, devices, offloads, sysctls, routes, files, guests, our_guests }
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

    fn before(value: &str) -> BeforeOf3 {
        let key = "net/ipv4/ip_forward".to_owned();
        let sysctls = vec![SysctlGoal { key, value: value.into() }];
        let files =
            vec![FileGoal { path: "/etc/some".into(), content: Some((b"text".to_vec(), 0o644)) }];
        BeforeOf3 {
            links: vec![],
            devices: vec![],
            offloads: vec![],
            sysctls,
            routes: vec![],
            files,
        }
    }

    fn begun() -> BegunOf3 {
        BegunOf3 {
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

    fn written(path: &Path, records: &[RecordOf3]) {
        let bytes: Vec<u8> = records.iter().flat_map(|r| encode(r).unwrap()).collect();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_log_of_version_3_is_read_and_goes_on_as_the_present_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("4026531840-eth0.undo");
        let begin = || RecordOf3::Begun(3, Box::new(begun()));
        written(&path, &[begin(), RecordOf3::Applied(Some(9), vec![])]);
        let mut log = Log::read(&path).unwrap().unwrap();
        assert_eq!((log.standing, log.begun.clone()), (Standing::Awaiting(9), begun().into()));
        assert_eq!(version(&std::fs::read(&path).unwrap()), Some(3), "reading changes nothing");
        log.confirmed().unwrap();
        assert_eq!(version(&std::fs::read(&path).unwrap()), Some(VERSION));
        let again = log.again().unwrap().unwrap();
        assert_eq!((again.standing, again.begun), (Standing::Confirmed, log.begun));
        // One that was being taken off.
        let leaving = RecordOf3::Leaving(who(), Box::new(before("1")));
        written(&path, &[begin(), RecordOf3::Applied(None, vec![]), leaving]);
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
        let newer = said("1-:tune.undo", 5);
        for part in ["a newer Quell", "version 5", "quell tune revert", "tune.toml"] {
            assert!(newer.contains(part), "{part} in {newer}");
        }
    }
}
