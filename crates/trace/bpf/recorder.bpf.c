// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The flight recorder: events of each watched CPU, in a ring for each.
 *
 * A ring is a stretch of one array in shared memory. The oldest events are overwritten; their number is the
 * difference between `recorded` and the ring's size. No thread is woken while it records, so it costs the
 * measured CPUs the writing of an event and no more.
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

/* A field of a kernel structure, with the bytes after it up to eight. */
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

/* This CPU's head, if the CPU is watched now. */
static __always_inline struct recorder_head *watched_head(void)
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

/* An event inside a softirq: the softirq's entry becomes a separate event, with its start if known. Not inlined:
 * it is rare, and would spread the callers' hot path over more of the CPU's cache. */
static __noinline void record_softirq_entry(struct recorder_head *head, __u64 now, __u64 steal_ns)
{
	__u32 which = under_way(head, &settings.softirq);
	struct event *event;

	/* Another event may come between any two instructions. */
	if (!which)
		return;
	if (__sync_val_compare_and_swap(&head->entry_state, ENTRY_NOT_RECORDED, ENTRY_RECORDED) != ENTRY_NOT_RECORDED)
		return;
	which--;
	/* The number of packets is not known yet; that it is interrupted speaks for many. */
	if (was_pending(head, which)) {
		now = head->pending_since_ns;
		steal_ns = head->pending_steal_ns;
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
	steal_ns = stolen_ns(settings.steal_from_runqueue, &head->steal_at);
	if (head->entry_state == ENTRY_NOT_RECORDED && is_serving(head, &settings.softirq))
		record_softirq_entry(head, now, steal_ns);
	return append(head, kind, now, steal_ns);
}

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return WORD_OF(task, thread_info.cpu);
	return WORD_OF(old, cpu);
}

/* The task's name, which ends with a zero. */
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

#define NO_CALL -1
/* Shorter system calls are not recorded. */
#define SLOW_CALL_NS 5000

/* Number of the system call of a user task by its registers. */
static __always_inline long call_of(void *registers)
{
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm64 *arm64 = registers;

	if (bpf_core_field_exists(x86->orig_ax))
		return BPF_CORE_READ(x86, orig_ax);
	if (bpf_core_field_exists(arm64->syscallno))
		return BPF_CORE_READ(arm64, syscallno);
	return NO_CALL;
}

/* The system call in which the current task, `task`, leaves the CPU, plus 1; 0: none, or not known. */
static __always_inline __u32 leaving_call(struct task_struct *task)
{
	long call;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return 0;
	/* Such registers would tell a call that the task is not in. */
	if ((__u32)WORD_OF(task, flags) & IN_KERNEL_ONLY)
		return 0;
	call = call_of((void *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	return call >= 0 && call < 1 << 14 ? call + 1 : 0;
}

/* Of a system call only the parts are recorded in which its task has the CPU. a: the task; b: the part's length in ns
 * (48 bits) and the call's number (from bit 48 on). */
static __always_inline void record_call_part(struct recorder_head *head, __u32 task, __u64 length, __u64 call)
{
	struct event *event = next_event(head, EVENT_CALL);

	if (!event)
		return;
	event->a = task;
	event->b = call << 48 | length;
}

/* The previous task, `prev`, leaves the CPU: what it ran in a system call until now is a part. Not inlined: it is
 * rare. */
static __noinline void end_call_part(struct recorder_head *head, struct task_struct *prev)
{
	__u64 length = bpf_ktime_get_ns() - head->call_since_ns;
	__u32 call;

	if (!head->call_since_ns || length < SLOW_CALL_NS)
		return;
	call = leaving_call(prev);
	if (call)
		record_call_part(head, head->call_task, length, call - 1);
}

/* a: the previous task; b: its state (16 bits), throttled (1), the next task's priority (8 from bit 17 on), high
 * bits of the call (8 from bit 25 on), and the next task (from bit 33 on); text: the next task's name; detail: 1
 * when preempted, and low bits of the call (7 from bit 1 on). The call is that in which the previous task sleeps,
 * plus 1. */
SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (void *)ctx->args[1];
	struct task_struct *next = (void *)ctx->args[2];
	struct recorder_head *head = watched_head();
	struct event *event;
	__u64 throttled = 0;
	__u32 call = 0;

	if (settings.system_calls && head && head->call_task == (__u32)WORD_OF(prev, pid))
		end_call_part(head, prev);
	event = next_event(head, EVENT_SWITCH);
	if (!event)
		return 0;
	if (bpf_core_field_exists(prev->throttled))
		throttled = WORD_OF(prev, throttled) & 0xff;
	if (!ctx->args[0] && state_of(prev))
		call = leaving_call(prev);
	event->detail = (ctx->args[0] ? 1 : 0) | (call & 0x7f) << 1;
	event->a = WORD_OF(prev, pid);
	event->b = (state_of(prev) & 0xffff) | (__u64)(call >> 7 & 0xff) << 25 | (throttled ? 1 << 16 : 0) |
		   ((__u64)(__u8)WORD_OF(next, prio) << 17) |
		   ((__u64)(__u32)WORD_OF(next, pid) << 33);
	name_of(next, event);
	/* If it ends a call before it begins one, it is in that call now. */
	head->call_since_ns = event->time_ns;
	head->call_task = WORD_OF(next, pid);
	head->entry_state = ENTRY_NOT_RECORDED;
	head->serving = 0;
	head->polled = 0;
	head->pending_set = 0;
	/* Pending softirqs were deferred. ksoftirqd will run them now; any other task runs them at its next
	 * transmit. */
	if (settings.softirq.are_known)
		start_pending(head, pending_softirqs(head, &settings.softirq), is_ksoftirqd(event->text), event->time_ns,
			   event->steal_ns);
	return 0;
}

/* a: the task; b: its CPU; text: its name. */
static __always_inline int wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct recorder_head *head = watched_head();
	struct event *event = next_event(head, EVENT_WAKEUP);

	if (!event)
		return 0;
	event->a = WORD_OF(task, pid);
	event->b = cpu_of(task);
	name_of(task, event);
	/* The rest is left to ksoftirqd, or to the task that transmits first. */
	if (is_ksoftirqd(event->text))
		head->start_is_certain = false;
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
	struct event *event = next_event(watched_head(), EVENT_IRQ_ENTRY);

	if (!event)
		return 0;
	event->a = ctx->args[0];
	bpf_probe_read_kernel_str(event->text, sizeof(event->text), BPF_CORE_READ(action, name));
	return 0;
}

