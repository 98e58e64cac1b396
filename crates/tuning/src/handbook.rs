//! What others write, and why it is taken or not.

use crate::facts::HostFacts;
use crate::proposal::numbers;

/// A line of the handbook of 2008 that is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandbookAnswer {
    pub line: &'static str,
    pub why_not: String,
    pub instead: &'static str,
}

pub fn answers(host: &HostFacts) -> Vec<HandbookAnswer> {
    let answer = |line, why_not: &str, instead| HandbookAnswer {
        line,
        why_not: why_not.to_owned(),
        instead,
    };
    let memory = host.memory >> 30;
    vec![
        answer(
            "net.ipv4.tcp_mem = 150000000 150000000 150000000",
            &format!(
                "it is in pages, not bytes: {} GiB of buffers, on a machine with {memory} GiB; TCP would take all memory before it is held back",
                150_000_000u64.saturating_mul(host.page) >> 30
            ),
            "in pages, from the buffers of --streams, at most a quarter of the memory",
        ),
        answer(
            "net.ipv4.tcp_timestamps = 0",
            "10 Gbit/s goes round TCP's sequence numbers in 3.4 s. Only timestamps tell an old segment from a new one (PAWS, \
         RFC 7323, section 5); the 12 bytes are 0.8 % of a packet",
            "1, the default",
        ),
        answer(
            "net.ipv4.tcp_sack = 0",
            "the fault that made large windows slow with SACK was mended in Linux 2.6.26; without it one lost packet of a window costs round trips for each more",
            "1, the default",
        ),
        answer(
            "net.core.netdev_max_backlog = 300000",
            "0.3 s of queue on each CPU at a million packets a second, all of them late; only packets of RPS, veth and tunnels pass there",
            "what comes while a CPU is busy with others, for --role router",
        ),
        answer(
            "net.ipv4.tcp_rmem = 4096 87380 …",
            &format!(
                "87380 lowers the size at which buffers begin (131072 since 4.20, here {}): the first round trip gets less window",
                host.value("net/ipv4/tcp_rmem")
                    .map(numbers)
                    .and_then(|all| all.get(1).copied())
                    .map_or("unknown".into(), |n| n.to_string())
            ),
            "the first two numbers stay as they are",
        ),
        answer(
            "ethtool -K eth0 tso off",
            "64 kB then go through the whole stack as 46 packets, and not as one that the interface cuts",
            "offloads on; where bursts are lost, fq paces them (net.core.default_qdisc)",
        ),
        answer(
            "ifconfig eth0 txqueuelen 10000",
            "it is the limit of plain FIFOs (pfifo, pfifo_fast, bfifo) alone; fq, fq_codel and CAKE have their own, and a long FIFO is delay",
            "fq; for a slow line: quell shape",
        ),
    ]
}

/// What others set, for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Others {
    pub who: &'static str,
    /// `rmem_max`, `wmem_max`.
    pub core: &'static str,
    /// `tcp_rmem`.
    pub receive: &'static str,
    /// `tcp_wmem`.
    pub send: &'static str,
}

/// Published values (ESnet fasterdata, host tuning; tuned's profile network-throughput).
pub const OTHERS: [Others; 6] = [
    Others {
        who: "ESnet, transfer, 10G to 100 ms",
        core: "67108864",
        receive: "4096 87380 33554432",
        send: "4096 65536 33554432",
    },
    Others {
        who: "ESnet, transfer, 10G to 200 ms",
        core: "134217728",
        receive: "4096 87380 67108864",
        send: "4096 65536 67108864",
    },
    Others {
        who: "ESnet, measure, 10G to 100 ms",
        core: "268435456",
        receive: "4096 87380 134217728",
        send: "4096 65536 134217728",
    },
    Others {
        who: "ESnet, measure, 10G to 200 ms",
        core: "536870912",
        receive: "4096 87380 268435456",
        send: "4096 65536 268435456",
    },
    Others {
        who: "ESnet, 100G",
        core: "2147483647",
        receive: "4096 131072 1073741824",
        send: "4096 16384 1073741824",
    },
    Others {
        who: "tuned, network-throughput",
        core: "–",
        receive: "4096 131072 16777216",
        send: "4096 16384 16777216",
    },
];

/// In what a row of [`OTHERS`] would lower what this host has; none where it would not.
pub fn lowers(row: &Others, host: &HostFacts) -> Vec<String> {
    let mut found = Vec::new();
    for (key, text) in [("net/ipv4/tcp_rmem", row.receive), ("net/ipv4/tcp_wmem", row.send)] {
        let Some(now) = host.value(key).map(numbers) else { continue };
        let name = key.rsplit('/').next().unwrap_or(key);
        for ((word, now), theirs) in
            ["least", "first", "largest"].iter().zip(now).zip(numbers(text))
        {
            if theirs < now {
                found.push(format!("{name}'s {word} from {now} to {theirs}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Release;
    use crate::plan::tests::host;

    #[test]
    fn tcp_mem_was_meant_as_bytes() {
        let host = host(Release::new(6, 18), 6 << 18);
        let all = answers(&host);
        let line = all.iter().find(|a| a.line.contains("tcp_mem")).expect("it is there");
        assert!(
            line.why_not.contains("572 GiB") && line.why_not.contains("with 6 GiB"),
            "{line:?}"
        );
    }

    #[test]
    fn what_tuned_lowers_on_a_new_kernel_is_found_and_on_an_old_one_it_is_not() {
        let tuned = OTHERS.last().expect("there are some");
        let new = lowers(tuned, &host(Release::new(6, 18), 6 << 18));
        assert_eq!(new, ["tcp_rmem's largest from 33554432 to 16777216"]);
        assert_eq!(lowers(tuned, &host(Release::new(6, 1), 6 << 18)), [""; 0]);
        let esnet = lowers(&OTHERS[0], &host(Release::new(6, 1), 6 << 18));
        assert_eq!(esnet, ["tcp_rmem's first from 131072 to 87380"]);
    }
}
