/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The records that cross from kernel to user space, and the few kernel types that are looked at.
 *
 * The layouts are those of crates/wire/src/trace.rs; a test compares the two. Kernel types are named
 * with only the fields that are used: `preserve_access_index` makes the loader find them in the
 * running kernel's own type information (CO-RE), so no header of any kernel is needed to build.
 */
#ifndef LATLAB_H
#define LATLAB_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#define TEXT_BYTES 16

enum event_kind {
	EVENT_SWITCH = 1,
	EVENT_WAKEUP = 2,
	EVENT_IRQ_ENTRY = 3,
	EVENT_IRQ_EXIT = 4,
	EVENT_SOFTIRQ_ENTRY = 5,
	EVENT_SOFTIRQ_EXIT = 6,
	EVENT_VECTOR_ENTRY = 7,
	EVENT_VECTOR_EXIT = 8,
	EVENT_HRTIMER_ENTRY = 9,
	EVENT_HRTIMER_EXIT = 10,
	EVENT_FAULT_ENTRY = 11,
	EVENT_FAULT_EXIT = 12,
	EVENT_NAPI_POLL = 13,
	EVENT_NMI = 14,
	EVENT_VM_EXIT = 15,
	EVENT_VM_ENTRY = 16,
	EVENT_CALL = 17,
};

/* A softirq without further events, in one event at its end: `b` is its start (0: unknown), `text` begins with the
 * steal then, `a` is its number (8 bits) and its packets. Only in rings: their reader splits it. */
#define EVENT_WHOLE_SOFTIRQ 32

/* Only in rings, too: in EVENT_VECTOR_ENTRY of the local timer `b` is the address of the first function (0: none),
 * and `text` its start and the steal then. EVENT_HRTIMER_EXIT, EVENT_VM_EXIT and EVENT_VM_ENTRY are in older
 * records only. */

/* `detail` of EVENT_VECTOR_ENTRY and EVENT_VECTOR_EXIT. */
enum vector_kind {
	VECTOR_LOCAL_TIMER = 1,
	VECTOR_RESCHEDULE = 2,
	VECTOR_CALL_FUNCTION = 3,
	VECTOR_CALL_FUNCTION_SINGLE = 4,
	VECTOR_IRQ_WORK = 5,
	VECTOR_PLATFORM = 6,
	VECTOR_THERMAL = 7,
};

struct event {
	__u64 time_ns;
	__u64 steal_ns;
	__u16 cpu;
	__u8 kind;
	__u8 detail;
	__u32 a;
	__u64 b;
	char text[TEXT_BYTES];
};

struct tap_record {
	__u64 time_ns;
	__u32 sequence;
	__u16 flow;
	__u16 cpu;
	__u32 check;
	__u32 steal_ns;
	__u32 task;
	__u32 bytes;
};

struct stolen {
	__u64 since_ns;
	__u64 until_ns;
	__u64 stolen_ns;
	__u16 cpu;
	__u16 padding0;
	__u32 padding1;
};

#define MAX_CPUS 1024

struct tap_settings {
	__s64 steal_from_runqueue; /* 0: not known */
	__u32 room;                 /* records */
	__u32 stamp_last;           /* take the time when all else is done, not first */
};

/* Records that a CPU reserves at once: an atomic instruction for every packet would wait for all stores before
 * it. */
#define TAP_CHUNK 64

struct tap_head {
	__u64 no_room; /* packets of ours for which there was none */
	__u64 next;    /* its next place; at the begin of a chunk it takes another */
	__u64 steal_at;
	__u64 padding[5]; /* a cache line each */
};

struct tap_counters {
	__u64 chunks;  /* taken by all CPUs */
	__u64 foreign; /* frames of others */
	__u64 padding[6];
	struct tap_head heads[MAX_CPUS];
};

/* Distances of the kernel's accounts of softirqs from a CPU's runqueue: see softirq.h. */
struct softirq_words {
	__u64 are_known;
	__s64 preempt_count;   /* the preemption count */
	__s64 pending; /* a bit each */
	__s64 begun;   /* counts of each kind */
	__s64 thread;  /* ksoftirqd */
};

struct recorder_settings {
	__s64 steal_from_runqueue; /* 0: not known */
	__u64 ring_events;          /* events a ring holds: a power of two */
	struct softirq_words softirq;
	__u64 system_calls; /* the programs at system calls are attached */
};

/* Whether the softirq under way has a separate event for its entry. */
enum softirq_entry_state {
	ENTRY_NOT_RECORDED = 0,
	ENTRY_RECORDED = 1,
	EXIT_BEING_RECORDED = 2, /* its end is being written */
};

/* Kinds of softirqs that the kernel has. */
#define SOFTIRQS 10

/* State of a CPU for recording an event, in private cache lines. */
struct recorder_head {
	__u64 recorded;
	__u64 steal_at;
	__u64 pending_since_ns;    /* start of the first of `pending_set` */
	__u64 pending_steal_ns; /* steal then */
	__u32 pending_set;        /* softirqs that may run from then on, a bit each */
	__u32 polled;     /* packets taken in the one under way */
	__u32 ring;       /* the CPU's ring, from 1 on; 0: not watched now */
	__u32 entry_state;    /* enum softirq_entry_state */
	__u64 runqueue_at;   /* its runqueue */
	__u8 start_is_certain;     /* the set runs now, without doubt */
	__u8 begun_is_known;  /* `begun` is known */
	__u8 serving;     /* number of the softirq under way plus 1, where the kernel's accounts are unknown */
	__u8 padding[5];
	__u64 begun[SOFTIRQS / 2]; /* counts of each kind when the last ended */
	__u64 call_since_ns; /* begin of `call_task`'s system call, or when the task came here in one */
	__u32 call_task;
	__u32 padding2;
	__u64 padding3;
};

