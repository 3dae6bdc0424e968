// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A tap: the time at which each of our packets passes one point of the network.
 *
 * The tap looks for UDP whose payload begins with the probe's header (crates/wire/src/probe.rs) and lets
 * every packet go on. Each tap is loaded by itself and has its own records, so that two taps never
 * share a cache line; they are read through shared memory when the window is over.
 */
#include "latlab.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#define PACKET_MAGIC 0x4c50
#define ETH_P_8021Q_BE bpf_htons(0x8100)

struct probe_header {
	__be16 magic;
	__be16 flow;
	__be32 sequence;
	__be32 intended[2];
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct tap_record);
} records SEC(".maps");

/* One variable a section, so that user space knows where it lies. */
const volatile struct tap_settings settings;
struct tap_counters counters;

/* A classifier may call the second helper since Linux 6.10 only. The first one is older, and needs the kernel's types. */
#ifndef WITHOUT_TYPES
static __always_inline __u32 current_task(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();

	return task->pid;
}
#else
static __always_inline __u32 current_task(void)
{
	return (__u32)bpf_get_current_pid_tgid();
}
#endif

static __always_inline int header_at(struct __sk_buff *skb, __u32 offset, struct probe_header *header)
{
	if (bpf_skb_load_bytes(skb, offset, header, sizeof(*header)))
		return -1;
	return header->magic == bpf_htons(PACKET_MAGIC) ? 0 : -1;
}

/* Where the UDP payload begins, or 0. */
static __always_inline __u32 payload_offset(struct __sk_buff *skb)
{
	__u32 offset = sizeof(struct ethhdr);
	__be16 protocol;
	struct iphdr ip;
	struct ipv6hdr ip6;

	if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &protocol, sizeof(protocol)))
		return 0;
	if (protocol == ETH_P_8021Q_BE) {
		if (bpf_skb_load_bytes(skb, offset + 2, &protocol, sizeof(protocol)))
			return 0;
		offset += 4;
	}
	if (protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
			return 0;
		/* Only the first fragment has the header. */
		if (ip.protocol != IPPROTO_UDP || (ip.frag_off & bpf_htons(0x1fff)))
			return 0;
		return offset + ip.ihl * 4 + sizeof(struct udphdr);
	}
	if (protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, offset, &ip6, sizeof(ip6)))
			return 0;
		if (ip6.nexthdr != IPPROTO_UDP)
			return 0;
		return offset + sizeof(ip6) + sizeof(struct udphdr);
	}
	return 0;
}

/* The common case: IPv4 without options, in the linear part of the packet, read without a helper. */
static __always_inline int append_event(struct __sk_buff *skb, struct probe_header *header)
{
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct probe_header *found = (void *)(udp + 1);

	if ((void *)(found + 1) > end)
		return -1;
	if (found->magic != bpf_htons(PACKET_MAGIC) || eth->h_proto != bpf_htons(ETH_P_IP))
		return -1;
	if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP || (ip->frag_off & bpf_htons(0x1fff)))
		return -1;
	*header = *found;
	return 0;
}

/* Going out, the time is taken after the tap's own work, and coming in before it, so that the work does not lie
 * between two taps. */
SEC("tc")
int tap(struct __sk_buff *skb)
{
	__u64 now = settings.stamp_last ? 0 : bpf_ktime_get_ns();
	struct probe_header header;
	struct tap_record *record;
	struct tap_head *head;
	__u32 offset, cpu, place;
	__u64 next;

	if (append_event(skb, &header)) {
		offset = payload_offset(skb);
		if (!offset || header_at(skb, offset, &header)) {
			__sync_fetch_and_add(&counters.foreign, 1);
			return TC_ACT_UNSPEC;
		}
	}
	cpu = bpf_get_smp_processor_id();
	if (cpu >= MAX_CPUS)
		return TC_ACT_UNSPEC;
	/* No other program runs on this CPU meanwhile: softirqs are off here. */
	head = &counters.heads[cpu];
	next = head->next;
	if (next % TAP_CHUNK == 0)
		next = __sync_fetch_and_add(&counters.chunks, 1) * TAP_CHUNK;
	if (next >= settings.room) {
		head->no_room++;
		return TC_ACT_UNSPEC;
	}
	head->next = next + 1;
	place = next;
	record = bpf_map_lookup_elem(&records, &place);
	if (!record)
		return TC_ACT_UNSPEC;
	record->sequence = bpf_ntohl(header.sequence);
	record->flow = bpf_ntohs(header.flow);
	record->cpu = cpu;
	record->check = header.intended[0] ^ header.intended[1];
	record->steal_ns = stolen_ns(settings.steal_from_runqueue, &head->steal_at);
	record->task = current_task();
	record->bytes = skb->len;
	/* Last: a record without a time was never completed. */
	record->time_ns = now ?: bpf_ktime_get_ns();
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
