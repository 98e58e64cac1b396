// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the program uses of the kernel's interface: types, what a packet tells of itself, maps and helpers. Numbers and layouts are those of
// include/uapi/linux/bpf.h, where they are fixed for ever. Written out here, so that no header of the system is needed to compile.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static inline __attribute__((always_inline))
#define GLOBAL __attribute__((noinline))
#define SECTION(name) __attribute__((section(name), used))
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BE16(x) __builtin_bswap16(x)
#define BE32(x) __builtin_bswap32(x)
#define BE64(x) __builtin_bswap64(x)
#define BE16_CONST(x) ((u16)((((x) & 0xff) << 8) | (((x) >> 8) & 0xff)))
#define BE32_CONST(x) ((u32)BE16_CONST(x) << 16 | BE16_CONST((x) >> 16))
#else
#define BE16(x) (x)
#define BE32(x) (x)
#define BE64(x) (x)
#define BE16_CONST(x) (x)
#define BE32_CONST(x) (x)
#endif

// The beginning of struct __sk_buff: as far as it is read here.
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol; // ethertype, network byte order
	u32 vlan_present;
	u32 vlan_tci; // host byte order
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
};

INLINE u64 mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

// struct bpf_fib_lookup: asks for an address's route; the answer holds the interface, the gateway in the address's place if there is one, and
// the neighbour's hardware address.
struct fib_question {
	u8 family;
	u8 protocol;
	u16 ports[2];
	u16 length;
	u32 ifindex;
	u32 flow;
	u64 src[2];
	u64 dst[2];
	u32 vlan;
	u8 own_mac[6];
	u8 mac[6];
} __attribute__((packed, aligned(8)));
_Static_assert(sizeof(struct fib_question) == 64, "as the kernel has it");

// Read at once and alone: the verifier takes no address that was calculated from two fields.
#define FIELD(x) (*(volatile typeof(x) *)&(x))

struct bpf_map_def {
	u32 type;
	u32 key_size;
	u32 value_size;
	u32 max_entries;
	u32 map_flags;
};

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_LEAST_RECENT = 9, MAP_LONGEST_PREFIX = 11, MAP_RING = 27 };
enum { NO_PREALLOC = 1 };
enum { UPDATE_ANY = 0, UPDATE_NOEXIST = 1 };
enum { FROM_NETWORK_HEADER = 1 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
static long (*const skb_load_bytes_relative)(const struct __sk_buff *skb, u32 offset, void *to, u32 len, u32 from) = (void *)68;
static long (*const fib_lookup)(struct __sk_buff *skb, struct fib_question *question, int size, u32 flags) = (void *)69;
static u64 (*const ktime_get_coarse_ns)(void) = (void *)160;
static long (*const ring_output)(void *ring, const void *data, u64 size, u64 flags) = (void *)130;
