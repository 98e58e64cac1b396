// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Round-trip times of the TCP flows that carry much through a device, taken between its own queue and the line:
//
//   up     own queue ─► data that ends at S ──► line ──► far end           down   ACK alone, stamped V ──► line ──► far end
//                       ACK of S ◄───────────── line ◄──────┘                     data that echoes V ◄──── line ◄──────┘
//
// It is the filter of a packet socket, which is shown what leaves after the device's queue and what comes before any queue of ours. It takes no
// packet, and goes with its socket.
//
// Up, only an ACK of exactly what was noted counts: one that covers more waited for more (RFC 1122, 4.2.3.2), and its echo is that of the first
// (RFC 7323, 4.3). Nothing counts below data that was sent again (Karn).

#include "headers.h"

#define SECOND 1000000000ULL
// A flow of which fewer bytes passed in this second and the one before does not fill a line.
#define BULK 32000
// Between two that are told of one direction: a follower asks no far end more often either.
#define TOLD_EVERY (SECOND / 100)
// The least round trip of a flow is that of so long, and of as long before.
#define LEAST_OF (10 * SECOND)

enum { UP, DOWN };
enum { LEAVES = 4 }; // PACKET_OUTGOING
enum { FIN = 1, SYN = 2, ACK = 16 };

struct flow {
	u64 id;
	u64 second; // when `bytes` began
	u32 bytes[2];
	u32 before[2];
	u32 top; // where what was sent ends
	u32 again; // where that ended when something was sent again
	u32 acked;
	u32 stamp; // the last one noted
	u32 echo; // the last one seen
	u32 reserved;
	u64 least;
	u64 least_before;
	u64 least_since;
};

struct probe {
	u64 key;
	u64 sent;
};

// What is told. The same stands in ../round_trips.rs.
struct round_trip {
	u64 way;
	u64 sent;
	u64 seen;
	u64 least; // of this flow lately
};

struct tcp {
	u16 ports[2];
	u32 seq;
	u32 ack;
	u8 offset;
	u8 flags;
	u16 window;
	u32 checksum_urgent;
	// Where all put them (RFC 7323, appendix A).
	u32 stamp_kind;
	u32 stamp;
	u32 echo;
};

#define MAX_FLOWS 8192
#define MAX_PROBES 32768

// When one of each direction was told last.
struct bpf_map_def SECTION("maps") LAST = { .type = MAP_ARRAY, .key_size = 4, .value_size = sizeof(u64), .max_entries = 2 };
struct bpf_map_def SECTION("maps") FLOWS = { .type = MAP_ARRAY, .key_size = 4, .value_size = sizeof(struct flow), .max_entries = MAX_FLOWS };
struct bpf_map_def SECTION("maps") PROBES = { .type = MAP_ARRAY, .key_size = 4, .value_size = sizeof(struct probe), .max_entries = MAX_PROBES };
struct bpf_map_def SECTION("maps") TOLD = { .type = MAP_RING, .max_entries = 1 << 16 };

// A flow's place is its own as long as it is heard; another one finds none meanwhile.
INLINE struct flow *flow_of(u64 id, u64 now, u32 seq, int may_begin)
{
	u32 place = (id >> 32) & (MAX_FLOWS - 1);
	struct flow *f = map_lookup(&FLOWS, &place);
	if (!f)
		return 0;
	u64 since = now - f->second;
	if (f->id != id) {
		if (!may_begin || since < 2 * SECOND)
			return 0;
		f->id = id;
		f->bytes[UP] = f->bytes[DOWN] = 0;
		f->top = f->again = f->acked = seq;
		f->least = f->least_before = ~0ULL;
		f->least_since = now;
	}
	if (since >= SECOND) {
		f->before[UP] = since < 2 * SECOND ? f->bytes[UP] : 0;
		f->before[DOWN] = since < 2 * SECOND ? f->bytes[DOWN] : 0;
		f->bytes[UP] = f->bytes[DOWN] = 0;
		f->second = now;
	}
	return f;
}

INLINE struct probe *probe_of(u64 key)
{
	u32 place = (key >> 32) & (MAX_PROBES - 1);
	return map_lookup(&PROBES, &place);
}

INLINE u64 key_of(u64 id, u32 number, u32 way)
{
	return mix(id, (u64)number << 1 | way);
}

INLINE void note(u64 key, u64 now)
{
	struct probe *probe = probe_of(key);
	if (!probe)
		return;
	probe->sent = now;
	probe->key = key;
}

