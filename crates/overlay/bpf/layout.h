// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the programs and the daemon share: crates/overlay/src/kernel/layout.rs reads and writes the same bytes. */
#pragma once

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define NAME_BYTES 48
/* Cached routes of a CPU; a power of two. */
#define CACHED_ROUTES 256

/* As DropReason in endpoints/drop_reason.rs. */
enum reason {
	REASON_NO_ROUTE = 0,
	REASON_SPOOFED = 1,
	REASON_DOWN = 3,
	REASON_MALFORMED = 5,
	REASON_LIMITED = 6,
	REASON_LOOP = 7,
	REASON_REFUSED = 9,
	REASONS = 12,
};

enum action {
	ACTION_LOCAL = 1,  /* into a container of this host */
	ACTION_DIRECT = 2, /* as it is, through a device */
	ACTION_VXLAN = 3,  /* in VXLAN, through a device */
};

struct state {
	__u64 namespace; /* of the daemon */
	char name[NAME_BYTES];
	__u32 layout;
	__u32 padding;
};

enum kind {
	KIND_CONTAINER = 1, /* the container's end on this host */
	KIND_DIRECT = 2,    /* an uplink that carries unencapsulated frames */
	KIND_TUNNEL = 3,    /* an uplink that carries VXLAN beside other traffic */
	KIND_TAP = 4,       /* the daemon's tap of one of the first two */
	KIND_SHARED = 5,    /* an uplink of both kinds, with the number and tap of the direct link */
};

struct port {
	__u32 network;
	__u32 device;
	__u32 tap; /* 0: the daemon has none at the moment */
	__u16 number;
	__u8 kind;
	__u8 bound; /* `mac` is the only permitted source */
	__u8 mac[6];
	__u8 into_container; /* of a tap: its port is a container's */
	__u8 padding;
	__u32 flood_rate; /* broadcasts and multicasts per second; 0: unlimited */
	__u32 flood_burst;
	__u32 flood_left;
	__u32 more_padding;
	__u64 flood_at;
};

/* A tunnel's frames carry their network, an interface's are all of one. */
#define FROM_TUNNEL 0x80000000u

/* Destination and source, as at the start of a frame. In words, because a compiler copies bytes one by one, and a
 * word that is read back then waits for all of them (store forwarding). */
struct addresses {
	__u32 words[3];
};

struct key {
	__u32 origin; /* interface index, or FROM_TUNNEL and the network */
	struct addresses addresses;
};

struct route {
	__u8 action;
	__u8 used; /* set here, cleared by the daemon */
	__u16 ingress; /* port or link of origin */
	__u16 egress;
	__u16 longest; /* maximum frame length in bytes; longer frames go to the daemon; 0: unlimited */
	__u32 network;
	__u32 device;
	__be32 remote; /* other end of the tunnel, in either direction; 0: none */
	__be32 local;
	__be16 remote_port;
	__be16 local_port;
	struct addresses outer; /* to the next hop, from the uplink */
	__u32 pair; /* index of the counters of its addresses; 0: those of all pairs that have none */
};

/* A route as of the change with this number; 0: none. */
struct cached_route {
	struct key key;
	__u32 changes;
	struct route route;
};

struct counts {
	__u64 received_frames;
	__u64 received_bytes;
	__u64 sent_frames;
	__u64 sent_bytes;
	__u64 missed; /* went to the daemon */
	__u64 dropped[REASONS];
};

/* Traffic from one address to another. */
struct traffic {
	__u64 frames;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} overlay_state SEC(".maps");

/* By interface index, the daemon's taps included. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct port);
} overlay_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536); /* set before loading */
	__type(key, struct key);
	__type(value, struct route);
} overlay_routes SEC(".maps");

/* The number of the last change to the routes, which the daemon increments. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} overlay_changes SEC(".maps");

/* A lookup among all routes costs a hash and a walk of its chain, twice per frame. Each CPU caches its last routes for
 * one array access; every change invalidates all caches. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CACHED_ROUTES);
	__type(key, __u32);
	__type(value, struct cached_route);
} overlay_near SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct counts);
} overlay_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct traffic);
} overlay_pairs SEC(".maps");

/* A program may be preempted by another on the same CPU (PREEMPT_RT), so the per-CPU cache is unsafe. */
const volatile bool is_preemptible;
