//! What each figure means, and where its definition comes from. The page prints this table; the code beside it carries it out.

/// The definition of one estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// What is shown, with its unit.
    pub name: &'static str,
    /// How it is computed.
    pub how: &'static str,
    /// Who defined it so.
    pub source: &'static str,
}

/// All definitions, in the order of the tables.
pub fn definitions() -> &'static [Definition] {
    &[
        Definition {
            name: "loss (%)",
            how: "(sent − received) ÷ sent. Packets sent before the measurement began, and those sent too late to be \
                  awaited, do not count; packets that the kernel refused count as sent. Duplicates are counted apart. For \
                  UDP loads: datagrams of the whole flow, warm-up included.",
            source: "RFC 7680, section 2",
        },
        Definition {
            name: "jitter (ms)",
            how: "J = J + (|D| − J) ÷ 16 over packets in order of arrival, where D is the difference of transit times of two \
                  packets after each other; shown is the mean of J over the stream. The transit time is the one-way delay to the \
                  reflector for UDP streams, and the round-trip time for ping, whose reflector tells no times.",
            source: "RFC 3550, section 6.4.1",
        },
        Definition {
            name: "variation of delay, IPDV (ms)",
            how: "Difference of the transit times of two packets with consecutive numbers; a lost packet leaves no pair.",
            source: "RFC 3393; RFC 5481, section 4.1",
        },
        Definition {
            name: "RTT (ms)",
            how: "From the kernel's timestamp of sending to that of receiving, where it gives them. p50, p90, p99: \
                  quantiles by straight interpolation between the samples around them. Lost packets have no RTT.",
            source: "RFC 2681; quantiles: Hyndman and Fan (1996), type 7",
        },
        Definition {
            name: "one-way delay (ms)",
            how: "From sending to the reflector's timestamp, and from there back. Needs clocks in step; in the lab \
                  they are one clock.",
            source: "RFC 7679; packets: RFC 8762 (STAMP)",
        },
        Definition {
            name: "reordered (packets)",
            how: "Packets that arrive after one with a higher number.",
            source: "RFC 4737, section 3.3",
        },
        Definition {
            name: "goodput (Mbit/s)",
            how: "Payload bytes that the receiver's program got between the start of the measurement and its planned end, times \
                  8, ÷ that time; 1 Mbit is 10⁶ bits. The receiver's counter is interpolated at both ends. Warm-up does not \
                  count.",
            source: "RFC 2647, section 3.17",
        },
        Definition {
            name: "share (%)",
            how: "Goodput of the flow ÷ the goodput of all flows of the same cell together, those of loads included.",
            source: "Quell",
        },
        Definition {
            name: "low–high (95 %)",
            how: "Where there are three repeats or more: the 95 % interval of the mean over repeats. Of three to nine repeats by \
                  Student's t (the mean give or take t standard errors, not below 0), which is wide because so few say \
                  little; of ten or more the bootstrap's, resampled with the run's seed.",
            source: "Student (1908); Efron and Tibshirani (1993), percentile interval",
        },
        Definition {
            name: "box",
            how: "Median and quartiles; whiskers reach to the furthest sample within 1.5 times the distance of the quartiles.",
            source: "Tukey (1977)",
        },
    ]
}
