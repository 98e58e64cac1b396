//! Thousands of subscribers: all of them made, one of them changed, beside the same steps in one `tc -batch`; and the same where classes are
//! made when their subscriber is there, both ways.

use crate::place::Place;
use crate::program::{apply, run, shape};
use crate::{Asked, median};
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;

/// Subscribers with a floor and a ceiling each, of whom the first, who is the near end, has this ceiling.
fn policy(asked: &Asked, rates: &str, first: &str, file: &Path) -> Result<(), String> {
    let one = |n: u32| {
        let ceiling = if n == 0 { first } else { "20Mbit" };
        let (high, low) = (n / 256, n % 256);
        let near = if n == 0 { ", \"10.9.0.1\"" } else { "" };
        format!(
            "[[subscriber]]\nname = \"s{n}\"\nprefixes = [\"10.{}.{}.{low}\"{near}]\n\
             up = {{ floor = \"100kbit\", ceiling = \"{ceiling}\" }}\n\
             down = {{ floor = \"100kbit\", ceiling = \"20Mbit\" }}\n",
            16 + high / 256,
            high % 256
        )
    };
    let subscribers: String = (0..asked.subscribers).map(one).collect();
    std::fs::write(file, format!("{rates}\n{subscribers}")).map_err(|e| e.to_string())
}

/// One way's rate.
const UP: &str = "up = \"10Gbit\"";

/// The commands of a plan, as `tc -batch` takes them. How many there are.
fn batch(plan: &Path, to: &Path) -> Result<usize, String> {
    let failed = |e: std::io::Error| e.to_string();
    let mut file = BufWriter::new(File::create(to).map_err(failed)?);
    let mut count = 0;
    let plan: Value = serde_json::from_reader(BufReader::new(File::open(plan).map_err(failed)?))
        .map_err(|e| e.to_string())?;
    for line in plan["commands"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(command) = line.strip_prefix("tc ") {
            writeln!(file, "{command}").map_err(failed)?;
            count += 1;
        }
    }
    file.flush().map_err(failed)?;
    Ok(count)
}

pub fn measure(asked: &Asked, place: &Place, folder: &Path) -> Result<(), String> {
    at_once(asked, place, folder)?;
    when_there(asked, place, folder)
}

/// Classes that are made when their subscriber is there, both ways.
fn when_there(asked: &Asked, place: &Place, folder: &Path) -> Result<(), String> {
    let file = folder.join("subscribers.toml");
    let named = file.display().to_string();
    let with_file = ["--file", &named];
    let rates = "up = \"10Gbit\"\ndown = \"10Gbit\"";
    let mut rows: Vec<(&str, Vec<f64>, u64)> = Vec::new();
    let mut note = |what: &'static str, went: &crate::program::Went| match rows
        .iter_mut()
        .find(|(name, ..)| *name == what)
    {
        Some((_, seconds, memory)) => {
            seconds.push(went.seconds);
            *memory = went.memory.max(*memory);
        }
        None => rows.push((what, vec![went.seconds], went.memory)),
    };
    for _ in 0..asked.rounds {
        policy(asked, rates, "10Mbit", &file)?;
        let plan = [&["plan", "--dev", "near0"][..], &with_file].concat();
        note("quell shape plan", &shape(asked, place, folder, &plan)?);
        note("quell shape apply", &shape(asked, place, folder, &apply(&with_file))?);
        policy(asked, rates, "11Mbit", &file)?;
        note(
            "one other ceiling, of one who is not there",
            &shape(asked, place, folder, &apply(&with_file))?,
        );
        run(place, Command::new(&asked.quell).args(["ping", "10.9.0.2", "-c", "1"]), folder)?;
        policy(asked, rates, "12Mbit", &file)?;
        let with_json = [&with_file[..], &["--json"]].concat();
        let went = shape(asked, place, folder, &apply(&with_json))?;
        let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
        if json["steps"].as_array().map(Vec::len) != Some(1) {
            return Err(format!("one ceiling took other than one step: {}", json["steps"]));
        }
        note("one other ceiling, of one who is there", &went);
        let mut change = |what: &'static str, name: &str, steps: usize| {
            let all = ["change", name, "--up", "13Mbit", "--json"];
            let went = shape(asked, place, folder, &all)?;
            let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
            if json["steps"].as_array().map(Vec::len) != Some(steps) {
                return Err(format!("{what}: not {steps} steps: {}", json["steps"]));
            }
            note(what, &went);
            Ok(())
        };
        change("quell shape change, one who is there", "s0", 1)?;
        change("quell shape change, one who is not there", "s1", 0)?;
        note("quell shape status", &shape(asked, place, folder, &["status"])?);
        note("quell shape off", &shape(asked, place, folder, &["off", "--dev", "near0"])?);
    }
    let (of, rounds) = (asked.subscribers, asked.rounds);
    println!(
        "\n{of} subscribers both ways, classes when they are there, median of {rounds} rounds"
    );
    for (what, seconds, memory) in rows {
        println!("  {what:<44} {:>8.3} s   {:>6.0} MB", median(seconds), memory as f64 / 1e6);
    }
    Ok(())
}

