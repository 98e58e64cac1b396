//! The lab against exact truth: what is built into a network must come out of its measurement.
//!
//! Everything runs the `quell` program as a user would, in guests with virtual time. There is no skipping: without the lab's kernel
//! these tests fail and say how to get it.

#[path = "../support/left_out.rs"]
mod left_out;

mod captures;
mod confusion;
mod data_examples;
mod days;
mod diagnosing;
mod doctor;
mod documents;
mod exec;
mod flow;
mod flow_causes;
mod flow_ends;
mod flow_kept;
mod flow_limits;
mod follow;
mod found_apart;
mod found_hosts;
mod found_strangers;
mod host;
mod iperf3;
mod kernel;
mod lines;
mod live;
mod lost;
mod manners;
mod mesh_causes;
mod missing;
mod not_the_path;
mod options;
mod page;
mod papers;
mod parts;
mod path;
mod ping;
mod policer;
mod real_hosts;
mod rpm;
mod rr;
mod scarce;
mod seeds;
mod series;
mod shape;
mod shape_devices;
mod shaping;
#[path = "../support/sshd.rs"]
mod ssh;
mod subscribers;
mod support;
mod sweep;
#[path = "../support/terminal.rs"]
mod terminal;
mod time;
mod truth;
mod truth_flows;
mod truth_line;
mod truth_packets;
mod truth_times;
mod truth_tools;
mod tune;
mod twin;
mod twin_check;
mod twin_choose;
mod twin_from;
mod unsure;
