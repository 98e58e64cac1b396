//! The catalogue: one file a check, one table of all.

mod prelude;

macro_rules! catalogue {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// All checks: those of one group need not stand together.
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
    sender_idle,
    own_queue,
    path_queue,
    policer,
    delayed_ack,
    device_errors,
    drop_ratio,
    damaged_frames,
    carrier_lost,
    fast_retransmit,
    retransmission_timeout,
    reordering,
    spurious_retransmissions,
    sack_reneging,
    syn_retransmissions,
    reverse_path_filter,
    hop_limit,
    too_big_dropped,
    paws,
    checksum_errors,
    fragments,
    memory_aborts,
    link_speed,
    offloads,
    coalescing,
    pause_frames,
    pfifo_fast,
    queue_classes,
    tcp_options_off,
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
    lowered_setting,
    ecn_without_marks,
    class_changed,
    path_loss,
);

#[cfg(test)]
mod tests {
    use super::CATALOGUE;

    #[test]
    fn each_check_has_its_own_name_and_plain_texts() {
        for (at, check) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..at].iter().all(|other| other.name != check.name), "{}", check.name);
            let texts = [check.title, check.evidence, check.rule, check.why, check.source];
            let plain = |text: &&str| !text.is_empty() && !text.ends_with('.');
            assert!(texts.iter().chain(check.remedies).all(plain), "{}", check.name);
        }
    }
}
