// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A packet's headers, from the network header on, so that devices with and without a MAC header are alike:
//
//   [VLAN | PPPoE]* → IP → [IPv6 extension headers]* → ports
//                      ↑            │
//                      └── IP-in-IP, GRE, VXLAN: twice at most ──┘
//
// What can't be read, is a fragment or has no ports ends there, with ports of zero. The same in Rust is ../../tests/twin/parse.rs.

#pragma once
#include "kernel.h"

// A loop that stays one: the program is a third of the size, and what is not entered costs nothing either way.
#define ROLLED _Pragma("clang loop unroll(disable)")

// An address as two numbers, in their byte order on the wire; IPv4 is ::ffff:a.b.c.d.
struct address {
	u64 high;
	u64 low;
};

struct headers {
	struct address src;
	struct address dst;
	u16 src_port;
	u16 dst_port;
	u8 proto;
	u8 dscp;
};

struct packet {
	struct headers outer;
	struct headers inner; // the innermost; the outer ones where there is no tunnel
	u32 vlan;
	u32 mark;
	u32 tunnels;
	u32 short_read; // something wanted to be read where the linear part was over
};

enum { ETH_IPV4 = 0x0800, ETH_VLAN = 0x8100, ETH_PPPOE = 0x8864, ETH_IPV6 = 0x86dd, ETH_QINQ = 0x88a8, ETH_ETHERNET = 0x6558 };
enum { PPP_IPV4 = 0x0021, PPP_IPV6 = 0x0057 };
enum {
	HOP_BY_HOP = 0,
	IPIP = 4,
	TCP = 6,
	UDP = 17,
	DCCP = 33,
	IPV6_IN_IP = 41,
	ROUTING = 43,
	FRAGMENT = 44,
	GRE = 47,
	AUTHENTICATION = 51,
	DESTINATION = 60,
	SCTP = 132,
	MOBILITY = 135,
	UDPLITE = 136,
	HIP = 139,
	SHIM6 = 140,
};

// Tunnels within each other, and the other headers of each kind that are passed.
#define MAX_TUNNELS 2
#define MAX_TAGS 3
#define MAX_EXTENSIONS 6

// The fields as they lie on the wire.
struct ipv4 {
	u8 version_ihl;
	u8 tos;
	u16 length;
	u16 id;
	u16 fragment;
	u8 ttl;
	u8 proto;
	u16 checksum;
	u32 src;
	u32 dst;
};

struct ipv6 {
	u32 version_class_label;
	u16 length;
	u8 next;
	u8 hops;
	u64 src[2];
	u64 dst[2];
};

INLINE int cannot_read(struct __sk_buff *skb, struct packet *p, u32 at, void *to, u32 len)
{
	if (LIKELY(!skb_load_bytes_relative(skb, at, to, len, FROM_NETWORK_HEADER)))
		return 0;
	p->short_read = 1;
	return 1;
}

// Passes VLAN tags and PPPoE; the ethertype of what follows, `at` moved there. `vlan` becomes the first tag's, unless it is null.
INLINE u16 pass_tags(struct __sk_buff *skb, struct packet *p, u16 type, u32 *at, u32 *vlan)
{
	ROLLED
	for (int i = 0; i < MAX_TAGS; i++) {
		u16 words[4];
		if (LIKELY(type == ETH_IPV4 || type == ETH_IPV6))
			break;
		if (type == ETH_VLAN || type == ETH_QINQ) {
			if (cannot_read(skb, p, *at, words, 4))
				return 0;
			if (vlan && !*vlan)
				*vlan = BE16(words[0]) & 0xfff;
			type = BE16(words[1]);
			*at += 4;
		} else if (type == ETH_PPPOE) {
			if (cannot_read(skb, p, *at, words, 8))
				return 0;
			u16 inside = BE16(words[3]);
			type = inside == PPP_IPV4 ? ETH_IPV4 : inside == PPP_IPV6 ? ETH_IPV6 : 0;
			*at += 8;
		} else {
			return 0;
		}
	}
	return type;
}

// An Ethernet header inside a tunnel.
INLINE u16 pass_ethernet(struct __sk_buff *skb, struct packet *p, u32 *at)
{
	u16 type;
	if (cannot_read(skb, p, *at + 12, &type, 2))
		return 0;
	*at += 14;
	return pass_tags(skb, p, BE16(type), at, 0);
}

// The ethertype inside of GRE (RFC 2784, RFC 2890), `at` moved there.
INLINE u16 pass_gre(struct __sk_buff *skb, struct packet *p, u32 *at)
{
	u16 words[2];
	if (cannot_read(skb, p, *at, words, 4))
		return 0;
	u16 flags = BE16(words[0]), type = BE16(words[1]);
	// Checksum, key and sequence number have four bytes each; routing (0x4000) is of the past, and version 1 is PPTP.
	if (flags & 0x4007)
		return 0;
	*at += 4 + (flags & 0x8000 ? 4 : 0) + (flags & 0x2000 ? 4 : 0) + (flags & 0x1000 ? 4 : 0);
	return type == ETH_ETHERNET ? pass_ethernet(skb, p, at) : type;
}

