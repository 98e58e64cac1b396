// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What user space tells the program: one value in a map, read for each packet, so that it can be changed while packets flow. The same
// layout stands in ../raw.rs.

#pragma once
#include "kernel.h"

// Keys of the flow, as bits.
enum {
	KEY_SRC = 1 << 0,
	KEY_DST = 1 << 1,
	KEY_PROTO = 1 << 2,
	KEY_PROTO_SRC = 1 << 3,
	KEY_PROTO_DST = 1 << 4,
	KEY_TUNNEL_SRC = 1 << 5,
	KEY_TUNNEL_DST = 1 << 6,
	KEY_TUNNEL_PROTO = 1 << 7,
	KEY_TUNNEL_PROTO_SRC = 1 << 8,
	KEY_TUNNEL_PROTO_DST = 1 << 9,
	KEY_VLAN = 1 << 10,
	KEY_DSCP = 1 << 11,
	KEY_MARK = 1 << 12,
};

// What a host is told by.
enum { HOST_NONE, HOST_SRC, HOST_DST, HOST_TUNNEL_SRC, HOST_TUNNEL_DST, HOST_MARK, HOST_VLAN };

enum {
	FLAG_HOST_IS_MAJOR = 1 << 0, // the class id's major is the host, from 1: what CAKE takes
	FLAG_NEIGHBOURS = 1 << 1, // all addresses of a neighbour are one host
	FLAG_TIER_TUNNEL = 1 << 2, // the tier is told by the innermost header
	FLAG_TRANSLATED = 1 << 3, // where an IPv4 packet has a mark, that is the host's address, as it lies on the wire
	FLAG_TUNNELS_ONLY = 1 << 4, // what is in no tunnel gets no class: CAKE looks for itself
};

struct config {
	u64 seed;
	u64 idle_ns; // a host that was silent for so long gives its class back
	u64 v6_mask[2]; // of an IPv6 host's address, what counts
	u32 v4_mask;
	u32 keys;
	u32 flags;
	u32 host; // HOST_…
	u32 hosts; // host classes; at most MAX_HOSTS
	u32 flows; // flow classes
	u32 major; // where the host is not the major
	u32 base; // the minor of the first class
	u32 host_step;
	u32 tier_step;
	u32 flow_step;
	u32 other; // class id of what is no IP packet
	u32 tin_major; // where not 0: the handle under which the tier goes into the packet's priority
	u16 vxlan_port;
	u16 reserved;
	u8 tiers[64]; // by DSCP
};

// Host classes at most: as far as the search for a free one goes.
#define MAX_HOSTS 1024

struct bpf_map_def SECTION("maps") CONFIG = {
	.type = MAP_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct config),
	.max_entries = 1,
};
