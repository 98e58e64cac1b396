// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// All headers of a packet, outermost and innermost; what each one is, is in headers.h. The same in Rust is ../../tests/twin/parse.rs.

#pragma once
#include "config.h"
#include "headers.h"

// False if it is no IP packet.
INLINE int parse(struct __sk_buff *skb, const struct config *c, struct packet *p)
{
	u32 at = 0;
	p->tunnels = 0;
	p->short_read = 0;
	p->mark = FIELD(skb->mark);
	p->vlan = FIELD(skb->vlan_present) ? FIELD(skb->vlan_tci) & 0xfff : 0;
	u16 type = pass_tags(skb, p, BE16((u16)FIELD(skb->protocol)), &at, &p->vlan);
	int found = parse_ip(skb, p, type, &at, &p->outer);
	if (!found)
		return 0;
	type = found == 1 ? parse_payload(skb, p, c->vxlan_port, &at, &p->outer, 1) : 0;
	p->inner = p->outer;
	ROLLED
	for (int i = 1; i <= MAX_TUNNELS; i++) {
		struct headers h;
		if (LIKELY(!type))
			break;
		found = parse_ip(skb, p, type, &at, &h);
		if (!found)
			break;
		type = found == 1 ? parse_payload(skb, p, c->vxlan_port, &at, &h, i < MAX_TUNNELS) : 0;
		p->inner = h;
		p->tunnels = i;
	}
	return 1;
}
