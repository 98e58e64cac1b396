// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Subscribers by prefix: a tc filter that gives each packet its subscriber's class, and tells user space who is there without having one.
// Two programs, of which one is loaded: one for what they send and one for what they get.
//
//   packet ─headers─► address ─longest prefix─► class id ──► the class, or where it is not made yet, the queue's default
//                                                  │
//                                        STATES ───┴─ nobody knows of it ─► ARRIVALS ─► user space makes the class, and marks it
//
// The same in Rust is ../../tests/twin/roster.rs.

#include "headers.h"

#define SECOND 1000000000ULL
// Of what a subscriber only gets, so many packets within a minute count as life: less is what scanners send to everybody.
#define LIVELY 64

// What a longest-prefix table is asked for: bits that count, those of the family among them, and an address in its order on the wire, of IPv4
// in the first word. With the family in front no prefix of one takes an address of the other.
struct prefix {
	u32 length;
	u32 family; // 4 or 6, in the first byte
	u32 address[4];
};

#define FAMILY_BITS 32
#define FAMILY_4 BE32_CONST(0x04000000)
#define FAMILY_6 BE32_CONST(0x06000000)

// A subscriber, by the minor of its class.
struct state {
	u64 last; // when it was last heard
	u64 told; // when user space was told that it is there; HAS_CLASS when it has its class; 0 never
	u64 since; // the beginning of the minute in which `got` is counted
	u64 got; // packets to it
};

#define HAS_CLASS (~0ULL)

struct bpf_map_def SECTION("maps") PREFIXES = {
	.type = MAP_LONGEST_PREFIX,
	.key_size = sizeof(struct prefix),
	.value_size = sizeof(u32),
	.max_entries = 1 << 20, // a bound; memory is taken for what is in it
	.map_flags = NO_PREALLOC,
};

struct bpf_map_def SECTION("maps") STATES = {
	.type = MAP_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct state),
	.max_entries = 1 << 16,
};

// Minors of classes that are to be made.
struct bpf_map_def SECTION("maps") ARRIVALS = {
	.type = MAP_RING,
	.max_entries = 1 << 16,
};

struct roster {
	u64 print; // user space's number for what is in PREFIXES; 0 while it writes there
	u32 got_counts; // whether a packet to somebody says that he is there, as where only that way has a queue
	u32 reserved;
};

struct bpf_map_def SECTION("maps") ROSTER = {
	.type = MAP_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct roster),
	.max_entries = 1,
};

// Written where it changed by a second only: many CPUs may look at it.
INLINE void heard(struct state *s, u64 now)
{
	if (now - s->last >= SECOND)
		s->last = now;
}

// A packet to somebody; whether it is one of so many that they say that he is there.
INLINE int is_lively(struct state *s, u64 now)
{
	if (now - s->since >= 60 * SECOND) {
		s->since = now;
		s->got = 0;
	}
	return ++s->got >= LIVELY;
}

// Tells user space, once a second at most; what finds no place there is told by a later packet.
INLINE void arrive(struct state *s, u32 minor, u64 now)
{
	u64 told = s->told;
	if (LIKELY(told == HAS_CLASS) || (told && now - told < SECOND))
		return;
	if (!__sync_bool_compare_and_swap(&s->told, told, now))
		return;
	if (ring_output(&ARRIVALS, &minor, sizeof(minor), 0))
		__sync_bool_compare_and_swap(&s->told, now, 0);
}

INLINE int class_of(struct __sk_buff *skb, int sends)
{
	struct packet p = {0};
	struct headers h;
	int found = 0;
	u16 type = 0;
	ROLLED
	for (int tries = 0; tries < 2; tries++) {
		u32 at = 0;
		p.short_read = 0;
		type = pass_tags(skb, &p, BE16((u16)FIELD(skb->protocol)), &at, 0);
		found = parse_ip(skb, &p, type, &at, &h);
		if (LIKELY(found || !p.short_read))
			break;
		u32 len = FIELD(skb->len);
		if (skb_pull_data(skb, len < 128 ? len : 128))
			break;
	}
	if (UNLIKELY(!found))
		return 0;
	struct address a = sends ? h.src : h.dst;
	struct prefix key = {.length = FAMILY_BITS + 32, .family = FAMILY_4, .address = {BE32((u32)a.low)}};
	if (type == ETH_IPV6) {
		key.length = FAMILY_BITS + 128;
		key.family = FAMILY_6;
		key.address[0] = BE32((u32)(a.high >> 32));
		key.address[1] = BE32((u32)a.high);
		key.address[2] = BE32((u32)(a.low >> 32));
		key.address[3] = BE32((u32)a.low);
	}
	u32 *class = map_lookup(&PREFIXES, &key);
	if (!class)
		return 0;
	u32 id = *class, minor = id & 0xffff, zero = 0;
	struct state *s = map_lookup(&STATES, &minor);
	struct roster *r = map_lookup(&ROSTER, &zero);
	if (!s || !r)
		return id;
	u64 now = ktime_get_coarse_ns();
	int counts = sends || r->got_counts;
	if (counts || is_lively(s, now))
		heard(s, now);
	if (counts)
		arrive(s, minor, now);
	return id;
}

// By the address that a packet comes from.
SECTION("classifier/from")
int quell_from(struct __sk_buff *skb)
{
	return class_of(skb, 1);
}

// By the address that it goes to.
SECTION("classifier/to")
int quell_to(struct __sk_buff *skb)
{
	return class_of(skb, 0);
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
