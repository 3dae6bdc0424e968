/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the kernel knows of softirqs without being interrupted at their beginning.
 *
 * A program at the beginning of each, even one that does nothing, is a fiftieth of the way of a packet
 * through a forwarder. So there is none where the kernel's own words tell as much: which are pending, how
 * many of each kind were begun, how deep the CPU is in what. Like the steal they have no symbols,
 * and are found by their distance from the runqueue (crates/trace/src/recorder/softirq.rs). Where they
 * are not known a program stands at the beginning after all.
 */
#ifndef SOFTIRQ_H
#define SOFTIRQ_H

#include "latlab.h"

/* Parts of the kernel's preemption count. A CPU that serves softirqs has the lowest bit of
 * the second; who only keeps them off, the others. */
#define DEPTH_PREEMPTION 0xff
#define DEPTH_SOFT 0xff00
#define DEPTH_SERVING 0x100
#define DEPTH_HARD 0xf0000
#define DEPTH_HARD_ONCE 0x10000
#define DEPTH_NMI 0xf00000

#define RUNNABLE 0
/* Packets that a softirq raised by a task's own transmit takes: its own, and one that just came. */
#define OWN_PACKETS 2

/* The long word at an address of the kernel's. */
static __always_inline __u64 word_at(__u64 address)
{
	struct kernel_stat *word;
	__u64 value = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		/* As the first of whichever structure there is. */
		word = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct kernel_stat));
		return word->irqs_sum;
	}
	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/* This CPU's stretch of variables, by its runqueue. */
static __always_inline __u64 own(struct recorder_head *head, __s64 from_run_queue)
{
	if (!head->queue_at)
		head->queue_at = own_queue();
	return head->queue_at + from_run_queue;
}

static __always_inline __u32 depth(struct recorder_head *head, const volatile struct soft_words *words)
{
	return word_at(own(head, words->depth));
}

static __always_inline __u32 pending(struct recorder_head *head, const volatile struct soft_words *words)
{
	return word_at(own(head, words->pending)) & ((1 << SOFTIRQS) - 1);
}

static __always_inline __u32 state_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return word_at((__u64)task + bpf_core_field_offset(task->__state));
	return word_at((__u64)old + bpf_core_field_offset(old->state));
}

/* The CPU's thread for softirqs could run, so that the kernel may leave them to it. */
static __always_inline bool thread_is_runnable(struct recorder_head *head,
					       const volatile struct soft_words *words)
{
	struct task_struct *thread = (void *)word_at(own(head, words->thread));

	return !thread || state_of(thread) == RUNNABLE;
}

/* How many of each kind were begun, two in a word. */
static __always_inline __u64 begun(struct recorder_head *head, const volatile struct soft_words *words, int pair)
{
	return word_at(own(head, words->begun) + 8 * pair);
}

/* One may be under way: all that is asked at most events. */
static __always_inline bool is_serving(struct recorder_head *head, const volatile struct soft_words *words)
{
	if (!words->are_known)
		return head->serving;
	return head->is_counted && depth(head, words) & DEPTH_SERVING;
}

/* The one under way, from 1 on; 0: none. */
static __always_inline __u32 under_way(struct recorder_head *head, const volatile struct soft_words *words)
{
	__u64 changed;

	if (!is_serving(head, words))
		return 0;
	if (!words->are_known)
		return head->serving;
#pragma unroll
	for (int pair = 0; pair < SOFTIRQS / 2; pair++) {
		changed = begun(head, words, pair) ^ head->begun[pair];
		if (changed)
			return 2 * pair + ((__u32)changed ? 1 : 2);
	}
	return 0;
}

/* This one was pending when the row was looked at. */
static __always_inline bool was_left(struct recorder_head *head, __u32 which)
{
	return head->row >> (which & 31) & 1;
}

/* Whether `head->soft_ns` is when this one began. It is for those that follow each other, and behind the
 * hardirq that they came with. If the thread for them could have been meant to run them instead,
 * that is so only where no task began them by what it did: it would hold off preemption meanwhile.
 *
 * A task that sends begins one itself, for its own packet, at a time that is not recorded. But one that took
 * more than that had been deferred, and the next sender takes it up: its start is the time since when it was
 * deferred, so that a flood is not taken for the work of the task that it interrupted. */
static __always_inline bool begin_is_known(struct recorder_head *head,
					   const volatile struct soft_words *words, __u32 which)
{
	if (!was_left(head, which))
		return false;
	if (head->is_sure || head->polled > OWN_PACKETS)
		return true;
	return words->are_known && !(depth(head, words) & DEPTH_PREEMPTION);
}

/* What was pending at a time is what may begin then. */
static __always_inline void row_begins(struct recorder_head *head, __u32 row, bool is_sure, __u64 now,
				       __u64 steal_ns)
{
	head->row = row;
	head->is_sure = is_sure;
	head->soft_ns = now;
	head->soft_steal = steal_ns;
}

/* At the end of a hardirq: behind it the kernel runs what is pending, unless it interrupted a
 * task that keeps softirqs off, or another hardirq. */
static __always_inline void behind_hard(struct recorder_head *head, const volatile struct soft_words *words,
					__u64 now, __u64 steal_ns)
{
	__u32 deep, row;
	bool is_alone;

	if (!words->are_known)
		return;
	deep = depth(head, words);
	if (deep & DEPTH_SERVING)
		return;
	row = pending(head, words);
	is_alone = (deep & (DEPTH_SOFT | DEPTH_HARD | DEPTH_NMI)) == DEPTH_HARD_ONCE;
	row_begins(head, row, row && is_alone && !thread_is_runnable(head, words), now, steal_ns);
}

/* At the end of a soft one: the next of the row begins, or, what is pending again. */
static __always_inline void behind_soft(struct recorder_head *head, const volatile struct soft_words *words,
					__u32 which, __u64 now, __u64 steal_ns)
{
	__u32 row = head->row & ~((2u << (which & 31)) - 1);
	bool is_sure = true;

	if (!words->are_known) {
		head->serving = 0;
		head->row = 0;
		return;
	}
	if (!row) {
		row = pending(head, words);
		is_sure = row && !thread_is_runnable(head, words);
	}
	row_begins(head, row, is_sure, now, steal_ns);
	/* All that were begun are over. */
#pragma unroll
	for (int pair = 0; pair < SOFTIRQS / 2; pair++)
		head->begun[pair] = begun(head, words, pair);
	head->is_counted = 1;
}

#endif
