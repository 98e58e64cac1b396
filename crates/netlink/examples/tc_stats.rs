//! Prints the queues and classes of an interface with their counters: what `tc -s qdisc` and `tc -s class` show.
//!
//! ```text
//!   tc_stats DEVICE
//! ```

use std::process::ExitCode;

use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc;

fn main() -> ExitCode {
    let Some(device) = std::env::args().nth(1) else {
        eprintln!("usage: tc_stats DEVICE");
        return ExitCode::from(2);
    };
    match show(&device) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn show(device: &str) -> Result<(), Box<dyn std::error::Error>> {
    let index = nix::net::if_::if_nametoindex(device)
        .map_err(|errno| format!("there is no device {device}: {errno}"))?;
    let mut socket = Socket::open(Protocol::Route)?;
    for queue in tc::dump_qdiscs(&mut socket, index)? {
        println!("{} {} at {}: {:?}", queue.kind, queue.handle, queue.parent, queue.stats);
        if let Some(extra) = queue.extra {
            println!("  {extra:?}");
        }
    }
    for class in tc::dump_classes(&mut socket, index)? {
        println!("class {} {} in {}: {:?}", class.kind, class.id, class.parent, class.stats);
        if let Some(extra) = class.extra {
            println!("  {extra:?}");
        }
    }
    Ok(())
}
