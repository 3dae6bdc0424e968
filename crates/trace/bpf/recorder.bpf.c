// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The flight recorder: what each watched CPU did, in a ring of its own.
 *
 * A ring is a stretch of one array in shared memory; the oldest events are overwritten, and how many
 * were is the difference between `heads` and the ring's size. Nothing is woken and nothing reads while
 * it records, so it costs the measured CPUs the writing of an event and no more.
 */
#include "softirq.h"

struct irqaction {
	const char *name;
} __attribute__((preserve_access_index));

struct timerqueue_node {
	__s64 expires;
} __attribute__((preserve_access_index));

struct hrtimer {
	struct timerqueue_node node;
	void *function;
} __attribute__((preserve_access_index));

/* A number in a structure of the kernel's, and whatever is behind it up to eight bytes. */
#define WORD_OF(from, field) word_at((__u64)(from) + bpf_core_field_offset((from)->field))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct event);
} events SEC(".maps");

/* One variable a section, so that user space knows where it lies. */
const volatile struct recorder_settings settings;
struct recorder_state state;

/* This CPU's, if it is watched now. */
static __always_inline struct recorder_head *head_of(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct recorder_head *head;

	if (cpu >= MAX_CPUS)
		return 0;
	head = &state.heads[cpu];
	return head->ring ? head : 0;
}

static __always_inline struct event *event_at(struct recorder_head *head, __u32 place)
{
	__u32 slot = (head->ring - 1) * settings.ring_events + (place & (settings.ring_events - 1));

	return bpf_map_lookup_elem(&events, &slot);
}

static __always_inline struct event *append(struct recorder_head *head, __u8 kind, __u64 time_ns,
					    __u64 steal_ns)
{
	struct event *event = event_at(head, __sync_fetch_and_add(&head->recorded, 1));

	if (!event)
		return 0;
	event->time_ns = time_ns;
	event->steal_ns = steal_ns;
	event->cpu = bpf_get_smp_processor_id();
	event->kind = kind;
	event->detail = 0;
	event->a = 0;
	event->b = 0;
	event->text[0] = 0;
	return event;
}

/* Something happens inside of a softirq, so that its beginning is an event of its own; if that is
 * not known, it is known to be under way from now on. Not a part of the programs that call it: it happens
 * seldom, and would spread what they do always over more of the CPU's cache. */
static __noinline void open_softirq(struct recorder_head *head, __u64 now, __u64 steal_ns)
{
	__u32 which = under_way(head, &settings.soft);
	struct event *event;

	/* Another event may come between any two instructions. */
	if (!which || __sync_val_compare_and_swap(&head->is_open, NOT_OPEN, OPEN) != NOT_OPEN)
		return;
	which--;
	/* How many packets it takes is not known yet; that it is interrupted speaks for many. */
	if (was_left(head, which)) {
		now = head->soft_ns;
		steal_ns = head->soft_steal;
	}
	event = append(head, EVENT_SOFTIRQ_ENTRY, now, steal_ns);
	if (event)
		event->a = which;
	if (!head->polled)
		return;
	event = append(head, EVENT_NAPI_POLL, now, steal_ns);
	if (event)
		event->a = head->polled;
}

static __always_inline struct event *next_event(struct recorder_head *head, __u8 kind)
{
	__u64 now, steal_ns;

	if (!head)
		return 0;
	now = bpf_ktime_get_ns();
	steal_ns = stolen_ns(settings.steal_from_run_queue, &head->steal_at);
	if (head->is_open == NOT_OPEN && is_serving(head, &settings.soft))
		open_softirq(head, now, steal_ns);
	return append(head, kind, now, steal_ns);
}

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return WORD_OF(task, thread_info.cpu);
	return WORD_OF(old, cpu);
}

/* Its name, which ends with a zero, whatever is behind. */
static __always_inline void name_of(struct task_struct *task, struct event *event)
{
	__u64 name = (__u64)task + bpf_core_field_offset(task->comm);

	*(__u64 *)event->text = word_at(name);
	*(__u64 *)(event->text + 8) = word_at(name + 8);
}

static __always_inline bool is_ksoftirqd(const char *name)
{
	return name[0] == 'k' && name[1] == 's' && name[2] == 'o' && name[3] == 'f' && name[9] == '/';
}

/* a: who leaves; b: its state (16 bits), its being throttled (1), the next's priority (16 from bit
 * 17 on), and who comes (from bit 33 on); text: the name of who comes; detail: 1 when preempted. */
SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (void *)ctx->args[1];
	struct task_struct *next = (void *)ctx->args[2];
	struct recorder_head *head = head_of();
	struct event *event = next_event(head, EVENT_SWITCH);
	__u64 throttled = 0;

	if (!event)
		return 0;
	if (bpf_core_field_exists(prev->throttled))
		throttled = WORD_OF(prev, throttled) & 0xff;
	event->detail = ctx->args[0] ? 1 : 0;
	event->a = WORD_OF(prev, pid);
	event->b = (state_of(prev) & 0xffff) | (throttled ? 1 << 16 : 0) |
		   ((__u64)(__u16)WORD_OF(next, prio) << 17) |
		   ((__u64)(__u32)WORD_OF(next, pid) << 33);
	name_of(next, event);
	head->is_open = NOT_OPEN;
	head->serving = 0;
	head->polled = 0;
	head->row = 0;
	/* Pending softirqs were deferred. ksoftirqd will run them now; any other task runs them at its next
	 * transmit. */
	if (settings.soft.are_known)
		row_begins(head, pending(head, &settings.soft), is_ksoftirqd(event->text), event->time_ns,
			   event->steal_ns);
	return 0;
}

/* a: who; b: on which CPU; text: its name. */
static __always_inline int wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct recorder_head *head = head_of();
	struct event *event = next_event(head, EVENT_WAKEUP);

	if (!event)
		return 0;
	event->a = WORD_OF(task, pid);
	event->b = cpu_of(task);
	name_of(task, event);
	/* The rest is left to ksoftirqd, or to the task that transmits first. */
	if (is_ksoftirqd(event->text))
		head->is_sure = false;
	return 0;
}

SEC("raw_tp/sched_wakeup")
int on_wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	return wakeup(ctx);
}

SEC("raw_tp/sched_wakeup_new")
int on_wakeup_new(struct bpf_raw_tracepoint_args *ctx)
{
	return wakeup(ctx);
}

/* a: the interrupt's number; text: its name. */
SEC("raw_tp/irq_handler_entry")
int on_irq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct irqaction *action = (void *)ctx->args[1];
	struct event *event = next_event(head_of(), EVENT_IRQ_ENTRY);

	if (!event)
		return 0;
	event->a = ctx->args[0];
	bpf_probe_read_kernel_str(event->text, sizeof(event->text), BPF_CORE_READ(action, name));
	return 0;
}

static __always_inline struct event *plain(struct recorder_head *head, __u8 kind, __u8 detail, __u32 a,
					   __u64 b)
{
	struct event *event = next_event(head, kind);

	if (!event)
		return 0;
	event->detail = detail;
	event->a = a;
	event->b = b;
	return event;
}

static __always_inline void hard_end(__u8 kind, __u8 detail, __u32 a)
{
	struct recorder_head *head = head_of();
	struct event *event = plain(head, kind, detail, a, 0);

	if (event)
		behind_hard(head, &settings.soft, event->time_ns, event->steal_ns);
}

SEC("raw_tp/irq_handler_exit")
int on_irq_exit(struct bpf_raw_tracepoint_args *ctx)
{
	hard_end(EVENT_IRQ_EXIT, 0, ctx->args[0]);
	return 0;
}

/* Only where the kernel does not tell of it in another way: see softirq.h. */
SEC("raw_tp/softirq_entry")
int on_softirq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = head_of();
	__u32 which = ctx->args[0];

	if (!head || which >= SOFTIRQS)
		return 0;
	row_begins(head, 1 << which, true, bpf_ktime_get_ns(),
		   stolen_ns(settings.steal_from_run_queue, &head->steal_at));
	head->serving = which + 1;
	return 0;
}

/* a: which of the kernel's softirqs. Every packet that the kernel takes comes in one, mostly in one
 * in which nothing else happens: that one is a single event. */
SEC("raw_tp/softirq_exit")
int on_softirq_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = head_of();
	__u32 which = ctx->args[0];
	__u64 now, steal_ns;
	struct event *event;
	bool was_open;

	if (!head || which >= SOFTIRQS)
		return 0;
	now = bpf_ktime_get_ns();
	steal_ns = stolen_ns(settings.steal_from_run_queue, &head->steal_at);
	was_open = __sync_lock_test_and_set(&head->is_open, CLOSING) == OPEN;
	event = append(head, was_open ? EVENT_SOFTIRQ_EXIT : EVENT_WHOLE_SOFTIRQ, now, steal_ns);
	if (event) {
		event->a = was_open ? which : which | head->polled << 8;
		if (!was_open && begin_is_known(head, &settings.soft, which)) {
			event->b = head->soft_ns;
			*(__u64 *)event->text = head->soft_steal;
		}
	}
	head->polled = 0;
	behind_soft(head, &settings.soft, which, now, steal_ns);
	head->is_open = NOT_OPEN;
	return 0;
}