/// Classes that are made at once, one way.
fn at_once(asked: &Asked, place: &Place, folder: &Path) -> Result<(), String> {
    let [file, commands] = ["subscribers.toml", "batch"].map(|name| folder.join(name));
    let (named, batch_file) = (file.display().to_string(), commands.display().to_string());
    let with_file = ["--file", &named, "--eager"];
    let (mut plan, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut change, mut off) = (Vec::new(), Vec::new());
    let (mut plan_memory, mut memory, mut their_memory) = (0, 0, 0);
    let (mut change_memory, mut off_memory) = (0, 0);
    let mut lines = 0;
    let has_tc = run(place, Command::new("tc").arg("-V"), folder).is_ok();
    for _ in 0..asked.rounds {
        policy(asked, UP, "10Mbit", &file)?;
        let planned = shape(
            asked,
            place,
            folder,
            &[&["plan", "--json", "--dev", "near0"][..], &with_file].concat(),
        )?;
        lines = batch(&folder.join("out"), &commands)?;
        if has_tc {
            let tc = run(place, Command::new("tc").args(["-batch", &batch_file]), folder)?;
            theirs.push(tc.seconds);
            their_memory = their_memory.max(tc.memory);
            run(place, Command::new("tc").args(["qdisc", "del", "dev", "near0", "root"]), folder)?;
        }
        let quell = shape(asked, place, folder, &apply(&with_file))?;
        policy(asked, UP, "11Mbit", &file)?;
        let with_json = [&with_file[..], &["--json"]].concat();
        let once_more = shape(asked, place, folder, &apply(&with_json))?;
        let json: Value = serde_json::from_str(&once_more.out).map_err(|e| e.to_string())?;
        if json["steps"].as_array().map(Vec::len) != Some(1) {
            return Err(format!("one ceiling took other than one step: {}", json["steps"]));
        }
        let gone = shape(asked, place, folder, &["off", "--dev", "near0"])?;
        off.push(gone.seconds);
        off_memory = off_memory.max(gone.memory);
        plan.push(planned.seconds);
        ours.push(quell.seconds);
        change.push(once_more.seconds);
        plan_memory = plan_memory.max(planned.memory);
        memory = memory.max(quell.memory);
        change_memory = change_memory.max(once_more.memory);
    }
    let line = |what: &str, seconds: Vec<f64>, bytes: u64| {
        println!("  {what:<38} {:>8.3} s   {:>6.0} MB", median(seconds), bytes as f64 / 1e6);
    };
    println!(
        "\n{} subscribers, {lines} steps at once, median of {} rounds",
        asked.subscribers, asked.rounds
    );
    line("quell shape plan", plan, plan_memory);
    line("quell shape apply", ours, memory);
    if has_tc {
        line("tc -batch", theirs, their_memory);
    } else {
        println!("  tc -batch                              left out: there is no tc");
    }
    line("quell shape apply, one other ceiling", change, change_memory);
    line("quell shape off", off, off_memory);
    Ok(())
}
