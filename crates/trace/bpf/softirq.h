/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel's own accounts of softirqs, read instead of a program at their entry.
 *
 * A program at each entry, even an empty one, costs a fiftieth of a packet's time in a forwarder. The kernel's
 * variables tell as much: the pending set, the counts of each kind, and the preemption count. Like the steal
 * they have no symbols, and are found by their distance from the runqueue
 * (crates/trace/src/recorder/softirq.rs). On kernels where they are unknown, the program is attached.
 */
#ifndef SOFTIRQ_H
#define SOFTIRQ_H

#include "latlab.h"

/* Fields of the preemption count (include/linux/preempt.h). SOFTIRQ_OFFSET is set while softirqs run; the other
 * bits of SOFTIRQ_MASK count sections that disable them. */
#define PREEMPT_MASK 0xff
#define SOFTIRQ_MASK 0xff00
#define SOFTIRQ_OFFSET 0x100
#define HARDIRQ_MASK 0xf0000
#define HARDIRQ_OFFSET 0x10000
#define NMI_MASK 0xf00000

#define RUNNABLE 0
/* Packets of a softirq raised by a task's transmit: its own, and one that just came. */
#define OWN_PACKETS 2

/* The word at a kernel address. */
static __always_inline __u64 word_at(__u64 address)
{
	struct kernel_stat *word;
	__u64 value = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		/* As the first member of some known structure. */
		word = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct kernel_stat));
		return word->irqs_sum;
	}
	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/* Address of a per-CPU variable of this CPU, by its distance from the runqueue. */
static __always_inline __u64 percpu(struct recorder_head *head, __s64 from_runqueue)
{
	if (!head->runqueue_at)
		head->runqueue_at = own_runqueue();
	return head->runqueue_at + from_runqueue;
}

static __always_inline __u32 preempt_count(struct recorder_head *head, const volatile struct softirq_words *words)
{
	return word_at(percpu(head, words->preempt_count));
}

static __always_inline __u32 pending_softirqs(struct recorder_head *head, const volatile struct softirq_words *words)
{
	return word_at(percpu(head, words->pending)) & ((1 << SOFTIRQS) - 1);
}

static __always_inline __u32 state_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return word_at((__u64)task + bpf_core_field_offset(task->__state));
	return word_at((__u64)old + bpf_core_field_offset(old->state));
}

/* ksoftirqd of this CPU is runnable, so the kernel may leave softirqs to it. */
static __always_inline bool thread_is_runnable(struct recorder_head *head,
					       const volatile struct softirq_words *words)
{
	struct task_struct *thread = (void *)word_at(percpu(head, words->thread));

	return !thread || state_of(thread) == RUNNABLE;
}

/* Counts of begun softirqs, two kinds in a word. */
static __always_inline __u64 begun(struct recorder_head *head, const volatile struct softirq_words *words, int pair)
{
	return word_at(percpu(head, words->begun) + 8 * pair);
}

/* A softirq may be under way: the only check at most events. */
static __always_inline bool is_serving(struct recorder_head *head, const volatile struct softirq_words *words)
{
	if (!words->are_known)
		return head->serving;
	return head->begun_is_known && preempt_count(head, words) & SOFTIRQ_OFFSET;
}

/* Number of the softirq under way, plus 1; 0: none. */
static __always_inline __u32 under_way(struct recorder_head *head, const volatile struct softirq_words *words)
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

/* This softirq was pending when the set was read. */
static __always_inline bool was_pending(struct recorder_head *head, __u32 which)
{
	return head->pending_set >> (which & 31) & 1;
}

/* Whether `head->pending_since_ns` is the start of this softirq. It is for softirqs that follow each other, and
 * after the hardirq that raised them. If ksoftirqd could run them instead, it is so only if no task started
 * them: a task would hold off preemption meanwhile.
 *
 * A task that transmits starts a softirq itself, for its own packet, at a time that is not recorded. A softirq
 * that took more packets had been deferred, and the next sender runs it: its start is the time of the deferral,
 * so that a flood is not taken for the work of the task that it interrupted. */
static __always_inline bool start_is_known(struct recorder_head *head,
					   const volatile struct softirq_words *words, __u32 which)
{
	if (!was_pending(head, which))
		return false;
	if (head->start_is_certain || head->polled > OWN_PACKETS)
		return true;
	return words->are_known && !(preempt_count(head, words) & PREEMPT_MASK);
}

/* The softirqs pending at a time may start then. */
static __always_inline void start_pending(struct recorder_head *head, __u32 pending_set, bool start_is_certain,
					  __u64 now, __u64 steal_ns)
{
	head->pending_set = pending_set;
	head->start_is_certain = start_is_certain;
	head->pending_since_ns = now;
	head->pending_steal_ns = steal_ns;
}

/* At the end of a hardirq the kernel runs pending softirqs, unless the hardirq interrupted a task that disables
 * them, or another hardirq. */
static __always_inline void after_hardirq(struct recorder_head *head, const volatile struct softirq_words *words,
					__u64 now, __u64 steal_ns)
{
	__u32 count, pending_set;
	bool is_alone;

	if (!words->are_known)
		return;
	count = preempt_count(head, words);
	if (count & SOFTIRQ_OFFSET)
		return;
	pending_set = pending_softirqs(head, words);
	is_alone = (count & (SOFTIRQ_MASK | HARDIRQ_MASK | NMI_MASK)) == HARDIRQ_OFFSET;
	start_pending(head, pending_set, pending_set && is_alone && !thread_is_runnable(head, words), now, steal_ns);
}

/* At the end of a softirq the next of the set starts, or the kernel reads the set again. */
static __always_inline void after_softirq(struct recorder_head *head, const volatile struct softirq_words *words,
					__u32 which, __u64 now, __u64 steal_ns)
{
	__u32 pending_set = head->pending_set & ~((2u << (which & 31)) - 1);
	bool start_is_certain = true;

	if (!words->are_known) {
		head->serving = 0;
		head->pending_set = 0;
		return;
	}
	if (!pending_set) {
		pending_set = pending_softirqs(head, words);
		start_is_certain = pending_set && !thread_is_runnable(head, words);
	}
	start_pending(head, pending_set, start_is_certain, now, steal_ns);
	/* All begun softirqs are over. */
#pragma unroll
	for (int pair = 0; pair < SOFTIRQS / 2; pair++)
		head->begun[pair] = begun(head, words, pair);
	head->begun_is_known = 1;
}

#endif
