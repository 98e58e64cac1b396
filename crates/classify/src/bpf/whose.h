// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Whose an address is, as the kernel's routes and neighbours tell: a machine's on the link, nobody's, or not to be told.
//
//   address ─fib_lookup─┬─ a neighbour with a hardware address ─► that machine's, with all others of its addresses
//                       ├─ on the link, but no such neighbour ──► a stranger's
//                       ├─ refused, or on the line's own side ──► a stranger's
//                       └─ behind a router, our own, no answer ─► told by the address itself; a stranger's if no host beyond the link can have it
//
// Whoever makes up addresses makes up no machines: all strangers are one host. The same in Rust is ../../tests/twin/whose.rs.

#pragma once
#include "hash.h"

// Whose an address is.
struct owner {
	u64 number; // of the neighbour; or one of the two below
	u64 until; // when that is looked at again
};

#define BY_ADDRESS 0 // it can't be told: the address is the host
#define STRANGER (~0ULL) // no machine's

// Addresses that were looked at, or that user space has entered.
struct bpf_map_def SECTION("maps") NEIGHBOURS = {
	.type = MAP_LEAST_RECENT,
	.key_size = sizeof(struct address),
	.value_size = sizeof(struct owner),
	.max_entries = 2 * MAX_HOSTS,
};

// How long it is believed whose an address is, and that it is nobody's: the router learns of a neighbour with the first answer to it.
#define BELIEVED_NS 5000000000ULL
#define DOUBTED_NS 500000000ULL

// Hosts that are no addresses are told apart by the upper half, where multicast of no scope would be.
#define OF_MARK (~0ULL - 2)
#define OF_VLAN (~0ULL - 1)
#define OF_NEIGHBOUR (~0ULL)

INLINE int is_address(const struct address *a)
{
	return a->high < OF_MARK;
}

INLINE int is_v4(const struct address *a)
{
	return !a->high && a->low >> 32 == 0xffff;
}

enum { INET = 2, INET6 = 10 };
// What fib_lookup answers.
enum { FOUND = 0, BLACKHOLE = 1, PROHIBITED = 3, NO_NEIGHBOUR = 7, FOUND_BUT_TOO_LONG = 8 };

// Whether it must be looked at whose an address is.
//
// A global function, as those below: the verifier walks through it once and by itself.
GLOBAL u32 quell_is_unknown(u64 high, u64 low)
{
	struct address a = {high, low};
	struct owner *its = map_lookup(&NEIGHBOURS, &a);
	return !its || its->until < ktime_get_coarse_ns();
}

// Remembers it. Nothing is done with the answer of the function, which must have one.
//
// A machine that was known keeps its address until another one has it: the kernel forgets neighbours where many are asked for, as by a scan.
GLOBAL u32 quell_know(u64 high, u64 low, u64 number)
{
	struct address a = {high, low};
	if (number == STRANGER) {
		struct owner *before = map_lookup(&NEIGHBOURS, &a);
		if (before && before->number)
			number = before->number;
	}
	u64 for_ns = number == BY_ADDRESS || number == STRANGER ? DOUBTED_NS : BELIEVED_NS;
	struct owner its = {number, ktime_get_coarse_ns() + for_ns};
	map_update(&NEIGHBOURS, &a, &its, UPDATE_ANY);
	return 0;
}

// Multicast, broadcast, and what is good on one link alone (RFC 1112, 3927, 4291).
INLINE int is_no_hosts(const struct address *a)
{
	if (!is_v4(a))
		return a->high >> 56 == 0xff || a->high >> 54 == 0xfe80 >> 6;
	u32 v4 = a->low;
	return v4 >> 28 == 0xe || v4 >> 16 == 0xa9fe || v4 == ~0U;
}

INLINE u64 mac_number(const u8 *mac)
{
	u64 number = 0;
	for (int i = 0; i < 6; i++)
		number = number << 8 | mac[i];
	return number;
}

// Whose an address is, as the kernel knows: the neighbour's number, STRANGER or BY_ADDRESS. No packet is sent for it. The kernel answers
// where it forwards. `gets`: the host is who gets the packet.
INLINE u64 whose(struct __sk_buff *skb, const struct address *a, int gets)
{
	struct fib_question q = {0};
	u32 on = FIELD(skb->ifindex), from = FIELD(skb->ingress_ifindex);
	q.ifindex = from ? from : on;
	int v4 = is_v4(a);
	u64 by_address = is_no_hosts(a) ? STRANGER : BY_ADDRESS;
	u64 high = v4 ? 0 : BE64(a->high), low = v4 ? 0 : BE64(a->low);
	if (v4) {
		*(u32 *)q.dst = BE32((u32)a->low);
	} else {
		q.dst[0] = high;
		q.dst[1] = low;
	}
	q.family = v4 ? INET : INET6;
	long answer = fib_lookup(skb, &q, sizeof(q), 0);
	if (answer >= BLACKHOLE && answer <= PROHIBITED)
		return STRANGER;
	if (answer != FOUND && answer != FOUND_BUT_TOO_LONG && answer != NO_NEIGHBOUR)
		return by_address;
	// A gateway stands in the address's place: the hosts behind a router are not one.
	int same = v4 ? *(u32 *)q.dst == BE32((u32)a->low) : q.dst[0] == high && q.dst[1] == low;
	if (same) {
		u64 mac = answer == NO_NEIGHBOUR ? 0 : mac_number(q.mac);
		if (mac)
			return (u64)q.ifindex << 48 | mac;
		// On older kernels one that was asked for and has not answered is there without its hardware address. Where our own end has none
		// either, there are none: on tun, PPP and WireGuard devices.
		if (answer == NO_NEIGHBOUR || mac_number(q.own_mac))
			return STRANGER;
	}
	// Its way leads over the line that is shaped: it is none of the hosts on this side. What comes is queued on an IFB, where `from` is the
	// line; what leaves is queued on the line. Where both are one, hosts and line are on one interface.
	u32 line = gets ? from : on, other = gets ? on : from;
	return q.ifindex == line && line != other ? STRANGER : by_address;
}
