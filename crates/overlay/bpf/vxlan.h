// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Writes and removes the tunnel headers of an inner frame (RFC 7348). */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

#include "layout.h"
#include "routes.h"

#define VXLAN_FLAGS bpf_htonl(0x08000000)
/* Without options; with a checksum. */
#define TCP_BYTES 20
#define ICMP_BYTES 4
#define DONT_FRAGMENT bpf_htons(0x4000)
#define FRAGMENT bpf_htons(0x3fff)
/* Linux 6.3; an older kernel refuses it. */
#define DECAP_L3_IPV6 (1ULL << 8)
#define KEEP_SUM BPF_F_ADJ_ROOM_NO_CSUM_RESET
#define WHOLE (BPF_F_ADJ_ROOM_FIXED_GSO | KEEP_SUM)

/* An Ethernet header of ETH_HLEN bytes; the structure's last two belong to the packet. */
struct ethernet {
	struct addresses addresses;
	__be16 protocol;
};

/* Headers between the outer Ethernet header and the inner frame. */
struct tunnel {
	struct iphdr ip;
	struct udphdr udp;
	__be32 flags;
	__be32 vni;
};
#define OUTER_BYTES (ETH_HLEN + sizeof(struct tunnel))

/* Read anew each time: a compiler that keeps them as the 32 bits they are declared as loses that they are
 * pointers, and the verifier refuses the program. */
#define BEGIN(skb) ((void *)(long)*(volatile __u32 *)&(skb)->data)
#define END(skb) ((void *)(long)*(volatile __u32 *)&(skb)->data_end)

/* The frame's first bytes, which are nearly always contiguous: a helper call costs more than reading them. */
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

/* Words of 32 bits and of 16 bits may be summed up together: folded they come to the same (RFC 1071). */
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Parsed fields of an inner packet. */
struct inner {
	__u8 protocol;
	__u8 tos;
	bool summed; /* its checksum is right, or will be when it reaches a wire */
	__u32 flow;  /* the same for all packets of a flow */
	/* Sum of all bytes behind the Ethernet header, without reading the data: with a valid checksum, data and
	 * pseudo header sum up to nothing (local checksum offload, one level up). */
	__u64 sum;
};

/* `at`: end of the network header. A packet too short for its protocol has no usable checksum and passes unchanged. */
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
		inner->sum = (__u16)~fold((__u64)ip->saddr + ip->daddr + bpf_htons(ip->protocol) +
					  bpf_htons(bpf_ntohs(ip->tot_len) - sizeof(*ip)));
	whole = ip->ihl == 5 && !(ip->frag_off & FRAGMENT);
	inner->summed = whole && ip->protocol != IPPROTO_ICMPV6 && bpf_ntohs(ip->tot_len) == skb->len - ETH_HLEN;
	/* Only the first fragment has ports, and all fragments take one path. */
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
	inner->sum = (__u64)*(__u32 *)ip + *(__u16 *)&ip->nexthdr + (__u16)~bpf_htons(ip->nexthdr);
	inner->summed = ip->nexthdr != IPPROTO_ICMP && bpf_ntohs(ip->payload_len) == skb->len - at;
	look_into_payload(skb, at, inner);
	return 0;
}

