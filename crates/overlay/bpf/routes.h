// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Route lookup and counters. */
#pragma once

#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include "layout.h"

static __always_inline struct counts *counts_of(__u32 number)
{
	return bpf_map_lookup_elem(&overlay_counts, &number);
}

static __always_inline void count(const struct route *route, __u32 bytes)
{
	struct counts *counts = counts_of(route->ingress);
	__u32 pair = route->pair;
	struct traffic *traffic;

	if (counts) {
		counts->received_frames++;
		counts->received_bytes += bytes;
	}
	counts = counts_of(route->egress);
	if (counts) {
		counts->sent_frames++;
		counts->sent_bytes += bytes;
	}
	traffic = bpf_map_lookup_elem(&overlay_pairs, &pair);
	if (traffic) {
		traffic->frames++;
		traffic->bytes += bytes;
	}
}

static __always_inline int drop(__u32 number, enum reason reason)
{
	struct counts *counts = counts_of(number);

	if (counts)
		counts->dropped[reason]++;
	return TC_ACT_SHOT;
}

static __always_inline int to_daemon(const struct port *port)
{
	struct counts *counts = counts_of(port->number);

	if (counts)
		counts->missed++;
	if (port->tap)
		return bpf_redirect(port->tap, 0);
	return drop(port->number, REASON_DOWN);
}

/* An uplink's frame without a route is the host's, and the daemon gets a copy. It gets none of frames to the host's own
 * address: it would flood them to the containers as unknown. A daemon without a tap has a packet socket there, which
 * has seen the frame already. */
static __always_inline int shared(struct __sk_buff *skb, const struct port *port)
{
	struct counts *counts;

	if (skb->pkt_type == PACKET_HOST)
		return TC_ACT_UNSPEC;
	counts = counts_of(port->number);
	if (counts)
		counts->missed++;
	if (port->tap)
		bpf_clone_redirect(skb, port->tap, 0);
	return TC_ACT_UNSPEC;
}

static __always_inline bool is_from(const struct addresses *addresses, const __u8 *mac)
{
	const __u16 *left = (const __u16 *)addresses + 3, *right = (const void *)mac;

	return left[0] == right[0] && left[1] == right[1] && left[2] == right[2];
}

static __always_inline bool is_group(const struct addresses *addresses)
{
	return *(const __u8 *)addresses & 1;
}

static __always_inline __u32 mix(__u32 a, __u32 b, __u32 c)
{
	__u32 hash = a * 0x9e3779b1 ^ b * 0x85ebca6b ^ c * 0xc2b2ae35;

	return hash ^ hash >> 16;
}

static __always_inline bool same_key(const struct key *a, const struct key *b)
{
	return a->origin == b->origin && a->addresses.words[0] == b->addresses.words[0] &&
	       a->addresses.words[1] == b->addresses.words[1] && a->addresses.words[2] == b->addresses.words[2];
}

/* The current route of a key. The state is read so that its map belongs to the program: by that a restarted daemon finds
 * its maps. */
static __always_inline struct route *lookup_live(const struct key *key)
{
	struct route *route = bpf_map_lookup_elem(&overlay_routes, key);
	__u32 zero = 0;

	if (!route || !bpf_map_lookup_elem(&overlay_state, &zero))
		return NULL;
	/* Only the first time, so that CPUs can share the cache line. */
	if (!route->used)
		route->used = 1;
	return route;
}

/* The route of a frame, from this CPU's cache if it is current. */
static __always_inline struct route *route_of(__u32 origin, const struct addresses *addresses)
{
	struct cached_route *cached;
	struct route *route;
	__u32 *changes;
	__u32 at = 0, seen;
	struct key key = { .origin = origin, .addresses = *addresses };

	changes = bpf_map_lookup_elem(&overlay_changes, &at);
	at = mix(origin ^ addresses->words[0], addresses->words[1], addresses->words[2]) % CACHED_ROUTES;
	cached = bpf_map_lookup_elem(&overlay_near, &at);
	if (!changes || !cached || is_preemptible)
		return lookup_live(&key);
	/* Before the lookup: a change meanwhile has another number. */
	seen = *(volatile __u32 *)changes;
	if (cached->changes == seen && same_key(&cached->key, &key))
		return &cached->route;
	route = lookup_live(&key);
	if (!route)
		return NULL;
	cached->changes = seen;
	cached->key = key;
	cached->route = *route;
	return route;
}

/* A token bucket. Two CPUs may occasionally let one frame more through. */
static __always_inline bool floods_too_much(struct port *port)
{
	__u64 now, more;

	if (!port->flood_rate)
		return false;
	now = bpf_ktime_get_ns();
	more = (now - port->flood_at) * port->flood_rate / 1000000000;
	if (more) {
		more += port->flood_left;
		port->flood_left = more > port->flood_burst ? port->flood_burst : more;
		port->flood_at = now;
	}
	if (!port->flood_left)
		return true;
	port->flood_left--;
	return false;
}
