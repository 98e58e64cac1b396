//! The catalogue: one file a check, one table of all.

mod prelude;

/// Names the checks, in the order of their numbers.
macro_rules! catalogue {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// All checks, in the order of their numbers: 1 to 62 are the catalogue's, those behind it look deeper into sockets and settings.
        pub const CATALOGUE: &[&crate::Check] = &[$(&$name::CHECK),*];
    };
}

catalogue!(
    link_utilisation,
    softirq_on_one_core,
    queue_imbalance,
    tcp_memory,
    conntrack_full,
    neighbour_table,
    local_ports,
    context_switches,
    pcie_slot,
    core_full_of_one_flow,
    softnet_drops,
    time_squeeze,
    ring_missed,
    queue_drops,
    listen_overflow,
    syn_queue,
    receive_collapse,
    backlog_drops,
    udp_receive_buffer,
    receiver_window,
    send_buffer,
    application_limited,
    zero_window,
    stuck_in_own_queue,
    queueing_delay,
    delayed_ack_stall,
    device_errors,
    drop_ratio,
    damaged_frames,
    carrier_lost,
    retransmissions,
    timeouts,
    reordering,
    spurious_retransmissions,
    sack_reneging,
    syn_retransmissions,
    paws,
    checksum_errors,
    fragments,
    memory_aborts,
    link_speed,
    offloads,
    coalescing,
    pause_frames,
    pfifo_fast,
    tcp_options_off,
    tcp_buffers,
    tcp_mem_in_bytes,
    congestion_control,
    faster_than_receiver,
    cpu_power,
    numa,
    mtu_probing,
    dead_knobs,
    path_mtu,
    mtu_black_hole,
    clamped_mss,
    address_translation,
    options_refused,
    ecn_bleached,
    ecmp_member,
    asymmetric_path,
    receive_buffer_locked,
    lowered_setting,
    ecn_without_marks,
    class_changed,
    forgotten_state,
    path_loss,
);

#[cfg(test)]
mod tests {
    use super::CATALOGUE;

    #[test]
    fn numbers_and_names_are_each_one_checks() {
        for (at, check) in CATALOGUE.iter().enumerate() {
            assert_eq!(check.number as usize, at + 1, "{}", check.name);
            assert!(CATALOGUE[..at].iter().all(|other| other.name != check.name), "{}", check.name);
            let texts =
                [check.title, check.evidence, check.rule, check.why, check.fix, check.source];
            assert!(
                texts.iter().all(|text| !text.is_empty() && !text.ends_with('.')),
                "{}",
                check.name
            );
        }
    }
}