static __always_inline struct event *append_event(struct recorder_head *head, __u8 kind, __u8 detail, __u32 a,
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

static __always_inline void hardirq_exit(__u8 kind, __u8 detail, __u32 a)
{
	struct recorder_head *head = watched_head();
	struct event *event = append_event(head, kind, detail, a, 0);

	if (event)
		after_hardirq(head, &settings.softirq, event->time_ns, event->steal_ns);
}

SEC("raw_tp/irq_handler_exit")
int on_irq_exit(struct bpf_raw_tracepoint_args *ctx)
{
	hardirq_exit(EVENT_IRQ_EXIT, 0, ctx->args[0]);
	return 0;
}

/* Only where the kernel's own accounts cannot be read: see softirq.h. */
SEC("raw_tp/softirq_entry")
int on_softirq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = watched_head();
	__u32 which = ctx->args[0];

	if (!head || which >= SOFTIRQS)
		return 0;
	start_pending(head, 1 << which, true, bpf_ktime_get_ns(),
		   stolen_ns(settings.steal_from_runqueue, &head->steal_at));
	head->serving = which + 1;
	return 0;
}

/* a: the softirq's number. Every received packet comes in a softirq, mostly in one without further events: that
 * one is a single event. */
SEC("raw_tp/softirq_exit")
int on_softirq_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = watched_head();
	__u32 which = ctx->args[0];
	__u64 now, steal_ns;
	struct event *event;
	bool was_open;

	if (!head || which >= SOFTIRQS)
		return 0;
	now = bpf_ktime_get_ns();
	steal_ns = stolen_ns(settings.steal_from_runqueue, &head->steal_at);
	was_open = __sync_lock_test_and_set(&head->entry_state, EXIT_BEING_RECORDED) == ENTRY_RECORDED;
	event = append(head, was_open ? EVENT_SOFTIRQ_EXIT : EVENT_WHOLE_SOFTIRQ, now, steal_ns);
	if (event) {
		event->a = was_open ? which : which | head->polled << 8;
		if (!was_open && start_is_known(head, &settings.softirq, which)) {
			event->b = head->pending_since_ns;
			*(__u64 *)event->text = head->pending_steal_ns;
		}
	}
	head->polled = 0;
	after_softirq(head, &settings.softirq, which, now, steal_ns);
	head->entry_state = ENTRY_NOT_RECORDED;
	return 0;
}

