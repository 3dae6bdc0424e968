//! Knowledge of each boot parameter: how it is written, the evidence for it, its risk.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Its name alone; off is not to write it.
    Alone,
    /// `=1` or `=0`.
    Number,
    /// `=on` or `=off`.
    Word,
}

pub(super) fn form(name: &str) -> Form {
    match name {
        "skew_tick" | "nmi_watchdog" | "audit" | "apparmor" | "cpuidle_haltpoll.force" => {
            Form::Number
        }
        "nohz" | "random.trust_cpu" => Form::Word,
        _ => Form::Alone,
    }
}

pub(super) fn means_something_in_a_guest(name: &str) -> bool {
    // `idle=poll` would spend a whole CPU of the host on a guest that sleeps.
    let of_hardware = [
        "idle",
        "mce",
        "processor.max_cstate",
        "intel_idle.max_cstate",
        "intel_pstate",
        "iommu",
        "intel_iommu",
        "amd_iommu",
        "nosmt",
    ];
    !of_hardware.contains(&name)
}

pub(super) fn of(name: &str) -> (&'static str, &'static str) {
    let entry = ENTRIES.iter().find(|(names, ..)| names.contains(&name));
    entry.map_or(("", ""), |(_, evidence, risk)| (evidence, risk))
}

#[rustfmt::skip] // A table.
const ENTRIES: &[(&[&str], &str, &str)] = &[
    (&["isolcpus"], "Welch 2015, table 3.2: takes the CPUs from the scheduler; Daichendt 2022, 5.5.3 and 6.2.4, left it out", "the scheduler balances nothing there, and cpusets that include them behave oddly: use partitions where they exist"),
    (&["nohz_full"], "Welch 2015, table 3.2; Daichendt 2022, listing 5.13: no periodic tick while one task runs", "every entry to the kernel costs more; needs a kernel with NO_HZ_FULL"),
    (&["rcu_nocbs"], "Welch 2015, table 3.2; Daichendt 2022, listing 5.13: RCU's callbacks run on other CPUs", "the housekeeping CPUs carry them; needs a kernel with RCU_NOCB_CPU"),
    (&["rcu_nocb_poll"], "Welch 2015, table 3.2; Daichendt 2022, listing 5.13: quiet CPUs need not wake the callback threads", "the callback threads poll, which costs energy on the housekeeping CPUs"),
    (&["irqaffinity"], "Daichendt 2022, listing 5.13: interrupts start out on the housekeeping CPUs", "all interrupts share them; a device's own managed interrupts do not follow"),
    (&["nohz"], "Daichendt 2022, listing 5.13: no tick on idle CPUs, the condition of nohz_full", "leaving idle takes a little longer"),
    (&["skew_tick"], "Daichendt 2022, listing 5.13; kernel-parameters.txt: the ticks of CPUs do not fall together, so they do not wait for one lock", "costs energy: CPUs wake one after another"),
    (&["nmi_watchdog"], "Daichendt 2022, listing 5.13: no interrupt from the hard-lockup detector, and its counter is free", "a CPU that hangs with interrupts off is not noticed"),
    (&["nowatchdog"], "kernel-parameters.txt: neither lockup detector runs", "a hanging CPU is not noticed"),
    (&["nosoftlockup"], "Daichendt 2022, listing 5.13: no watchdog thread interrupts a busy loop", "a kernel that loops is not noticed"),
    (&["threadirqs"], "kernel-parameters.txt: interrupt handlers are threads, which have a priority and can be moved", "each interrupt costs a switch of threads"),
    (&["nosmt"], "Daichendt 2022, listing 5.13: no other thread shares a core's units", "half of the logical CPUs are gone, for all programs"),
    (&["mce"], "Daichendt 2022, listing 5.13: corrected errors are not polled for", "memory that begins to fail is noticed late or not at all"),
    (&["audit"], "Daichendt 2022, listing 5.13: system calls are not recorded", "nothing is audited; some sites must"),
    (&["apparmor"], "Daichendt 2022, listing 5.13: no policy is looked up when programs open files and sockets", "what it confines, containers included, runs unconfined"),
    (&["random.trust_cpu"], "Daichendt 2022, listing 5.13; kernel-parameters.txt: the random numbers are ready early in the boot", "the first ones are only as good as the CPU's own generator"),
    (&["idle"], "Daichendt 2022, listing 5.13: no time to wake up from sleep", "full power and heat all the time; less turbo for the others; threads of one core slow each other"),
    (&["cpuidle.governor"], "Documentation/virt/guest-halt-polling.rst: haltpoll: a guest's idle CPU spins before it leaves for the hypervisor", "haltpoll: the host's CPU is busy while the guest's is idle; Linux has it only below KVM, and stays with its own choice elsewhere"),
    (&["cpuidle_haltpoll.force"], "Documentation/virt/guest-halt-polling.rst: the driver loads although the hypervisor does not promise the guest its CPUs", "without such a promise the spinning takes time from others that share the CPU"),
    (&["processor.max_cstate"], "kernel-parameters.txt: no sleep deeper than this, so a shorter wake-up", "more power and heat; less turbo"),
    (&["intel_idle.max_cstate"], "Daichendt 2022, listing 5.13: 0 turns the driver of Intel's deep sleep off", "more power; the ACPI driver may still sleep deeply"),
    (&["intel_pstate"], "Daichendt 2022, listing 5.13: the frequency does not change by itself", "the ACPI driver knows fewer frequencies, sometimes without turbo"),
    (&["mitigations"], "kernel, Documentation/admin-guide/hw-vuln: entering the kernel is cheaper without them", "programs and guests may read each other's memory: only where all of them are trusted"),
    (&["transparent_hugepage"], "kernel, Documentation/admin-guide/mm/transhuge.rst: never: nothing stops to compact or merge pages", "programs with large memory miss the translation buffer more often"),
    (&["default_hugepagesz", "hugepagesz"], "Welch 2015, table 3.2: fewer levels of page tables under a guest", "the size must be one that the CPU has"),
    (&["hugepages"], "Welch 2015, table 3.2; at boot, memory is not fragmented yet", "the memory is gone for everything else"),
    (&["iommu", "intel_iommu", "amd_iommu"], "Daichendt 2022, 5.5.3: off for containers, needed for passing devices to VMs; kernel-parameters.txt: pt spares the host the translation", "off: no device can be passed to a VM, and devices reach all memory"),
    (&["clocksource"], "kernel-parameters.txt: the time-stamp counter is read without leaving the program", "a counter that drifts goes unnoticed if it is forced"),
    (&["tsc"], "Daichendt 2022, listing 5.13: reliable: no watchdog compares it, and it stays the clock", "a counter that drifts goes unnoticed"),
];