// The ethertype inside of VXLAN (RFC 7348), `at` moved there.
INLINE u16 pass_vxlan(struct __sk_buff *skb, struct packet *p, u32 *at)
{
	u8 flags;
	if (cannot_read(skb, p, *at, &flags, 1) || !(flags & 0x08))
		return 0;
	*at += 8;
	return pass_ethernet(skb, p, at);
}

INLINE int is_extension(u8 next)
{
	return next == HOP_BY_HOP || next == ROUTING || next == FRAGMENT || next == AUTHENTICATION || next == DESTINATION ||
	       next == MOBILITY || next == HIP || next == SHIM6;
}

// Passes IPv6 extension headers (RFC 8200); true if ports may follow.
INLINE int pass_extensions(struct __sk_buff *skb, struct packet *p, struct headers *h, u32 *at)
{
	ROLLED
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		u8 next = h->proto;
		u8 bytes[4];
		if (LIKELY(!is_extension(next)))
			return 1;
		if (cannot_read(skb, p, *at, bytes, 4))
			return 0;
		h->proto = bytes[0];
		if (next == FRAGMENT) {
			// Offset or "more" make it a fragment: what follows is not in each of them. Without both it is whole (RFC 6946).
			if (bytes[2] || bytes[3] & 0xf9)
				return 0;
			*at += 8;
		} else if (next == AUTHENTICATION) {
			*at += (bytes[1] + 2) * 4;
		} else {
			*at += (bytes[1] + 1) * 8;
		}
	}
	return !is_extension(h->proto);
}

// One IP header and what belongs to it. 0: there is none. 1: read, `at` after it. 2: read, nothing more to read after it.
INLINE int parse_ip(struct __sk_buff *skb, struct packet *p, u16 type, u32 *at, struct headers *h)
{
	union {
		struct ipv4 v4;
		struct ipv6 v6;
	} ip;
	h->src_port = h->dst_port = 0;
	if (LIKELY(type == ETH_IPV4)) {
		if (cannot_read(skb, p, *at, &ip, sizeof(ip.v4)))
			return 0;
		u32 ihl = ip.v4.version_ihl & 15;
		if (UNLIKELY(ip.v4.version_ihl >> 4 != 4 || ihl < 5))
			return 0;
		h->src.high = h->dst.high = 0;
		h->src.low = 0xffff00000000ULL | BE32(ip.v4.src);
		h->dst.low = 0xffff00000000ULL | BE32(ip.v4.dst);
		h->proto = ip.v4.proto;
		h->dscp = ip.v4.tos >> 2;
		*at += ihl * 4;
		return UNLIKELY(ip.v4.fragment & BE16_CONST(0x3fff)) ? 2 : 1;
	}
	if (type == ETH_IPV6) {
		if (cannot_read(skb, p, *at, &ip, sizeof(ip.v6)))
			return 0;
		u32 first = BE32(ip.v6.version_class_label);
		if (UNLIKELY(first >> 28 != 6))
			return 0;
		h->src.high = BE64(ip.v6.src[0]);
		h->src.low = BE64(ip.v6.src[1]);
		h->dst.high = BE64(ip.v6.dst[0]);
		h->dst.low = BE64(ip.v6.dst[1]);
		h->proto = ip.v6.next;
		h->dscp = (first >> 22) & 63;
		*at += 40;
		return pass_extensions(skb, p, h, at) ? 1 : 2;
	}
	return 0;
}

INLINE int has_ports(u8 proto)
{
	return proto == TCP || proto == UDP || proto == SCTP || proto == DCCP || proto == UDPLITE;
}

// What follows the IP header at `at`: ports are noted; the ethertype of what is in the tunnel, or 0 where there is none.
INLINE u16 parse_payload(struct __sk_buff *skb, struct packet *p, u16 vxlan_port, u32 *at, struct headers *h, int enter)
{
	u8 proto = h->proto;
	if (LIKELY(has_ports(proto))) {
		u16 ports[2];
		if (cannot_read(skb, p, *at, ports, 4))
			return 0;
		h->src_port = BE16(ports[0]);
		h->dst_port = BE16(ports[1]);
		if (!enter || proto != UDP || h->dst_port != vxlan_port)
			return 0;
		*at += 8;
		return pass_vxlan(skb, p, at);
	}
	if (!enter)
		return 0;
	if (proto == IPIP)
		return ETH_IPV4;
	if (proto == IPV6_IN_IP)
		return ETH_IPV6;
	return proto == GRE ? pass_gre(skb, p, at) : 0;
}