struct recorder_state {
	struct recorder_head heads[MAX_CPUS];
};

struct steal_settings {
	__s64 steal_from_runqueue; /* 0: not known */
	__u32 room;                 /* records a CPU has */
	__u32 padding;
	__u16 place_of[MAX_CPUS]; /* a CPU's part of the records, from 1 on; 0: not watched */
};

struct steal_head {
	__u64 found; /* whether or not there was room */
	__u64 steal_at;
	__u64 looked_ns; /* time of the last reading; 0: none yet */
	__u64 stolen_ns; /* the counter then */
	__u64 padding[4]; /* a cache line each */
};

struct steal_state {
	__u32 recording; /* off until the window begins */
	__u32 padding[15];
	struct steal_head heads[MAX_CPUS];
};

/* Frames of the kernel in a sample, and bytes of the user's stack. */
#define KERNEL_FRAMES 32
#define STACK_BYTES 8192

struct stack_sample {
	__u64 time_ns; /* 0: not whole */
	__u64 ip;      /* the user's registers */
	__u64 sp;
	__u64 bp;
	__u64 lr; /* where there is one */
	__u32 process; /* its number where latlab runs */
	__u32 task;    /* the machine's number, as in the other records */
	__u32 cpu;
	__u32 kernel_bytes; /* of `kernel` */
	__u32 stack_bytes;  /* of `stack`, from `sp` on */
	__u32 padding;
	char name[TEXT_BYTES];
	__u64 kernel[KERNEL_FRAMES]; /* the innermost first */
	__u8 stack[STACK_BYTES];
};

struct stacks_settings {
	__u64 room;          /* samples */
	__u64 pid_namespace; /* the one in which processes have their numbers: its inode */
};

struct stacks_state {
	__u64 taken; /* whether or not there was room */
};

struct rq;

struct kernel_stat {
	unsigned long irqs_sum;
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

struct sched_entity {
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));

struct thread_info {
	__u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	unsigned int __state;
	unsigned int flags;
	int pid;
	int prio;
	char comm[TEXT_BYTES];
	bool throttled;
	struct task_struct *group_leader;
	struct pid *thread_pid;
} __attribute__((preserve_access_index));

/* Flags of tasks that run in the kernel alone (kernel threads; workers of io_uring; those of vhost, from Linux 6.4 on):
 * their user registers are zeros, or a copy of their creator's. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000
#define IN_KERNEL_ONLY (PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD)

struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

/* A process's number in one namespace. */
struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

/* Its numbers in all: those of the machine first. */
struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

/* A task's registers when it entered the kernel. */
struct pt_regs___x86 {
	unsigned long bp;
	unsigned long orig_ax; /* its system call; negative: none */
	unsigned long ip;
	unsigned long sp;
} __attribute__((preserve_access_index));

struct pt_regs___arm64 {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	int syscallno;
} __attribute__((preserve_access_index));

/* Before Linux 5.16 and 5.14. */
struct task_struct___old {
	unsigned int cpu;
	long state;
} __attribute__((preserve_access_index));

/* Time that the hypervisor has given to others instead of to this CPU: the first word of what
 * KVM shares with its guest. The variable is private to the kernel and has no symbol; but every
 * CPU's variables lie together, its runqueue among them, and the kernel's own types say how far
 * apart the two are. `cached` is where this CPU's was found before. A program that is compiled
 * WITHOUT_TYPES loads into a kernel that does not describe its types, where all this is not available. */
#ifdef WITHOUT_TYPES
static __always_inline __u64 stolen_ns(__s64 from_runqueue, __u64 *cached)
{
	return 0;
}
#else
struct kvm_steal_time {
	__u64 steal;
} __attribute__((preserve_access_index));

/* From Linux 6.2 on memory can be read without calling a helper, if it is said to be of some type. */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* This CPU's runqueue; 0: not known. */
static __always_inline __u64 own_runqueue(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return (__u64)BPF_CORE_READ(task, se.cfs_rq, rq);
}

static __always_inline __u64 stolen_ns(__s64 from_runqueue, __u64 *cached)
{
	struct kvm_steal_time *word;
	__u64 stolen = 0;
	__u64 queue;

	if (!from_runqueue)
		return 0;
	if (!*cached) {
		queue = own_runqueue();
		if (!queue)
			return 0;
		*cached = queue + from_runqueue;
	}
	if (bpf_core_type_exists(struct kvm_steal_time) && bpf_ksym_exists(bpf_rdonly_cast)) {
		word = bpf_rdonly_cast((void *)*cached, bpf_core_type_id_kernel(struct kvm_steal_time));
		return word->steal;
	}
	bpf_probe_read_kernel(&stolen, sizeof(stolen), (void *)*cached);
	return stolen;
}
#endif

#endif
