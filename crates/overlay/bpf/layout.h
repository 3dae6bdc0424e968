// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the programs and the daemon share: crates/overlay/src/kernel/layout.rs reads and writes the same bytes. */
#pragma once

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define NAME_BYTES 48
/* Routes that a processor has at hand; a power of two. */
#define NEAR_ROUTES 256

/* As DropReason in endpoints.rs. */
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

enum way {
	WAY_LOCAL = 1,  /* into a container of this host */
	WAY_DIRECT = 2, /* as it is, through a device */
	WAY_VXLAN = 3,  /* in VXLAN, through a device */
};

struct state {
	__u64 namespace; /* of the daemon: with the name, whose this is */
	char name[NAME_BYTES];
	__u32 layout;
	__u32 floor; /* routes of older generations are not believed */
};

enum kind {
	KIND_CONTAINER = 1, /* the container's end on this host */
	KIND_DIRECT = 2,    /* a wire that carries frames as they are */
	KIND_TUNNEL = 3,    /* a wire that carries VXLAN beside other things */
	KIND_TAP = 4,       /* the daemon's, of one of the first two */
};

struct port {
	__u32 network;
	__u32 device;
	__u32 tap; /* 0: the daemon has none at the moment */
	__u16 number;
	__u8 kind;
	__u8 bound; /* `mac` is the only source it may have */
	__u8 mac[6];
	__u8 into_container; /* of a tap: its port is a container's */
	__u8 padding;
	__u32 flood_rate; /* broadcasts and multicasts a second; 0: as many as it likes */
	__u32 flood_burst;
	__u32 flood_left;
	__u32 more_padding;
	__u64 flood_at;
};

/* A tunnel's frames bring their network along, an interface's are all of one. */
#define FROM_TUNNEL 0x80000000u

/* Destination and source, as a frame begins with them. In words, because a compiler that is told of bytes goes
 * byte by byte, and what is then read back as a word has to wait for them. */
struct addresses {
	__u32 words[3];
};

struct key {
	__u32 origin; /* number of the interface, or FROM_TUNNEL and the network */
	struct addresses addresses;
};

struct route {
	__u32 generation;
	__u8 way;
	__u8 used; /* set here, cleared by the daemon */
	__u16 ingress; /* the port or link from which such frames come */
	__u16 egress;
	__u16 longest; /* frame, in bytes; longer ones go to the daemon; 0: any */
	__u32 network;
	__u32 device;
	__be32 remote; /* the tunnel's other end, for frames in either direction; 0: they use none */
	__be32 local;
	__be16 remote_port;
	__be16 local_port;
	struct addresses outer; /* to the next hop, from the wire */
};

/* A route as it was when so many changes had been made to the routes; 0: none. */
struct near_route {
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} overlay_state SEC(".maps");

/* By the number of the interface, the daemon's taps included. */
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

/* The number of the last change to the routes or to the floor: the daemon's, written when the change is made. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} overlay_changes SEC(".maps");

/* What is found among all routes costs a hash and a walk of its chain, twice on a frame's way. The last ones
 * of each processor are found in one step; every change forgets them all. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NEAR_ROUTES);
	__type(key, __u32);
	__type(value, struct near_route);
} overlay_near SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct counts);
} overlay_counts SEC(".maps");

/* Another frame may come between while this one is at work (PREEMPT_RT): what is at hand is nobody's own. */
const volatile bool is_interrupted;
