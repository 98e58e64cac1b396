//! Parts of a run from many machines become the run of one; what is no whole run is refused by name.

use crate::common::{cells, events, fill, frames, manifest};
use quell_model::manifest::RunPart;
use quell_model::{CellId, Manifest};
use quell_store::{RunWriter, gather};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const TABLES: [&str; 5] =
    ["samples.parquet", "flows.parquet", "queues.parquet", "outputs.jsonl", "facts.jsonl"];

/// One part of the four cells: a folder, its journals written up to so many bytes of the last.
fn part(
    base: &Path,
    number: u32,
    of: u32,
    places: &[u64],
    change: &dyn Fn(&mut Manifest),
) -> PathBuf {
    part_of(base, number, of, places, change, true)
}

fn part_of(
    base: &Path,
    number: u32,
    of: u32,
    places: &[u64],
    change: &dyn Fn(&mut Manifest),
    is_whole: bool,
) -> PathBuf {
    let own: Vec<CellId> = places.iter().map(|at| cells()[*at as usize].clone()).collect();
    let mut manifest = manifest(&own);
    let (plans, places) = ("same".to_owned(), places.to_vec());
    manifest.part = Some(RunPart { number, of, whole: 4, places, plans });
    manifest.machine.insert("name".into(), format!("machine-{number}"));
    manifest.started = format!("2026-11-21T10:15:0{number}Z");
    manifest.wall_s = Some(1.5);
    change(&mut manifest);
    let writer = RunWriter::create(base, manifest.clone()).unwrap();
    let folder = writer.folder().to_path_buf();
    fill(&writer, &own[..if is_whole { own.len() } else { 1 }]);
    if is_whole {
        writer.finish(manifest).unwrap();
    }
    folder
}