/* Writes the outer headers of an inner frame of `bytes`, and the inner Ethernet header. */
static __always_inline int write_front(struct __sk_buff *skb, const struct route *route, const struct ethernet *eth,
				       const struct inner *inner, __u32 bytes)
{
	const __u32 udp_bytes = bytes + sizeof(struct tunnel) - sizeof(struct iphdr);
	const __u32 ip_bytes = bytes + sizeof(struct tunnel);
	/* RFC 7348: entropy for paths and queues. Frames of connected sockets carry a flow hash; having the kernel
	 * compute others' would parse the packet once more. */
	const __u32 flow = skb->hash ? skb->hash : inner->flow;
	const __u64 ends = (__u64)route->local + route->remote;
	void *front = front_of(skb, OUTER_BYTES + ETH_HLEN);
	struct tunnel *tunnel = front + ETH_HLEN;
	struct ethernet *outer = front, *own = front + OUTER_BYTES;
	__u64 sum;

	if (!front)
		return -1;
	/* In two pieces: the kernel next reads the first eight bytes at once. */
	*(__u64 *)outer = *(const __u64 *)&route->outer;
	outer->addresses.words[2] = route->outer.words[2];
	outer->protocol = bpf_htons(ETH_P_IP);
	tunnel->ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tos = inner->tos & 3, /* RFC 6040 */
		.tot_len = bpf_htons(ip_bytes),
		.frag_off = DONT_FRAGMENT,
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.check = ~fold(bpf_htons(0x4500 | (inner->tos & 3)) + bpf_htons(ip_bytes) + DONT_FRAGMENT +
			       bpf_htons(64 << 8 | IPPROTO_UDP) + ends),
		.saddr = route->local,
		.daddr = route->remote,
	};
	tunnel->udp = (struct udphdr){
		.source = bpf_htons(0xc000 | (flow & 0x3fff)),
		.dest = route->remote_port,
		.len = bpf_htons(udp_bytes),
	};
	tunnel->flags = VXLAN_FLAGS;
	tunnel->vni = bpf_htonl(route->network << 8);
	own->addresses = eth->addresses;
	own->protocol = eth->protocol;
	if (inner->summed) {
		/* The length is in the pseudo header too. */
		sum = ends + bpf_htons(IPPROTO_UDP) + 2 * (__u64)bpf_htons(udp_bytes);
		sum += (__u64)VXLAN_FLAGS + tunnel->vni + tunnel->udp.source + route->remote_port;
		sum += (__u64)eth->addresses.words[0] + eth->addresses.words[1] + eth->addresses.words[2];
		sum = (__u16)~fold(sum + eth->protocol + inner->sum);
		tunnel->udp.check = sum ? sum : 0xffff;
	}
	return 0;
}

/* Makes room for the outer headers and writes them. Positive: not for this program, and unchanged. */
static __always_inline int encapsulate(struct __sk_buff *skb, const struct route *route, const struct ethernet *eth)
{
	const __u64 marks = BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
			    BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH;
	struct inner inner = {};
	__u32 bytes = skb->len;

	if (skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (skb->protocol == bpf_htons(ETH_P_IP) ? look_into_v4(skb, &inner) : look_into_v6(skb, &inner))
			return -1;
		/* UDP GSO datagrams would reach their socket marked as a tunnel's, and be refused. */
		if (skb->gso_size && inner.protocol != IPPROTO_TCP)
			return 1;
		/* A program cannot request outer checksums of the segments. */
		if (skb->gso_size)
			inner.summed = false;
		/* A frame that came out of a tunnel and was forwarded is still marked as one, with headers
		 * in the same places. Single packets of more than 16 KB never get room. */
		if (bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC, marks | WHOLE) &&
		    bpf_skb_adjust_room(skb, OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE))
			return 1;
	} else {
		inner.flow = mix(eth->addresses.words[0], eth->addresses.words[1], eth->addresses.words[2]);
		if (bpf_skb_change_head(skb, OUTER_BYTES, 0))
			return 1;
	}
	return write_front(skb, route, eth, &inner, bytes);
}

/* A GSO frame with one large inner packet. The other kind, joined datagrams (UDP_GRO), belongs to the daemon's socket. */
static __always_inline bool is_one_packet(struct __sk_buff *skb, __be16 protocol)
{
	const __u32 at = OUTER_BYTES + ETH_HLEN;
	__be16 length;

	if (protocol == bpf_htons(ETH_P_IP))
		return !bpf_skb_load_bytes(skb, at + offsetof(struct iphdr, tot_len), &length, 2) &&
		       bpf_ntohs(length) == skb->len - at;
	if (protocol == bpf_htons(ETH_P_IPV6))
		return !bpf_skb_load_bytes(skb, at + offsetof(struct ipv6hdr, payload_len), &length, 2) &&
		       bpf_ntohs(length) == skb->len - at - sizeof(struct ipv6hdr);
	return false;
}

/* Removes the outer headers. Positive: the kernel still takes the frame for a packet of the outer protocol, so it must
 * enter again, through a device. */
static __always_inline int decapsulate(struct __sk_buff *skb, const struct ethernet *inner)
{
	int anew = 1;

	if (inner->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE))
			return -1;
		anew = 0;
	} else if (inner->protocol == bpf_htons(ETH_P_IPV6) &&
		   !bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE | DECAP_L3_IPV6)) {
		anew = 0;
	} else if (bpf_skb_adjust_room(skb, -(int)OUTER_BYTES, BPF_ADJ_ROOM_MAC, WHOLE)) {
		return -1;
	}
	/* A NIC has verified the outer checksum first. */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	if (bpf_skb_store_bytes(skb, 0, inner, ETH_HLEN, 0))
		return -1;
	return anew;
}
