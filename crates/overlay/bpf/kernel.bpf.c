// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The path inside the kernel: frames between containers and to other hosts' containers.
 *
 * It is the daemon's route cache, in front of the daemon. A frame whose way is known goes it at once; every
 * other frame goes to the daemon as if this were not here (a port's to its tap, a tunnel's to its socket),
 * and the daemon then says here how the next one goes. So nothing is decided here that was not decided
 * there, and when the daemon is gone what was decided stays in force.
 *
 * Frames stay whole: a large frame of TCP is one frame all the way, its checksum is left to whom it was left
 * to. A tunnel's headers are written and taken off here, because the kernel's own tunnel device costs more
 * than all the rest of the way (routing, netfilter, a socket's lookup, one more queue).
 *
 * Layouts: crates/overlay/src/kernel/layout.rs.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NAME_BYTES 48
#define VXLAN_FLAGS bpf_htonl(0x08000000)
/* Without options; with a checksum. */
#define TCP_BYTES 20
#define ICMP_BYTES 4
#define DONT_FRAGMENT bpf_htons(0x4000)
#define FRAGMENT bpf_htons(0x3fff)
/* Linux 6.3; an older kernel refuses it. */
#define DECAP_L3_IPV6 (1ULL << 8)
/* Routes that a processor has at hand; a power of two. */
#define NEAR_ROUTES 256
#define KEEP_SUM BPF_F_ADJ_ROOM_NO_CSUM_RESET
#define WHOLE (BPF_F_ADJ_ROOM_FIXED_GSO | KEEP_SUM)

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

struct key {
	__u32 origin; /* number of the interface, or FROM_TUNNEL and the network */
	__u8 source[6];
	__u8 destination[6];
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
	__u8 remote_mac[6];
	__u8 local_mac[6];
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

/* What is in front of an inner frame, and that frame's own Ethernet header. */
struct vxlan_frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__be32 flags;
	__be32 vni;
	struct ethhdr inner;
} __attribute__((packed));
#define OUTER_BYTES offsetof(struct vxlan_frame, inner)

static __always_inline struct counts *counts_of(__u32 number)
{
	return bpf_map_lookup_elem(&overlay_counts, &number);
}

static __always_inline void count(__u32 ingress, __u32 egress, __u32 bytes)
{
	struct counts *counts = counts_of(ingress);

	if (counts) {
		counts->received_frames++;
		counts->received_bytes += bytes;
	}
	counts = counts_of(egress);
	if (counts) {
		counts->sent_frames++;
		counts->sent_bytes += bytes;
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
	/* A wire's frames have passed the daemon's packet socket already; the rest is the host's. */
	if (port->kind == KIND_DIRECT)
		return TC_ACT_UNSPEC;
	return drop(port->number, REASON_DOWN);
}

static __always_inline bool same_mac(const void *a, const void *b)
{
	const __u16 *left = a, *right = b;

	return left[0] == right[0] && left[1] == right[1] && left[2] == right[2];
}

static __always_inline __u32 mix(__u32 a, __u32 b, __u32 c)
{
	__u32 hash = a * 0x9e3779b1 ^ b * 0x85ebca6b ^ c * 0xc2b2ae35;

	return hash ^ hash >> 16;
}

static __always_inline bool same_key(const struct key *a, const struct key *b)
{
	const __u32 *left = (const void *)a, *right = (const void *)b;

	return left[0] == right[0] && left[1] == right[1] && left[2] == right[2] && left[3] == right[3];
}

/* The route of a key, if the daemon has said it and still stands by it. */
static __always_inline struct route *believed(const struct key *key)
{
	struct route *route;
	struct state *state;
	__u32 zero = 0;

	route = bpf_map_lookup_elem(&overlay_routes, key);
	state = bpf_map_lookup_elem(&overlay_state, &zero);
	if (!route || !state || (__s32)(route->generation - state->floor) < 0)
		return NULL;
	/* Only the first time, so that the processors can share the line. */
	if (!route->used)
		route->used = 1;
	return route;
}

/* A frame's way, if there is one. */
static __always_inline struct route *route_of(__u32 origin, const struct ethhdr *eth)
{
	struct near_route *near;
	struct route *route;
	__u32 *changes;
	__u32 at = 0, seen;
	struct key key;

	key.origin = origin;
	__builtin_memcpy(key.source, eth->h_source, 6);
	__builtin_memcpy(key.destination, eth->h_dest, 6);
	changes = bpf_map_lookup_elem(&overlay_changes, &at);
	at = mix(origin, *(__u32 *)&key.source[2], *(__u32 *)&key.destination[2]) % NEAR_ROUTES;
	near = bpf_map_lookup_elem(&overlay_near, &at);
	if (!changes || !near || is_interrupted)
		return believed(&key);
	/* Before the look: what changes meanwhile changes the number again. */
	seen = *(volatile __u32 *)changes;
	if (near->changes == seen && same_key(&near->key, &key))
		return &near->route;
	route = believed(&key);
	if (!route)
		return NULL;
	near->changes = seen;
	near->key = key;
	near->route = *route;
	return route;
}

/* A bucket of frames that is filled as time goes by. Two processors may now and then let one more through. */
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

/* Read anew each time: a compiler that keeps them as the 32 bits they are declared as loses that they are
 * pointers, and the verifier refuses the program. */
#define BEGIN(skb) ((void *)(long)*(volatile __u32 *)&(skb)->data)
#define END(skb) ((void *)(long)*(volatile __u32 *)&(skb)->data_end)

/* The frame's first bytes in one piece, as they nearly always are: a call per look costs more than the look. */
static __always_inline void *front_of(struct __sk_buff *skb, __u32 bytes)
{
	void *front = BEGIN(skb);

	if (front + bytes <= END(skb))
		return front;
	if (bpf_skb_pull_data(skb, bytes))
		return NULL;
	front = BEGIN(skb);
	return front + bytes <= END(skb) ? front : NULL;
}

static __always_inline __u64 sum_words(const void *bytes, __u32 words)
{
	const __u16 *word = bytes;
	__u64 sum = 0;

#pragma unroll
	for (__u32 i = 0; i < words; i++)
		sum += word[i];
	return sum;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* What is looked at in an inner packet. */
struct inner {
	__u8 protocol;
	__u8 tos;
	bool summed; /* its checksum is right, or will be when it reaches a wire */
	__u32 flow;  /* the same for all packets of a flow */
	/* What all its bytes behind the Ethernet header sum up to, without looking at the data: a right
	 * checksum makes data and pseudo header sum up to nothing (local checksum offload, one level up). */
	__u64 sum;
};

/* `at`: where the network header ends. What is too short for its own protocol has no checksum to rely on,
 * and goes as it is: it is not a switch's to judge. */
static __always_inline void look_into_payload(struct __sk_buff *skb, __u32 at, struct inner *inner)
{
	const void *front = NULL;

	if (inner->protocol == IPPROTO_UDP) {
		front = front_of(skb, at + sizeof(struct udphdr));
		if (!front || !((struct udphdr *)(front + at))->check)
			inner->summed = false;
	} else if (inner->protocol == IPPROTO_TCP) {
		front = front_of(skb, at + TCP_BYTES);
		if (!front)
			inner->summed = false;
	} else if ((inner->protocol != IPPROTO_ICMP && inner->protocol != IPPROTO_ICMPV6) ||
		   skb->len < at + ICMP_BYTES) {
		inner->summed = false;
	}
	/* Both begin with their ports. */
	if (front)
		inner->flow ^= mix(*(__u32 *)(front + at), 0, 0);
}

static __always_inline int look_into_v4(struct __sk_buff *skb, struct inner *inner)
{
	const __u32 at = ETH_HLEN + sizeof(struct iphdr);
	const void *front = front_of(skb, at);
	const struct iphdr *ip = front + ETH_HLEN;
	bool whole;

	if (!front)
		return -1;
	inner->protocol = ip->protocol;
	inner->tos = ip->tos;
	inner->flow = mix(ip->saddr, ip->daddr, ip->protocol);
	/* The header sums up to nothing; the rest to what the pseudo header lacks, and ICMP has none. */
	if (ip->protocol != IPPROTO_ICMP)
		inner->sum = (__u16)~fold(sum_words(&ip->saddr, 4) + bpf_htons(ip->protocol) +
					  bpf_htons(bpf_ntohs(ip->tot_len) - sizeof(*ip)));
	whole = ip->ihl == 5 && !(ip->frag_off & FRAGMENT);
	inner->summed = whole && ip->protocol != IPPROTO_ICMPV6 && bpf_ntohs(ip->tot_len) == skb->len - ETH_HLEN;
	/* Of a datagram in pieces only the first one has ports, and all go one way. */
	if (whole)
		look_into_payload(skb, at, inner);
	return 0;
}

static __always_inline int look_into_v6(struct __sk_buff *skb, struct inner *inner)
{
	const __u32 at = ETH_HLEN + sizeof(struct ipv6hdr);
	const void *front = front_of(skb, at);
	const struct ipv6hdr *ip = front + ETH_HLEN;

	if (!front)
		return -1;
	inner->protocol = ip->nexthdr;
	inner->tos = bpf_ntohs(*(__be16 *)ip) >> 4;
	inner->flow = mix(ip->saddr.in6_u.u6_addr32[3], ip->daddr.in6_u.u6_addr32[3], ip->nexthdr);
	/* Addresses and length are in both headers, and so cancel out. */
	inner->sum = sum_words(ip, 2) + *(__u16 *)&ip->nexthdr + (__u16)~bpf_htons(ip->nexthdr);
	inner->summed = ip->nexthdr != IPPROTO_ICMP && bpf_ntohs(ip->payload_len) == skb->len - at;
	look_into_payload(skb, at, inner);
	return 0;
}

/* Makes room and writes what is in front of the inner frame. Positive: not for this program, and untouched. */
static __always_inline int encapsulate(struct __sk_buff *skb, const struct route *route, const struct ethhdr *eth)
{
	const __u64 tunnel = BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
			     BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH;
	struct inner inner = {};
	struct vxlan_frame front;
	__u32 flow, length = skb->len;
	__u64 sum;

	if (skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (skb->protocol == bpf_htons(ETH_P_IP) ? look_into_v4(skb, &inner) : look_into_v6(skb, &inner))
			return -1;
		/* Datagrams to be cut up would reach their socket marked as a tunnel's, and be refused. */
		if (skb->gso_size && inner.protocol != IPPROTO_TCP)
			return 1;
		/* Who cuts a frame up cannot be asked from here for checksums of the pieces. */
		if (skb->gso_size)
			inner.summed = false;
		/* A frame that came out of a tunnel and was forwarded is still marked as one, with headers
		 * in the same places. Single packets of more than 16 KB never get room. */
		if (bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC, tunnel | WHOLE) &&
		    bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE))
			return 1;
	} else {
		inner.flow = mix(*(__u32 *)&eth->h_dest[2], *(__u32 *)&eth->h_source[2], eth->h_proto);
		if (bpf_skb_change_head(skb, OUTER_BYTES, 0))
			return 1;
	}
	__builtin_memcpy(front.eth.h_dest, route->remote_mac, 6);
	__builtin_memcpy(front.eth.h_source, route->local_mac, 6);
	front.eth.h_proto = bpf_htons(ETH_P_IP);
	__builtin_memset(&front.ip, 0, sizeof(front.ip));
	front.ip.version = 4;
	front.ip.ihl = 5;
	front.ip.tos = inner.tos & 3; /* RFC 6040 */
	front.ip.tot_len = bpf_htons(length + OUTER_BYTES - ETH_HLEN);
	front.ip.frag_off = DONT_FRAGMENT;
	front.ip.ttl = 64;
	front.ip.protocol = IPPROTO_UDP;
	front.ip.saddr = route->local;
	front.ip.daddr = route->remote;
	front.ip.check = ~fold(sum_words(&front.ip, sizeof(front.ip) / 2));
	/* RFC 7348: entropy for paths and queues. Connected sockets bring a hash of their flow along; to have
	 * the kernel compute others' means to take the packet apart once more. */
	flow = skb->hash ? skb->hash : inner.flow;
	front.udp.source = bpf_htons(0xc000 | (flow & 0x3fff));
	front.udp.dest = route->remote_port;
	front.udp.len = bpf_htons(length + OUTER_BYTES - ETH_HLEN - sizeof(front.ip));
	front.udp.check = 0;
	front.flags = VXLAN_FLAGS;
	front.vni = bpf_htonl(route->network << 8);
	front.inner = *eth;
	if (inner.summed) {
		sum = inner.sum + sum_words(&front.ip.saddr, 4) + bpf_htons(IPPROTO_UDP) + front.udp.len;
		sum += sum_words(&front.udp, (sizeof(front) - offsetof(struct vxlan_frame, udp)) / 2);
		front.udp.check = ~fold(sum);
		if (!front.udp.check)
			front.udp.check = 0xffff;
	}
	return bpf_skb_store_bytes(skb, 0, &front, sizeof(front), 0);
}

/* A frame that has no route, or that its route is not for: dropped or the daemon's. */
static __always_inline int without_route(__u32 device, const struct ethhdr *eth)
{
	struct port *port = bpf_map_lookup_elem(&overlay_ports, &device);

	if (!port)
		return TC_ACT_UNSPEC;
	if (!eth)
		return drop(port->number, REASON_MALFORMED);
	if (port->bound && !same_mac(eth->h_source, port->mac))
		return drop(port->number, REASON_SPOOFED);
	if ((eth->h_dest[0] & 1) && floods_too_much(port))
		return drop(port->number, REASON_LIMITED);
	return to_daemon(port);
}

/* From a container, or from the wire of a direct link. A route says that all has been looked at: the daemon
 * makes none for an address that the port may not use, nor from one link to another. */
SEC("tc")
int from_port(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex, bytes = skb->len;
	struct route *route;
	struct ethhdr eth;
	void *front;
	int done;

	front = front_of(skb, sizeof(eth));
	if (!front)
		return without_route(device, NULL);
	__builtin_memcpy(&eth, front, sizeof(eth));
	if (eth.h_dest[0] & 1)
		return without_route(device, &eth);
	route = route_of(device, &eth);
	if (!route || (route->longest && (skb->gso_size ? skb->gso_size + 54 : bytes) > route->longest))
		return without_route(device, &eth);
	if (route->egress == route->ingress)
		return drop(route->ingress, REASON_LOOP);
	switch (route->way) {
	case WAY_LOCAL:
		count(route->ingress, route->egress, bytes);
		return bpf_redirect_peer(route->device, 0);
	case WAY_DIRECT:
		count(route->ingress, route->egress, bytes);
		return bpf_redirect(route->device, 0);
	case WAY_VXLAN:
		done = skb->vlan_present ? 1 : encapsulate(skb, route, &eth);
		if (done > 0)
			break;
		if (done < 0)
			return drop(route->ingress, REASON_REFUSED);
		count(route->ingress, route->egress, bytes);
		return bpf_redirect(route->device, 0);
	}
	return without_route(device, &eth);
}

/* From the daemon's tap of a port: the daemon has decided, this is the last step. */
SEC("tc")
int from_daemon(struct __sk_buff *skb)
{
	__u32 device = skb->ifindex;
	struct port *tap;

	tap = bpf_map_lookup_elem(&overlay_ports, &device);
	if (!tap)
		return TC_ACT_UNSPEC;
	return tap->into_container ? bpf_redirect_peer(tap->device, 0) : bpf_redirect(tap->device, 0);
}

/* A large frame whose inner packet is large too. The other kind is a row of datagrams that belong to the
 * daemon's socket (UDP_GRO): only the first one's inner packet is at its beginning. */
static __always_inline bool is_one_packet(struct __sk_buff *skb, __be16 protocol)
{
	const __u32 at = sizeof(struct vxlan_frame);
	__be16 length;

	if (protocol == bpf_htons(ETH_P_IP))
		return !bpf_skb_load_bytes(skb, at + offsetof(struct iphdr, tot_len), &length, 2) &&
		       bpf_ntohs(length) == skb->len - at;
	if (protocol == bpf_htons(ETH_P_IPV6))
		return !bpf_skb_load_bytes(skb, at + offsetof(struct ipv6hdr, payload_len), &length, 2) &&
		       bpf_ntohs(length) == skb->len - at - sizeof(struct ipv6hdr);
	return false;
}

/* Takes off what is in front of the inner frame. Positive: the kernel still takes the frame for a packet
 * of the outer protocol, so that it has to come in anew, through a device. */
static __always_inline int decapsulate(struct __sk_buff *skb, const struct ethhdr *inner)
{
	int anew = 1;

	if (inner->h_proto == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE))
			return -1;
		anew = 0;
	} else if (inner->h_proto == bpf_htons(ETH_P_IPV6) &&
		   !bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE | DECAP_L3_IPV6)) {
		anew = 0;
	} else if (bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE)) {
		return -1;
	}
	/* What a card has verified was the outer checksum first. */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	if (bpf_skb_store_bytes(skb, 0, inner, sizeof(*inner), 0))
		return -1;
	return anew;
}

