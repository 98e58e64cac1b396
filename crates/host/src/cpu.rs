//! CPUs: `/proc/stat`, `/proc/net/softnet_stat`.

use crate::{Reading, Snapshot};

/// What a CPU did since its start, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    pub all: u64,
    pub idle: u64,
    /// In softirqs, where the network's work is done.
    pub softirq: u64,
}

/// What a CPU's packet processing counted (`softnet_seq_show` of `net/core/net-procfs.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Softnet {
    pub processed: u64,
    /// Packets dropped since the backlog was full.
    pub dropped: u64,
    /// Times that work was left over when the budget was used up.
    pub squeezed: u64,
}

/// Most ticks that a CPU can have counted: 89,000 years of them.
const MOST_TICKS: u64 = 1 << 48;

/// The lines `cpu0 …`, in their order.
pub(crate) fn ticks(stat: &str) -> Reading<Vec<CpuTicks>> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_prefix("cpu")?;
        number.parse::<u32>().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guest times are in user already.
        let fields: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let (idle, io) = (*fields.get(3)?, *fields.get(4)?);
        let softirq = *fields.get(6)?;
        if let Some(most) = fields.iter().find(|ticks| **ticks > MOST_TICKS) {
            return Some(Err(format!("/proc/stat counts {most} ticks, which can't be")));
        }
        Some(Ok(CpuTicks { all: fields.iter().sum(), idle: idle + io, softirq }))
    };
    stat.lines().filter_map(one).collect()
}

/// A line a CPU, hexadecimal.
pub fn softnet(text: &str) -> Vec<Softnet> {
    let one = |line: &str| {
        // They are of 32 bits each.
        let number = |word| u32::from_str_radix(word, 16).map(u64::from).ok();
        let mut words = line.split_whitespace().map(number);
        Some(Softnet {
            processed: words.next()??,
            dropped: words.next()??,
            squeezed: words.next()??,
        })
    };
    text.lines().filter_map(one).collect()
}

/// A number behind a word at a line's beginning, as `ctxt 1234`.
fn behind(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Snapshot {
    pub fn cpus(&self) -> Reading<Vec<CpuTicks>> {
        self.texts.get("/proc/stat").and_then(ticks)
    }

    pub fn softnet(&self) -> Reading<Vec<Softnet>> {
        self.texts.get("/proc/net/softnet_stat").map(softnet)
    }

    /// Context switches since the start.
    pub fn switches(&self) -> Reading<u64> {
        let text = self.texts.get("/proc/stat")?;
        behind(text, "ctxt ").ok_or_else(|| "/proc/stat has no line ctxt".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_told_apart_from_their_sum() {
        let stat = "cpu  1 1 1 1 1 1 1 1\ncpu0 10 0 5 80 5 0 7 0 0 0\ncpu1 1 1\nctxt 77\n";
        assert_eq!(ticks(stat), Ok(vec![CpuTicks { all: 107, idle: 85, softirq: 7 }]));
        assert_eq!(behind(stat, "ctxt "), Some(77));
    }

    #[test]
    fn counts_that_can_not_be_are_told_as_such() {
        let max = u64::MAX;
        let told = ticks(&format!("cpu0 {max} {max} 0 0 0 0 0 0\n")).expect_err("they can't be");
        assert!(told.contains("18446744073709551615 ticks"), "{told}");
        let line = format!("{max:016x} 0 0\n00000001 00000002 00000003\n");
        let second = Softnet { processed: 1, dropped: 2, squeezed: 3 };
        assert_eq!(softnet(&line), [second], "the kernel counts them in 32 bits");
    }

    #[test]
    fn softnet_is_hexadecimal_and_a_line_a_cpu() {
        let text = "0000000a 00000001 00000002 0 0\n000000ff 00000000 00000000 0 0\nnoise\n";
        let first = Softnet { processed: 10, dropped: 1, squeezed: 2 };
        assert_eq!(softnet(text), [first, Softnet { processed: 255, ..Softnet::default() }]);
    }
}
