//! Throughput between two hosts: the client, its results and what they mean.