/* From the wire of tunnels. Whatever is not known for sure goes on to the stack, and so to the daemon. */
SEC("tc")
int from_tunnel(struct __sk_buff *skb)
{
	__u32 bytes = skb->len - OUTER_BYTES;
	const struct vxlan_frame *front;
	struct route *route;
	struct ethhdr inner;
	bool congested;
	int done;

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->pkt_type || skb->vlan_present)
		return TC_ACT_UNSPEC;
	front = front_of(skb, sizeof(*front));
	if (!front || front->ip.protocol != IPPROTO_UDP || front->ip.ihl != 5 || (front->ip.frag_off & FRAGMENT) ||
	    front->flags != VXLAN_FLAGS)
		return TC_ACT_UNSPEC;
	inner = front->inner;
	route = route_of(FROM_TUNNEL | bpf_ntohl(front->vni) >> 8, &inner);
	if (!route || route->way != WAY_LOCAL || route->remote != front->ip.saddr ||
	    route->local != front->ip.daddr || route->local_port != front->udp.dest)
		return TC_ACT_UNSPEC;
	congested = (front->ip.tos & 3) == 3;
	if (skb->gso_size && !is_one_packet(skb, inner.h_proto))
		return TC_ACT_UNSPEC;
	done = decapsulate(skb, &inner);
	if (done < 0)
		return drop(route->ingress, REASON_REFUSED);
	/* RFC 6040: who was told of congestion on the way must hear it, or lose the packet. */
	if (congested && !done && !bpf_skb_ecn_set_ce(skb))
		return drop(route->ingress, REASON_MALFORMED);
	count(route->ingress, route->egress, bytes);
	return done ? bpf_redirect(route->device, 0) : bpf_redirect_peer(route->device, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
