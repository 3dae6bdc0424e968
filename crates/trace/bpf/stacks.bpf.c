// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Samples of stacks: where in its code a watched thread is, at regular times of its running.
 *
 * The kernel's part is walked here. Of the user's part the registers and the top of the stack are copied: most
 * programs have no frame pointers, and user space can unwind the copy with the tables of their files. The samples
 * go into shared memory, and no thread is woken.
 */
#include "latlab.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct stack_sample);
} samples SEC(".maps");

const volatile struct stacks_settings settings;
struct stacks_state state;

/* Namespaces of process numbers within each other. */
#define MAX_LEVELS 8

/* The process's number in the namespace of the settings; `machine` is its number outside of all. */
static __always_inline __u32 process_number(struct task_struct *task, __u32 machine)
{
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u64 numbers = (__u64)pid + bpf_core_field_offset(pid->numbers);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid *number;

#pragma unroll
	for (int at = 0; at < MAX_LEVELS; at++) {
		number = (void *)(numbers + at * bpf_core_type_size(struct upid));
		if (at <= level && BPF_CORE_READ(number, ns, ns.inum) == settings.pid_namespace)
			return BPF_CORE_READ(number, nr);
	}
	return machine;
}

/* Copies the top of the user's stack. What lies above the stack cannot be read: fewer bytes are tried then. */
static __always_inline __u32 copy_stack(struct stack_sample *sample)
{
#define TRY(bytes)                                                                                      \
	if (!bpf_probe_read_user(sample->stack, bytes, (void *)sample->sp))                                 \
		return bytes;
	TRY(STACK_BYTES)
	TRY(STACK_BYTES / 2)
	TRY(STACK_BYTES / 4)
	TRY(STACK_BYTES / 8)
	TRY(STACK_BYTES / 16)
	TRY(STACK_BYTES / 32)
	TRY(STACK_BYTES / 64)
#undef TRY
	return 0;
}

/* The registers that unwinding needs, as they were when the task entered the kernel. */
static __always_inline void copy_registers(struct stack_sample *sample, void *registers)
{
	struct pt_regs___x86 *x86 = registers;
	struct pt_regs___arm64 *arm64 = registers;

	if (bpf_core_field_exists(x86->ip)) {
		sample->ip = BPF_CORE_READ(x86, ip);
		sample->sp = BPF_CORE_READ(x86, sp);
		sample->bp = BPF_CORE_READ(x86, bp);
	} else if (bpf_core_field_exists(arm64->pc)) {
		sample->ip = BPF_CORE_READ(arm64, pc);
		sample->sp = BPF_CORE_READ(arm64, sp);
		sample->bp = BPF_CORE_READ(arm64, regs[29]);
		sample->lr = BPF_CORE_READ(arm64, regs[30]);
	}
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	__u32 place = __sync_fetch_and_add(&state.taken, 1);
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 ids = bpf_get_current_pid_tgid();
	struct stack_sample *sample;
	long kernel_bytes;

	if (place >= settings.room)
		return 0;
	sample = bpf_map_lookup_elem(&samples, &place);
	if (!sample)
		return 0;
	sample->process = process_number(task, ids >> 32);
	sample->task = ids;
	sample->cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(sample->name, sizeof(sample->name));
	kernel_bytes = bpf_get_stack(ctx, sample->kernel, sizeof(sample->kernel), 0);
	sample->kernel_bytes = kernel_bytes > 0 ? kernel_bytes : 0;
	if (!(BPF_CORE_READ(task, flags) & IN_KERNEL_ONLY) &&
	    bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		copy_registers(sample, (void *)bpf_task_pt_regs(bpf_get_current_task_btf()));
		sample->stack_bytes = copy_stack(sample);
	}
	/* Written last: a sample without a time is not whole. */
	sample->time_ns = bpf_ktime_get_ns();
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