/* Interrupts that have no number: x86 only. detail: which. */
#define VECTOR(name, which)                                                    \
	SEC("raw_tp/" #name "_entry")                                          \
	int on_##name##_entry(struct bpf_raw_tracepoint_args *ctx)             \
	{                                                                      \
		plain(head_of(), EVENT_VECTOR_ENTRY, which, 0, 0);             \
		return 0;                                                      \
	}                                                                      \
	SEC("raw_tp/" #name "_exit")                                           \
	int on_##name##_exit(struct bpf_raw_tracepoint_args *ctx)              \
	{                                                                      \
		hard_end(EVENT_VECTOR_EXIT, which, 0);                         \
		return 0;                                                      \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)
VECTOR(x86_platform_ipi, VECTOR_PLATFORM)
VECTOR(thermal_apic, VECTOR_THERMAL)

/* Behind this one the kernel does not look for soft ones. */
SEC("raw_tp/reschedule_entry")
int on_reschedule_entry(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_VECTOR_ENTRY, VECTOR_RESCHEDULE, 0, 0);
	return 0;
}

SEC("raw_tp/reschedule_exit")
int on_reschedule_exit(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_VECTOR_EXIT, VECTOR_RESCHEDULE, 0, 0);
	return 0;
}

/* For how long a timer's interrupt was due when it was here: what is underneath the kernel had the CPU,
 * or the kernel kept interrupts off. `now` is on the timer's own clock. */
static __always_inline __u32 lateness_ns(struct hrtimer *timer, __u64 now)
{
	__s64 late;

	if (!bpf_core_field_exists(timer->node.expires))
		return 0;
	late = now - WORD_OF(timer, node.expires);
	return late > 0 && late < 1LL << 32 ? late : 0;
}

/* b: the address of the function that is called. When it ends is not looked at: the next one's beginning or
 * the interrupt's end is as good. The first of the local timer's interrupt is told of in the record of that,
 * which is the newest and in the cache: a sleep's end is an event less. */
SEC("raw_tp/hrtimer_expire_entry")
int on_hrtimer_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct hrtimer *timer = (void *)ctx->args[0];
	struct recorder_head *head = head_of();
	__u64 function;
	struct event *event;

	if (!head)
		return 0;
	function = WORD_OF(timer, function);
	event = event_at(head, head->recorded - 1);
	if (event && event->kind == EVENT_VECTOR_ENTRY && event->detail == VECTOR_LOCAL_TIMER && !event->b) {
		*(__u64 *)event->text = bpf_ktime_get_ns();
		*(__u64 *)(event->text + 8) = stolen_ns(settings.steal_from_run_queue, &head->steal_at);
		event->a = lateness_ns(timer, word_at(ctx->args[1]));
		event->b = function;
		return 0;
	}
	plain(head, EVENT_HRTIMER_ENTRY, 0, 0, function);
	return 0;
}

/* a: whose; b: the address; detail: 1 when the kernel itself faulted. */
SEC("raw_tp/page_fault_user")
int on_user_fault(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_FAULT_ENTRY, 0, (__u32)bpf_get_current_pid_tgid(), ctx->args[0]);
	return 0;
}

SEC("raw_tp/page_fault_kernel")
int on_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_FAULT_ENTRY, 1, (__u32)bpf_get_current_pid_tgid(), ctx->args[0]);
	return 0;
}

/* The kernel has no tracepoint at the end of a fault; it counts one there, which perf can see. */
SEC("perf_event")
int on_fault_end(void *ctx)
{
	plain(head_of(), EVENT_FAULT_EXIT, 0, (__u32)bpf_get_current_pid_tgid(), 0);
	return 0;
}

/* a: packets taken. At the end of the poll; how many polls a softirq has does not matter. */
SEC("raw_tp/napi_poll")
int on_napi_poll(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = head_of();

	if (!head)
		return 0;
	if (head->is_open == NOT_OPEN && under_way(head, &settings.soft)) {
		head->polled += ctx->args[1];
		return 0;
	}
	plain(head, EVENT_NAPI_POLL, 0, ctx->args[1], 0);
	return 0;
}

/* b: how long its handler took; recorded at its end. */
SEC("raw_tp/nmi_handler")
int on_nmi(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_NMI, 0, 0, ctx->args[1]);
	return 0;
}

SEC("raw_tp/kvm_exit")
int on_vm_exit(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_VM_EXIT, 0, (__u32)bpf_get_current_pid_tgid(), 0);
	return 0;
}

SEC("raw_tp/kvm_entry")
int on_vm_entry(struct bpf_raw_tracepoint_args *ctx)
{
	plain(head_of(), EVENT_VM_ENTRY, 0, (__u32)bpf_get_current_pid_tgid(), 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
