// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The classifier: a tc filter that gives each packet its class, by host, tier and flow, in one step. It reads and never writes what is in
// the packet.
//
//   packet ─parse─► headers, outer and innermost ─┬─ host ─► its own class, as long as there are free ones
//                                                 ├─ DSCP ─► tier
//                                                 └─ keys ─► hash ─► flow
//   class id = major : base + host × step + tier × step + flow × step

#include "hosts.h"

SECTION("classifier")
int quell_classify(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct config *c = map_lookup(&CONFIG, &zero);
	if (!c)
		return 0;
	struct packet p = {0};
	int is_ip = 0;
	ROLLED
	for (int tries = 0; tries < 2; tries++) {
		is_ip = parse(skb, c, &p);
		if (LIKELY(!p.short_read))
			break;
		// Headers of a received packet may lie in its fragments: they are brought where they can be read, and read anew.
		u32 len = FIELD(skb->len);
		if (skb_pull_data(skb, len < 512 ? len : 512))
			break;
	}
	if (UNLIKELY(!is_ip))
		return c->other;
	if (c->flags & FLAG_TUNNELS_ONLY && !p.tunnels)
		return 0;
	u8 dscp = c->flags & FLAG_TIER_TUNNEL ? p.inner.dscp : p.outer.dscp;
	u32 tier = c->tiers[dscp & 63];
	u32 minor = c->base + tier * c->tier_step;
	if (c->tin_major)
		skb->priority = c->tin_major << 16 | (tier + 1);
	if (c->keys)
		minor += scale(hash_flow(c, &p), c->flows) * c->flow_step;
	u32 major = c->major;
	// Behind the call nothing may depend on what a number is: kernel 6.1's verifier would hold all numbers before it apart then, and refuse
	// the program as too large.
	if (c->host) {
		struct address a = host_of(c, &p);
		if (c->flags & FLAG_NEIGHBOURS && is_address(&a) && quell_is_unknown(a.high, a.low))
			quell_know(a.high, a.low, whose(skb, &a, c->host == HOST_DST || c->host == HOST_TUNNEL_DST));
		u32 host = quell_host_class(a.high, a.low);
		minor += host * c->host_step;
		if (c->flags & FLAG_HOST_IS_MAJOR)
			major = host + 1;
	}
	return major << 16 | (minor & 0xffff);
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
