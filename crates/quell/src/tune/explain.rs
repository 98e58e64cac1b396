//! `quell tune explain`: what others write, and what this kernel does by itself.

use crate::failure::Failure;
use crate::options::Json;
use crate::text::{columns, lines, say};
use clap::Args;
use quell_tuning::handbook::{OTHERS, answers, lowers};
use quell_tuning::this_host;
use quell_tuning::{HostFacts, KEYS, default_of, dotted};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// handbook, others, or a setting
    #[arg(default_value = "handbook")]
    pub what: String,
    #[command(flatten)]
    pub json: Json,
}

pub fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let host = this_host()?;
    let (text, document) = match args.what.as_str() {
        "handbook" => handbook(&host),
        "others" => others(&host),
        key => setting(key, &host)?,
    };
    if args.json.json {
        println!("{}", crate::text::document(&document));
    } else {
        say(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn handbook(host: &HostFacts) -> (String, Value) {
    let all = answers(host);
    let mut text = String::from(
        "Lines of the tuning handbook of 2008, and why quell tune does not take them:\n",
    );
    for answer in &all {
        text += &format!("\n{}\n", answer.line);
        text += &lines("  why not  ", &answer.why_not, columns());
        text += &lines("  instead  ", answer.instead, columns());
    }
    let one = |a: &quell_tuning::handbook::HandbookAnswer| json!({ "line": a.line, "why_not": a.why_not, "instead": a.instead });
    (text, json!({ "handbook": all.iter().map(one).collect::<Vec<_>>() }))
}

fn others(host: &HostFacts) -> (String, Value) {
    let mut text = String::from(
        "What others set (rmem_max and wmem_max, tcp_rmem, tcp_wmem), and what it would lower here:\n\n",
    );
    let mut rows = Vec::new();
    for row in &OTHERS {
        let lowered = lowers(row, host);
        text += &values(row.who, row.core, row.receive, row.send);
        if !lowered.is_empty() {
            text += &lines("    lowers ", &lowered.join("; "), columns());
        }
        rows.push(json!({
            "who": row.who, "rmem_max": row.core, "tcp_rmem": row.receive, "tcp_wmem": row.send, "lowers": lowered,
        }));
    }
    let own =
        |key: &str| default_of(key, host).map(|known| known.value).unwrap_or("unknown".into());
    let (core, receive, send) =
        (own("net/core/rmem_max"), own("net/ipv4/tcp_rmem"), own("net/ipv4/tcp_wmem"));
    let who = format!("Linux {}, defaults here", host.release);
    text += &values(&who, &core, &receive, &send);
    rows.push(json!({ "who": who, "rmem_max": core, "tcp_rmem": receive, "tcp_wmem": send, "lowers": [] }));
    (text, json!({ "others": rows }))
}

/// Whose values, and which; below each other where they have no room in a line.
fn values(who: &str, core: &str, receive: &str, send: &str) -> String {
    let values = format!("{core:<11} {receive:<23} {send}\n");
    match format!("{who:<30} {values}") {
        line if line.trim_end().chars().count() <= columns() => line,
        _ => format!("{who}\n  {values}"),
    }
}

fn setting(asked: &str, host: &HostFacts) -> Result<(String, Value), Failure> {
    let wanted = asked.replace('.', "/");
    let key = KEYS.into_iter().find(|key| *key == wanted || key.rsplit('/').next() == Some(asked));
    let Some(key) = key else {
        let mut known: Vec<String> = KEYS.into_iter().map(dotted).collect();
        known.extend(["handbook".to_owned(), "others".to_owned()]);
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(Failure::usage(format!(
            "nothing is known of `{asked}`{}; there are handbook, others and the settings of quell tune plan",
            quell_units::nearest::hint(asked, &names)
        )));
    };
    let now = host.value(key).map(|v| v.split_whitespace().collect::<Vec<_>>().join(" "));
    let default = default_of(key, host);
    let mut text = format!("{}\n", dotted(key));
    text += &format!("  now      {}\n", now.as_deref().unwrap_or("there is no such setting here"));
    text += &match &default {
        Some(known) => format!("  default  {} ({})\n", known.value, known.from),
        None => "  default  unknown\n".to_owned(),
    };
    if let Some(sealed) = host.sealed.get(key) {
        text += &format!("  can't be written here: {sealed}\n");
    }
    let lines_of: Vec<_> =
        answers(host).into_iter().filter(|a| a.line.contains(&dotted(key))).collect();
    for answer in &lines_of {
        text += &lines("  handbook ", &format!("{}: {}", answer.line, answer.why_not), columns());
    }
    let document = json!({
        "key": dotted(key), "now": now, "default": default.as_ref().map(|k| &k.value),
        "default_from": default.as_ref().map(|k| k.from), "sealed": host.sealed.get(key),
    });
    Ok((text, document))
}
