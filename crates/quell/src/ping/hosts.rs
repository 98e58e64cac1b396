//! Hosts of a file (`-f`) and of a range (`-g`), beside those that were typed. One that is there twice is pinged once.

use crate::failure::Failure;
use clap::Args;
use quell_ping::{MOST, listed, range};
use quell_sys::input::Input;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file of hosts in bytes.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Hosts {
    /// Also the hosts of this file, one per line; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Also all addresses of a network (192.0.2.0/28), or from one to another
    #[arg(short, long, value_name = "ADDRESS", num_args = 1..=2)]
    pub generate: Vec<String>,
}

impl Hosts {
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.generate.is_empty()
    }

    /// Those of the file and of the range, in their order, each once, and none that is among these.
    pub fn beside(&self, typed: &[String]) -> Result<Vec<String>, Failure> {
        let mut hosts: Vec<String> = Vec::new();
        let mut add = |host: String| {
            if !typed.contains(&host) && !hosts.contains(&host) {
                hosts.push(host);
            }
            hosts.len()
        };
        if let Some(file) = &self.file {
            for host in listed(&text(file)?) {
                if add(host) > MOST {
                    let file = file.display();
                    return Err(Failure::usage(format!(
                        "-f {file}: more than {MOST} hosts, which is what can be pinged at once"
                    )));
                }
            }
        }
        for host in range(&self.generate).map_err(|why| Failure::usage(format!("-g: {why}")))? {
            add(host.to_string());
        }
        Ok(hosts)
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("-f {}: {e}", file.display()));
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(LONGEST + 1).read_to_string(&mut text),
        false => {
            Input::open(file).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
        }
    };
    match read.map_err(failed)? as u64 {
        0..=LONGEST => Ok(text),
        _ => Err(Failure::usage(format!("-f {}: more than {LONGEST} bytes", file.display()))),
    }
}
