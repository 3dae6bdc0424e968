// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Steal of a watched CPU over time.
 *
 * Reads the CPU's steal counter at context switches and at its timer, and writes a record only when the counter
 * has moved. In a ping-pong a CPU changes tasks several times an exchange, so a record tells the part of the
 * exchange in which time was lost. Without steal, it costs a read of the counter and of the clock.
 */
#include "latlab.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct stolen);
} stretches SEC(".maps");

const volatile struct steal_settings settings;
struct steal_state state;

static __always_inline int look(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 now, stolen, before, since;
	struct steal_head *head;
	struct stolen *record;
	__u32 place, slot;

	if (!state.recording || cpu >= MAX_CPUS)
		return 0;
	place = settings.place_of[cpu];
	if (!place)
		return 0;
	head = &state.heads[cpu];
	stolen = stolen_ns(settings.steal_from_runqueue, &head->steal_at);
	now = bpf_ktime_get_ns();
	since = head->looked_ns;
	before = head->stolen_ns;
	head->looked_ns = now;
	head->stolen_ns = stolen;
	if (!since || stolen <= before)
		return 0;
	slot = head->found++;
	if (slot >= settings.room)
		return 0;
	slot += (place - 1) * settings.room;
	record = bpf_map_lookup_elem(&stretches, &slot);
	if (!record)
		return 0;
	record->since_ns = since;
	record->until_ns = now;
	record->stolen_ns = stolen - before;
	record->cpu = cpu;
	return 0;
}

SEC("raw_tp/sched_switch")
int on_switch(void *ctx)
{
	return look();
}

/* x86 only: the tick of a CPU that changes tasks rarely. */
SEC("raw_tp/local_timer_entry")
int on_timer(void *ctx)
{
	return look();
}

char _license[] SEC("license") = "Dual BSD/GPL";