#[test]
fn two_parts_make_the_bytes_of_one_machine() {
    let base = tempdir().unwrap();
    let folders =
        [part(base.path(), 2, 2, &[0, 3], &|_| ()), part(base.path(), 1, 2, &[1, 2], &|_| ())];
    assert!(folders[0].ends_with("20261121T101502-home-link-part-2-of-2"), "{folders:?}");
    let killed = part_of(base.path(), 1, 2, &[1, 2], &|_| (), false);
    let all = [&folders[..], std::slice::from_ref(&killed)].concat();
    let out = base.path().join("whole");
    let gathered = gather(&all, &out).unwrap();
    let aside: Vec<_> = gathered.left_aside.iter().map(|part| &part.folder).collect();
    assert_eq!(aside, [&killed], "a part that was run again counts");
    let by: Vec<_> = gathered.measured_by.iter().map(|p| &gathered.parts[*p].folder).collect();
    assert_eq!(by, [&folders[0], &folders[1], &folders[1], &folders[0]]);

    let one = crate::common::finished(base.path());
    for table in TABLES {
        assert!(
            fs::read(one.join(table)).unwrap() == fs::read(out.join(table)).unwrap(),
            "{table}"
        );
    }
    let read = |folder: &Path| {
        let text = fs::read_to_string(folder.join("manifest.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let (mut one, mut whole) = (read(&one), read(&out));
    let of_machines = ["run", "started", "machine", "wall_s"];
    let said = of_machines.map(|key| whole[key].clone());
    let wanted = [
        "whole".into(),
        "2026-11-21T10:15:01Z".into(),
        serde_json::json!({"name": "machine-1, machine-2"}),
        3.0.into(),
    ];
    assert_eq!(said, wanted);
    for manifest in [&mut one, &mut whole] {
        of_machines.iter().for_each(|key| manifest[*key] = ().into());
    }
    assert_eq!(one, whole);
}

#[test]
fn what_is_no_whole_run_is_refused_by_name_and_nothing_is_written() {
    type Change = fn(&mut Manifest);
    let same: Change = |_| ();
    let case = |second: (u32, u32, &[u64], Change), wanted: &str| {
        let base = tempdir().unwrap();
        let (number, of, places, change) = second;
        let folders = [
            part(base.path(), 1, 2, &[1, 2], &same),
            part(base.path(), number, of, places, &change),
        ];
        let out = base.path().join("whole");
        let said = gather(&folders, &out).unwrap_err().to_string();
        let said = said.replace(&format!("{}/", base.path().display()), "");
        assert!(said.contains(wanted), "{wanted}: {said}");
        assert!(!out.exists());
    };
    let (first, second) =
        ("20261121T101501-home-link-part-1-of-2", "20261121T101502-home-link-part-2-of-2");
    let mixed = |what: &str| format!("{first} and {second} are of different runs: {what}");
    case(
        (1, 2, &[1, 2], same),
        &format!(
            "part 1/2 is there twice, in {first} and {first}-2, with the same bytes; leave one out"
        ),
    );
    case((1, 2, &[1, 3], same), "with other bytes");
    case(
        (2, 2, &[0], same),
        "manifest.json is damaged: the measurements of all parts are not those of the whole run",
    );
    case((2, 2, &[0, 2], same), "each once");
    case(
        (2, 2, &[0, 3], |m| m.quell = "0.2.0".into()),
        &mixed("Quell's version is \"0.1.0\" and \"0.2.0\""),
    );
    case((2, 2, &[0, 3], |m| m.seed = 3), &mixed("the seed is \"18446744073709551615\" and \"3\""));
    case(
        (2, 2, &[0, 3], |m| m.experiment_text = "[other]\n".into()),
        &mixed("a line of the experiment is \"[topology]\" and \"[other]\""),
    );
    case((2, 2, &[0, 3], |m| m.kernel.key = "k".into()), &mixed("the kernel"));
    case(
        (2, 2, &[0, 3], |m| m.part.as_mut().unwrap().plans = "other".into()),
        &mixed("the hash of all plans"),
    );
    case((2, 4, &[0], same), "the number of parts is \"2\" and \"4\"");
    case((2, 2, &[0, 3], |m| m.part = None), "20261121T101502-home-link is no part of a run");
}

#[test]
fn a_part_that_is_missing_unfinished_or_on_its_way_is_named() {
    let base = tempdir().unwrap();
    let out = base.path().join("whole");
    let said = |folders: &[&PathBuf]| {
        let folders: Vec<PathBuf> = folders.iter().map(|f| (*f).clone()).collect();
        gather(&folders, &out).unwrap_err().to_string()
    };
    let first = part(base.path(), 1, 3, &[1, 2], &|_| ());
    assert!(
        said(&[&first]).contains("2 of 3 parts are missing: 2, 3; run each again, as --part 2/3")
    );
    // Whatever a manifest claims, no list of so many is made.
    let claims = part(base.path(), 1, 4_000_000_000, &[1, 2], &|_| ());
    let why = said(&[&claims]);
    assert!(why.contains("3999999999 of 4000000000 parts are missing: 2, 3, 4,"), "{why}");
    let killed = part_of(base.path(), 2, 3, &[0, 3], &|_| (), false);
    let why = said(&[&first, &killed]);
    assert!(
        why.contains("part 2/3 in") && why.contains("has no end: 1 of 2 measurements"),
        "{why}"
    );
    let mut begun = manifest(&cells()[..1]);
    let (places, plans) = (vec![0], "same".to_owned());
    begun.part = Some(RunPart { number: 2, of: 3, whole: 4, places, plans });
    let writer = RunWriter::create(base.path(), begun).unwrap();
    let running = writer.folder().to_path_buf();
    assert!(said(&[&first, &running]).contains("is still being measured"));
    fs::write(writer.journal_path(&cells()[0]), frames(&events(&cells()[0]))).unwrap();
    fs::create_dir(&out).unwrap();
    let both = [part(base.path(), 1, 1, &[0, 1, 2, 3], &|_| ())];
    assert!(gather(&both, &out).unwrap_err().to_string().contains("is there already"));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "and it is as it was");
}
