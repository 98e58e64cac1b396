// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Which class a host has. Each class has a place in SLOTS, with the host that holds it and when that was last heard; HOSTS finds the
// place of a host that could not have the one its hash points to.
//
// A new host takes the first place from there on that is free or whose host was silent for long enough. Only where there is none it shares
// the one its hash points to, and until the one that was silent longest could be free, nobody looks again. Strangers (whose.h) are one
// host together. The same in Rust is ../../tests/twin/hosts.rs.

#pragma once
#include "whose.h"

struct slot {
	struct address host;
	u64 last; // when the host was last heard; 0: free
	u64 since; // since when the host has it
};

struct search {
	u64 none_before; // no place becomes free before
	u64 sharing; // packets of hosts that had to share
};

struct bpf_map_def SECTION("maps") SLOTS = {
	.type = MAP_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct slot),
	.max_entries = MAX_HOSTS, // made smaller where it is loaded
};

struct bpf_map_def SECTION("maps") HOSTS = {
	.type = MAP_HASH,
	.key_size = sizeof(struct address),
	.value_size = sizeof(u32),
	.max_entries = 2 * MAX_HOSTS,
};

struct bpf_map_def SECTION("maps") SEARCH = {
	.type = MAP_ARRAY,
	.key_size = sizeof(u32),
	.value_size = sizeof(struct search),
	.max_entries = 1,
};

INLINE struct address host_of(const struct config *c, const struct packet *p)
{
	u32 kind = c->host;
	struct address a;
	if (kind == HOST_MARK || kind == HOST_VLAN) {
		a.high = kind == HOST_MARK ? OF_MARK : OF_VLAN;
		a.low = kind == HOST_MARK ? p->mark : p->vlan;
		return a;
	}
	if (kind == HOST_SRC)
		a = p->outer.src;
	else if (kind == HOST_DST)
		a = p->outer.dst;
	else if (kind == HOST_TUNNEL_SRC)
		a = p->inner.src;
	else
		a = p->inner.dst;
	if (c->flags & FLAG_TRANSLATED && p->mark && is_v4(&a))
		a.low = 0xffff00000000ULL | BE32(p->mark);
	return a;
}

INLINE int holds(const struct slot *s, const struct address *host)
{
	return s->last && s->host.low == host->low && s->host.high == host->high;
}

INLINE void heard(struct slot *s, u64 now)
{
	// Written where it changed only: the clock ticks some hundred times a second.
	if (s->last != now)
		s->last = now;
}

// Takes the place `at`, which was free or idle; false if another CPU was faster.
INLINE int take(struct slot *s, u32 at, const struct address *host, u64 now, u64 idle)
{
	u64 last = s->last;
	if (last && now - last < idle)
		return 0;
	if (!__sync_bool_compare_and_swap(&s->last, last, now))
		return 0;
	if (last) {
		struct address before = s->host;
		u32 *its = map_lookup(&HOSTS, &before);
		if (its && *its == at)
			map_delete(&HOSTS, &before);
	}
	s->host = *host;
	s->since = now;
	if (map_update(&HOSTS, host, &at, UPDATE_NOEXIST)) {
		// Another CPU found this host a place meanwhile.
		s->last = 0;
		return 0;
	}
	return 1;
}

// Both without a branch, of which the verifier would follow each side anew in each round; the compiler must not know that either.

// `at`, or what it is beyond `count`.
INLINE u32 wrap(u32 at, u32 count)
{
	u32 beyond = at - count, before = (int)beyond >> 31;
	OPAQUE(before);
	return beyond + (count & before);
}

INLINE u64 earlier(u64 a, u64 b)
{
	u64 less = a - b, is_less = (long long)less >> 63;
	OPAQUE(is_less);
	return b + (less & is_less);
}

// A place for a new host, and one more: the first from `wanted` on that is free or idle. 0 where there is none; then it is noted how long
// that stays so.
//
// A global function, as the next one is: the verifier walks through it once and by itself, and not once for each way that leads here. In
// line, kernel 6.1 refuses the program for the million steps that this takes.
GLOBAL u32 quell_find_place(u32 wanted, u32 count, u64 now, u64 idle)
{
	u32 zero = 0;
	u64 oldest = now;
	struct search *search = map_lookup(&SEARCH, &zero);
	if (!search || now < search->none_before)
		return 0;
	ROLLED
	for (u32 i = 0; i < MAX_HOSTS; i++) {
		if (i >= count)
			break;
		u32 at = wrap(wanted + i, count);
		struct slot *s = map_lookup(&SLOTS, &at);
		if (!s)
			break;
		u64 last = s->last;
		if (!last || now - last >= idle)
			return at + 1;
		oldest = earlier(last, oldest);
	}
	search->none_before = oldest + idle;
	return 0;
}

// The host's class, from 0.
GLOBAL u32 quell_host_class(u64 high, u64 low)
{
	struct address host = {high, low};
	u32 zero = 0;
	struct config *c = map_lookup(&CONFIG, &zero);
	if (!c)
		return 0;
	if (is_address(&host)) {
		struct owner *its = c->flags & FLAG_NEIGHBOURS ? map_lookup(&NEIGHBOURS, &host) : 0;
		if (its && its->number) {
			host.high = OF_NEIGHBOUR;
			host.low = its->number;
		} else if (is_v4(&host)) {
			host.low &= 0xffff00000000ULL | c->v4_mask;
		} else {
			host.high &= c->v6_mask[0];
			host.low &= c->v6_mask[1];
		}
	}
	u32 count = c->hosts;
	u32 wanted = scale(hash_host(c, &host), count);
	u64 now = ktime_get_coarse_ns();
	struct slot *s = map_lookup(&SLOTS, &wanted);
	if (!s)
		return 0;
	if (LIKELY(holds(s, &host))) {
		heard(s, now);
		return wanted;
	}
	u32 *its = map_lookup(&HOSTS, &host);
	if (its) {
		u32 at = *its;
		s = map_lookup(&SLOTS, &at);
		if (at < count && s && holds(s, &host)) {
			heard(s, now);
			return at;
		}
		// Of the time when there were more classes.
		map_delete(&HOSTS, &host);
	}
	u32 place = quell_find_place(wanted, count, now, c->idle_ns);
	if (place) {
		u32 at = place - 1;
		s = map_lookup(&SLOTS, &at);
		if (s && take(s, at, &host, now, c->idle_ns))
			return at;
	}
	struct search *search = map_lookup(&SEARCH, &zero);
	if (search)
		__sync_fetch_and_add(&search->sharing, 1);
	return wanted;
}
