//! What the columns of the tables mean: their units, and what an empty one says. The same words stand in docs/data.md, in the Parquet files
//! themselves, and nowhere else.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    Samples,
    /// Bytes and TCP state of flows.
    Flows,
    Queues,
    Outputs,
    /// How the network was set up, and what streams tell beside their rows.
    Facts,
}

impl Table {
    pub const ALL: [Table; 5] =
        [Table::Samples, Table::Flows, Table::Queues, Table::Outputs, Table::Facts];

    pub fn name(self) -> &'static str {
        match self {
            Table::Samples => "samples",
            Table::Flows => "flows",
            Table::Queues => "queues",
            Table::Outputs => "outputs",
            Table::Facts => "facts",
        }
    }

    pub fn columns(self) -> &'static [ColumnMeaning] {
        match self {
            Table::Samples => &SAMPLES,
            Table::Flows => &FLOWS,
            Table::Queues => &QUEUES,
            Table::Outputs => &OUTPUTS,
            Table::Facts => &FACTS,
        }
    }
}

/// A column, for people and other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnMeaning {
    pub name: &'static str,
    /// Its unit; empty of names, numbers of order and the like.
    pub unit: &'static str,
    pub meaning: &'static str,
}

const fn column(name: &'static str, unit: &'static str, meaning: &'static str) -> ColumnMeaning {
    ColumnMeaning { name, unit, meaning }
}

const TIME: ColumnMeaning = column(
    "t_ns",
    "ns",
    "time since the start of the measurement, negative while loads warm up; of a packet when it was sent",
);
const SCENARIO: ColumnMeaning = column("scenario", "", "the measurement's scenario");
const PROBE: ColumnMeaning =
    column("probe", "", "the measurement's probe, `all` where they ran together");
const REPEAT: ColumnMeaning = column("repeat", "", "which repeat of it, from 0");

const SAMPLES: [ColumnMeaning; 16] = [
    TIME,
    SCENARIO,
    PROBE,
    REPEAT,
    column("stream", "", "the stream's name"),
    column("seq", "", "number of the packet within the stream, from 0"),
    column(
        "rtt_ns",
        "ns",
        "round-trip time, what the reflector took left out where it tells that; empty without an answer",
    ),
    column(
        "up_ns",
        "ns",
        "one-way delay to the reflector, by both ends' clocks, empty where it does not tell it; of a load's datagrams to their receiver, whichever way that is",
    ),
    column("down_ns", "ns", "one-way delay back, likewise"),
    column(
        "up_order",
        "",
        "the reflector's count of packets when it answered this one; empty where it does not tell it",
    ),
    column("down_order", "", "order of arrival of the answers, from 0; empty without an answer"),
    column(
        "seen_late_ns",
        "ns",
        "from the kernel's stamp of the answer to when the program saw it; empty where not known",
    ),
    column(
        "queued_ns",
        "ns",
        "waiting in this host's own queue, a part of rtt_ns; empty where the kernel does not tell it",
    ),
    column(
        "sent_late_ns",
        "ns",
        "from when it was due to when it was sent; empty where nothing was due",
    ),
    column("bytes", "B", "UDP or ICMP payload; 0 where an imported file does not tell it"),
    column(
        "status",
        "",
        "ok, duplicate, lost, lost-up, lost-down, error, unfinished, late, unsure or not-sent; lost-up is lost on the way of up_ns",
    ),
];

const FLOWS: [ColumnMeaning; 16] = [
    TIME,
    SCENARIO,
    PROBE,
    REPEAT,
    column("stream", "", "the flow's name"),
    column("side", "", "who tells it: sender or receiver; a receiver's bytes are goodput"),
    column("bytes", "B", "payload so far: sent (of TCP acknowledged) or received"),
    column("packets", "", "datagrams so far; 0 of TCP"),
    column(
        "retransmits",
        "",
        "segments sent again so far; empty where not known, and with all that follow but of a TCP sender",
    ),
    column("cwnd", "segments", "congestion window; 0 where not known"),
    column("srtt_us", "us", "smoothed round-trip time; 0 where not known"),
    column("min_rtt_us", "us", "least round-trip time seen; 0 where not known"),
    column("delivery_rate", "B/s", "the kernel's estimate of what arrives; 0 where not known"),
    column("pacing_rate", "B/s", "rate of pacing; 18446744073709551615 where there is none"),
    column("unacked", "segments", "sent and not acknowledged"),
    column("notsent_bytes", "B", "in the send queue and not sent yet"),
];

const QUEUES: [ColumnMeaning; 13] = [
    TIME,
    SCENARIO,
    PROBE,
    REPEAT,
    column("device", "", "the interface, as node:device"),
    column("handle", "", "handle or class, as tc prints it"),
    column("kind", "", "kind of the queue, as fq_codel; of a class, as htb class"),
    column("backlog_bytes", "B", "waiting"),
    column("backlog_packets", "", "packets waiting"),
    column("drops", "", "packets dropped so far"),
    column("marks", "", "packets marked CE so far"),
    column("packets", "", "packets sent on so far"),
    column("bytes", "B", "sent on so far"),
];

const OUTPUTS: [ColumnMeaning; 6] = [
    SCENARIO,
    PROBE,
    REPEAT,
    column("task", "", "the command's task"),
    column("stderr", "", "true of standard error"),
    column("line", "", "the line"),
];

const FACTS: [ColumnMeaning; 6] = [
    SCENARIO,
    PROBE,
    REPEAT,
    column("when", "", "before, during or after the measurement"),
    column("key", "", "what is described, as tc/router:wan or stream/call/losses"),
    column("value", "", "the description: a JSON text or a plain value"),
];
