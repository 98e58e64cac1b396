//! The kinds of probes and loads: a file each, and a line in these tables.
//!
//! ```text
//!                 ┌ spec    what a person writes, and its row in docs/experiments.md
//!   ping.rs  ─────┼ check   what can't be
//!   tcp.rs …      ├ plan    its tasks, and the servers that they need
//!   (`Kind`)      ├ agent   what carries these out
//!                 └ expect  what can be claimed of it
//! ```

mod command;
mod kind;
mod maker;
mod page;
mod ping;
mod rr;
mod tcp;
mod tcp_ping;
mod udp_load;
mod udp_probe;

pub use command::Program;
pub use kind::{Bad, Emit, Kind, Opening, Work, Works, opens};
pub use maker::{Maker, Role};
pub use page::PageProbe;
pub use ping::PingProbe;
pub use rr::RrProbe;
pub use tcp::TcpFlow;
pub use tcp_ping::TcpPingProbe;
pub use udp_load::UdpFlow;
pub use udp_probe::UdpProbe;

use quell_model::Task;
use serde::Deserialize;

/// What is known of a kind beside any one of it.
pub struct Description {
    pub role: Role,
    pub word: &'static str,
    pub about: &'static str,
    pub work: fn(&Task) -> Option<Opening<'_>>,
}

/// One probe or load of an experiment, with what it is.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    pub role: Role,
    /// Its kind's word in the file.
    pub word: &'static str,
    pub kind: &'a dyn Kind,
}

/// Makes an enum of the kinds and their descriptions, from a line each.
macro_rules! kinds {
    ($(#[$about:meta])* pub enum $role:ident { $($word:literal => $kind:ident($what:ty): $line:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(tag = "kind")]
        pub enum $role {
            $(#[doc = $line] #[serde(rename = $word)] $kind($what),)*
        }

        impl std::ops::Deref for $role {
            type Target = dyn Kind;

            fn deref(&self) -> &Self::Target {
                match self {
                    $($role::$kind(it) => it,)*
                }
            }
        }

        impl $role {
            pub const KINDS: &'static [Description] = &[$(Description {
                role: Role::$role,
                word: $word,
                about: $line,
                work: <$what>::work,
            },)*];

            pub fn measured(&self) -> Measured<'_> {
                let word = match self {
                    $($role::$kind(_) => $word,)*
                };
                Measured { role: Role::$role, word, kind: &**self }
            }
        }
    };
}

kinds! {
    pub enum Probe {
        "ping" => Ping(PingProbe): "round-trip time and loss by ICMP echo",
        "tcp-ping" => TcpPing(TcpPingProbe): "the time from a SYN to its answer: a connection, reset at once, or with `listens = false` a refusal",
        "udp" => Udp(UdpProbe): "a reflected stream: one-way delays, loss with direction, order, jitter",
        "tcp" => Tcp(TcpFlow): "goodput over time",
        "rr" => Rr(RrProbe): "request and response over TCP: the time of each call (`rtt`)",
        "page" => Page(PageProbe): "loads of the lab's own page in Chromium: when it was read, painted and all there",
    }
}

kinds! {
    pub enum Load {
        "tcp" => Tcp(TcpFlow): "as much as goes",
        "udp" => Udp(UdpFlow): "at a constant rate, whether the network carries it or not",
        "command" => Command(Program): "any program of this machine",
    }
}

/// The work of a task of any kind; none for tasks that are of no probe or load.
pub fn work(task: &Task) -> Option<Opening<'_>> {
    Probe::KINDS.iter().chain(Load::KINDS).find_map(|kind| (kind.work)(task))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::task::TaskKind;

    #[test]
    fn the_reference_of_the_experiment_file_has_a_line_for_each_kind() {
        let reference = include_str!("../../../../docs/experiments.md");
        for kind in Probe::KINDS {
            let row = format!("| `\"{}\"` |", kind.word);
            let line = reference.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("no row begins with {row}"));
            assert!(line.ends_with(&format!("| {} |", kind.about)), "{line}");
        }
        for kind in Load::KINDS {
            let line = format!("`kind = \"{}\"`: {}.", kind.word, kind.about);
            assert!(reference.contains(&line), "no line begins with {line}");
        }
    }

    #[test]
    fn a_flow_that_asks_for_more_connections_than_can_be_has_no_endless_list_of_streams() {
        let text = "name = \"x\"\nfrom = \"a\"\nto = \"b\"\nconnections = 4294967295";
        let flow: TcpFlow = toml::from_str(text).expect("it can be read");
        assert_eq!(flow.streams().count(), 1000);
        assert!(flow.has_stream("x-1000") && flow.has_stream("x") && !flow.has_stream("x-0"));
    }

    #[test]
    fn a_task_is_the_work_of_the_kind_that_planned_it() {
        let task = |kind| Task {
            id: "probe/x".into(),
            host: "a".into(),
            start_ns: 0,
            duration: quell_units::Span::ZERO,
            seed: 1,
            kind,
        };
        let bind = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let words = |kind: TaskKind| {
            let task = task(kind);
            let all = Probe::KINDS.iter().chain(Load::KINDS);
            all.filter(|k| (k.work)(&task).is_some()).map(|k| k.word).collect::<Vec<_>>()
        };
        assert_eq!(words(TaskKind::TcpListener { bind }), ["tcp-ping"]);
        assert_eq!(words(TaskKind::RrServer { bind }), ["rr"]);
        assert_eq!(words(TaskKind::Command { argv: vec!["true".into()] }), ["command"]);
        let sampling = TaskKind::SampleSockets { interval: quell_units::Span::from_millis(1) };
        assert!(work(&task(sampling)).is_none(), "it is of no probe or load");
    }
}