/* Interrupts without a number: x86 only. detail: enum vector_kind. */
#define VECTOR(name, which)                                                    \
	SEC("raw_tp/" #name "_entry")                                          \
	int on_##name##_entry(struct bpf_raw_tracepoint_args *ctx)             \
	{                                                                      \
		append_event(watched_head(), EVENT_VECTOR_ENTRY, which, 0, 0);             \
		return 0;                                                      \
	}                                                                      \
	SEC("raw_tp/" #name "_exit")                                           \
	int on_##name##_exit(struct bpf_raw_tracepoint_args *ctx)              \
	{                                                                      \
		hardirq_exit(EVENT_VECTOR_EXIT, which, 0);                         \
		return 0;                                                      \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)
VECTOR(x86_platform_ipi, VECTOR_PLATFORM)
VECTOR(thermal_apic, VECTOR_THERMAL)

/* The kernel does not run softirqs after this one. */
SEC("raw_tp/reschedule_entry")
int on_reschedule_entry(struct bpf_raw_tracepoint_args *ctx)
{
	append_event(watched_head(), EVENT_VECTOR_ENTRY, VECTOR_RESCHEDULE, 0, 0);
	return 0;
}

SEC("raw_tp/reschedule_exit")
int on_reschedule_exit(struct bpf_raw_tracepoint_args *ctx)
{
	append_event(watched_head(), EVENT_VECTOR_EXIT, VECTOR_RESCHEDULE, 0, 0);
	return 0;
}

/* Lateness of a timer interrupt: a hypervisor or firmware had the CPU, or the kernel kept interrupts off. `now`
 * is on the timer's own clock. */
static __always_inline __u32 lateness_ns(struct hrtimer *timer, __u64 now)
{
	__s64 late;

	if (!bpf_core_field_exists(timer->node.expires))
		return 0;
	late = now - WORD_OF(timer, node.expires);
	return late > 0 && late < 1LL << 32 ? late : 0;
}

/* b: the function's address. Its end is not recorded: the next one's start or the interrupt's end serve. The first
 * function of a local timer interrupt goes into the interrupt's event, which is the newest and in the cache: a
 * sleep's end is an event less. */
SEC("raw_tp/hrtimer_expire_entry")
int on_hrtimer_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct hrtimer *timer = (void *)ctx->args[0];
	struct recorder_head *head = watched_head();
	__u64 function;
	struct event *event;

	if (!head)
		return 0;
	function = WORD_OF(timer, function);
	event = event_at(head, head->recorded - 1);
	if (event && event->kind == EVENT_VECTOR_ENTRY && event->detail == VECTOR_LOCAL_TIMER && !event->b) {
		*(__u64 *)event->text = bpf_ktime_get_ns();
		*(__u64 *)(event->text + 8) = stolen_ns(settings.steal_from_runqueue, &head->steal_at);
		event->a = lateness_ns(timer, word_at(ctx->args[1]));
		event->b = function;
		return 0;
	}
	append_event(head, EVENT_HRTIMER_ENTRY, 0, 0, function);
	return 0;
}

/* a: the task; b: the address; detail: 1 when the kernel itself faulted. */
SEC("raw_tp/page_fault_user")
int on_user_fault(struct bpf_raw_tracepoint_args *ctx)
{
	append_event(watched_head(), EVENT_FAULT_ENTRY, 0, (__u32)bpf_get_current_pid_tgid(), ctx->args[0]);
	return 0;
}

SEC("raw_tp/page_fault_kernel")
int on_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	append_event(watched_head(), EVENT_FAULT_ENTRY, 1, (__u32)bpf_get_current_pid_tgid(), ctx->args[0]);
	return 0;
}

/* The kernel has no tracepoint at the end of a fault, but a software counter for perf. */
SEC("perf_event")
int on_fault_end(void *ctx)
{
	append_event(watched_head(), EVENT_FAULT_EXIT, 0, (__u32)bpf_get_current_pid_tgid(), 0);
	return 0;
}

/* a: packets taken, at the end of the poll. The number of polls in a softirq does not matter. */
SEC("raw_tp/napi_poll")
int on_napi_poll(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = watched_head();

	if (!head)
		return 0;
	if (head->entry_state == ENTRY_NOT_RECORDED && under_way(head, &settings.softirq)) {
		head->polled += ctx->args[1];
		return 0;
	}
	append_event(head, EVENT_NAPI_POLL, 0, ctx->args[1], 0);
	return 0;
}

/* b: duration of the handler in ns; recorded at its end. */
SEC("raw_tp/nmi_handler")
int on_nmi(struct bpf_raw_tracepoint_args *ctx)
{
	append_event(watched_head(), EVENT_NMI, 0, 0, ctx->args[1]);
	return 0;
}

/* System calls, only if asked for: with these two attached the kernel takes a slower path into every call. */
SEC("raw_tp/sys_enter")
int on_call(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = watched_head();

	if (!head)
		return 0;
	head->call_task = bpf_get_current_pid_tgid();
	head->call_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/sys_exit")
int on_call_end(struct bpf_raw_tracepoint_args *ctx)
{
	struct recorder_head *head = watched_head();
	__u64 length;
	long call;

	if (!head || head->call_task != (__u32)bpf_get_current_pid_tgid())
		return 0;
	length = bpf_ktime_get_ns() - head->call_since_ns;
	/* Outside of a call no time is part of one. */
	head->call_task = 0;
	if (length < SLOW_CALL_NS)
		return 0;
	call = call_of((void *)ctx->args[0]);
	if (call >= 0)
		record_call_part(head, bpf_get_current_pid_tgid(), length, call);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
