// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The hash of a flow and of a host; docs/classifier.md describes it, ../../tests/twin/hash.rs is the same in Rust. 64-bit words go in one after the
// other; what no key selects is left out, and so is the tunnel of a packet that is in none.

#pragma once
#include "parse.h"

INLINE u32 finish(u64 hash)
{
	hash *= 0xd6e8feb86659fd93ULL;
	return hash >> 32;
}

// The hash as a number below `count`.
INLINE u32 scale(u32 hash, u32 count)
{
	return (u64)hash * count >> 32;
}

// IPv4 has no upper half.
INLINE u64 mix_address(u64 hash, const struct address *a)
{
	if (a->high)
		hash = mix(hash, a->high);
	return mix(hash, a->low);
}

INLINE u64 mix_headers(u64 hash, u32 keys, const struct headers *h)
{
	if (keys & KEY_SRC)
		hash = mix_address(hash, &h->src);
	if (keys & KEY_DST)
		hash = mix_address(hash, &h->dst);
	if (keys & (KEY_PROTO | KEY_PROTO_SRC | KEY_PROTO_DST)) {
		u64 word = keys & KEY_PROTO ? (u64)h->proto << 32 : 0;
		if (keys & KEY_PROTO_SRC)
			word |= (u32)h->src_port << 16;
		if (keys & KEY_PROTO_DST)
			word |= h->dst_port;
		hash = mix(hash, word);
	}
	return hash;
}

INLINE u32 hash_flow(const struct config *c, const struct packet *p)
{
	u32 keys = c->keys;
	u64 hash = mix_headers(c->seed, keys, &p->outer);
	if (p->tunnels)
		hash = mix_headers(hash, keys / KEY_TUNNEL_SRC, &p->inner);
	if (keys & (KEY_VLAN | KEY_DSCP | KEY_MARK)) {
		u64 word = keys & KEY_MARK ? p->mark : 0;
		if (keys & KEY_DSCP)
			word |= (u64)p->outer.dscp << 32;
		if (keys & KEY_VLAN)
			word |= (u64)p->vlan << 40;
		hash = mix(hash, word);
	}
	return finish(hash);
}

INLINE u32 hash_host(const struct config *c, const struct address *host)
{
	return finish(mix_address(c->seed, host));
}
