//! One server for all that measures: flows, iperf3 clients, calls, reflected packets.
