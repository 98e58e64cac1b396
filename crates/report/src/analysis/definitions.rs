//! What each figure means, and where its definition comes from. The page prints this table; the code beside it carries it out.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// What is shown, with its unit.
    pub name: &'static str,
    pub how: &'static str,
    pub source: &'static str,
}

pub fn definitions() -> &'static [Definition] {
    &[
        Definition {
            name: "loss (%)",
            how: "(sent − received) ÷ sent. Packets sent before the measurement began, and those sent too late to be \
                  awaited, do not count; packets that the kernel refused count as sent. Duplicates are counted apart. Of \
                  UDP loads the datagrams that were sent within the measurement, whenever they arrived. What the own queue had no \
                  room for was not sent. ≥a ≤b: at least a, at most b. Of a connect that was answered after a second SYN it can be unknown whether the \
         first exchange was lost.",
            source: "RFC 7680, section 2",
        },
        Definition {
            name: "jitter (ms)",
            how: "The mean of |D| over packets in order of arrival, where D is the difference of transit times of two packets \
                  after each other. It is what RFC 3550's J = J + (|D| − J) ÷ 16 comes to in a long stream, without its start-up \
                  from 0. up: of the one-way delay to the reflector; RTT: of the round trip, where the reflector tells no times.",
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
                  quantiles by straight interpolation between the samples around them, over repeats p99 of the packets of all \
                  of them. Lost packets have no RTT.",
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
            how: "Payload that the receiver's program got within the measurement, ÷ that time, or ÷ the flow's own time within \
         it, which is said. 1 Mbit is 10⁶ bits. The receiver's counter is \
                  interpolated at both ends. Warm-up does not count. What loads carried is ÷ the whole measurement.",
            source: "RFC 2647, section 3.17",
        },
        Definition {
            name: "share (%)",
            how: "Payload of the flow in the whole measurement ÷ all payload that crossed the same line in the same direction. \
         Flows, loads and answered packets count, also those with a narrower line elsewhere. What arrived in the \
                  measurement counts, whenever it was sent: by the one-way delays of packets, or by half their round trip where \
                  these are not known. A way is the narrowest line on the flow's path, in one direction, as dsl up. – where nothing \
                  was delivered.",
            source: "Quell",
        },
        Definition {
            name: "CPU (ms/MB)",
            how: "CPU time of the thread that sends a flow's data and of the one that receives it, ÷ the payload that arrived; 1 MB is 10⁶ \
                  bytes. The kernel's work on their packets counts where it is done in their time. Where this machine carries all of the \
         path, that is nearly all of it, with routers and queues. What the kernel's own threads do \
                  does not count. Over the flow's whole life; not in virtual time, of which programs take none.",
            source: "clock_gettime(2), CLOCK_THREAD_CPUTIME_ID",
        },
        Definition {
            name: "page (ms)",
            how: "From the start of a page's load in a browser. doc: the end of DOMContentLoaded, when the document was read and parsed. paint: anything was painted. FCP, LCP: \
         the first, the largest text or picture was painted. total: the end of the load event. sd: the standard \
         deviation of the totals. Means over the loads that came to \
                  their end; loss is the part of those that did not.",
            source: "W3C Navigation Timing, Paint Timing, Largest Contentful Paint",
        },
        Definition {
            name: "low–high (95 %)",
            how: "Where there are three repeats or more: the 95 % interval of the mean over repeats, the wider of Student's and \
                  that of a lognormal's mean. Of loss: of all packets together, fewer where losses come in clumps, and no \
                  narrower than that of the repeats; no loss among n packets leaves 3.7 ÷ n possible. Of p99: the packets of all repeats between whose ranks it lies, by the binomial distribution, with losses in \
         clumps counted the same. ≥a: at least a, since the packets are too few for the other end.",
            source: "Student (1908); Land (1972); Clopper and Pearson (1934); Kish (1965); ranks: Conover (1999)",
        },
        Definition {
            name: "box",
            how: "Median and quartiles; whiskers reach to the furthest sample within 1.5 times the distance of the quartiles.",
            source: "Tukey (1977)",
        },
    ]
}