INLINE void answered(struct flow *f, u64 key, u32 way, u64 now)
{
	struct probe *probe = probe_of(key);
	if (!probe || probe->key != key)
		return;
	probe->key = 0;
	u64 sent = probe->sent, took = now - sent;
	if (took > LEAST_OF)
		return;
	if (now - f->least_since > LEAST_OF) {
		f->least_before = f->least;
		f->least = took;
		f->least_since = now;
	} else if (took < f->least) {
		f->least = took;
	}
	// A copy: of a number that a helper was shown the verifier forgets what it is.
	u32 place = way;
	u64 *last = map_lookup(&LAST, &place);
	if (!last || f->bytes[way] + f->before[way] < BULK || now - *last < TOLD_EVERY)
		return;
	*last = now;
	struct round_trip told = { way, sent, now, f->least < f->least_before ? f->least : f->least_before };
	ring_output(&TOLD, &told, sizeof(told), 0);
}

INLINE void leaves(struct flow *f, u64 id, const struct tcp *t, u32 length, u64 now)
{
	u32 seq = BE32(t->seq), end = seq + length;
	if (end == seq) {
		if (t->stamp_kind && t->stamp != f->stamp) {
			f->stamp = t->stamp;
			note(key_of(id, t->stamp, DOWN), now);
		}
	} else if ((int)(end - f->top) > 0) {
		f->top = end;
		note(key_of(id, end, UP), now);
	} else {
		f->again = f->top;
	}
}

INLINE void comes(struct flow *f, u64 id, const struct tcp *t, u32 length, u64 now)
{
	u32 ack = BE32(t->ack);
	if (t->flags & ACK && (int)(ack - f->acked) > 0) {
		f->acked = ack;
		if ((int)(ack - f->again) > 0)
			answered(f, key_of(id, ack, UP), UP, now);
	}
	if (length && t->stamp_kind && t->echo != f->echo) {
		f->echo = t->echo;
		answered(f, key_of(id, t->echo, DOWN), DOWN, now);
	}
}

// `bytes` is the packet without what is in front of its IP header.
INLINE void watch(struct __sk_buff *skb, int does_leave, u32 bytes)
{
	u32 at = 0;
	struct packet p = {0};
	struct headers h;
	struct tcp t = {0};
	u16 type = pass_tags(skb, &p, BE16((u16)FIELD(skb->protocol)), &at, 0);
	u32 ip = at;
	u16 length;
	if (parse_ip(skb, &p, type, &at, &h) != 1 || h.proto != TCP || cannot_read(skb, &p, at, &t, 20) ||
	    cannot_read(skb, &p, ip + (type == ETH_IPV4 ? 2 : 4), &length, 2))
		return;
	u32 head = at + (t.offset >> 4) * 4;
	// Behind a short packet there may be padding, and of one of 64 kB and more the header does not tell.
	u32 end = length ? ip + BE16(length) + (type == ETH_IPV4 ? 0 : sizeof(struct ipv6)) : bytes;
	u32 data = end > head ? end - head : 0;
	if (t.offset >> 4 < 8 || cannot_read(skb, &p, at + 20, &t.stamp_kind, 12) || t.stamp_kind != BE32_CONST(0x0101080a))
		t.stamp_kind = 0;
	u64 now = ktime_get_ns();
	const struct address *own = does_leave ? &h.src : &h.dst, *far = does_leave ? &h.dst : &h.src;
	u64 id = mix(does_leave ? (u64)t.ports[0] << 16 | t.ports[1] : (u64)t.ports[1] << 16 | t.ports[0], own->high);
	id = mix(mix(mix(id, own->low), far->high), far->low);
	struct flow *f = flow_of(id, now, BE32(t.seq), does_leave);
	if (!f)
		return;
	f->bytes[does_leave ? UP : DOWN] += data;
	u32 extent = data + !!(t.flags & SYN) + !!(t.flags & FIN);
	if (does_leave)
		leaves(f, id, &t, extent, now);
	else
		comes(f, id, &t, extent, now);
}

SECTION("socket")
int quell_trips(struct __sk_buff *skb)
{
	watch(skb, FIELD(skb->pkt_type) == LEAVES, FIELD(skb->len));
	return 0;
}

// The same for the kernel's test run, which tells of no packet that it leaves.
SECTION("classifier")
int quell_leaves(struct __sk_buff *skb)
{
	watch(skb, 1, FIELD(skb->len) - 14);
	return 0;
}

SECTION("classifier")
int quell_comes(struct __sk_buff *skb)
{
	watch(skb, 0, FIELD(skb->len) - 14);
	return 0;
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
