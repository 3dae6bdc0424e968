//! Every capability: what it is for people, what its absence costs, and what supplies it.
//!
//! The supply depends on why a thing is missing. A module that lies on the disk wants `modprobe`; a
//! kernel without modules must be replaced; a machine whose hypervisor hides something can only ask
//! its owner. Commands are Debian's, with those of other families where they differ.

use latlab_model::facts::Facts;

use super::texts;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Machines,
    Containers,
    Limits,
    Links,
    Tracing,
    Hardware,
}

impl Group {
    pub const ALL: [Group; 6] = [
        Group::Containers,
        Group::Machines,
        Group::Limits,
        Group::Links,
        Group::Tracing,
        Group::Hardware,
    ];

    pub const fn title(self) -> &'static str {
        match self {
            Group::Machines => "Virtual machines",
            Group::Containers => "Namespaces and containers",
            Group::Limits => "Limits (cgroups)",
            Group::Links => "Links",
            Group::Tracing => "Tracing and fast paths",
            Group::Hardware => "Quiet and hardware",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// A module of the kernel, and the option that builds it.
    Module(&'static str, &'static str),
    /// An option of the kernel that makes no module.
    Option(&'static str),
    /// The same, of newer kernels: the first version, the option, and who has it.
    Newer(&'static str, &'static str, &'static str),
    Controller(&'static str),
    /// An IOMMU, and the driver that gives devices away.
    Iommu,
    Kvm,
    Masquerade,
    /// A command that always does it.
    Command(&'static str),
    Isolation,
    Realtime,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub group: Group,
    pub costs: &'static str,
    supply: Supply,
}

impl Entry {
    pub fn of(name: &str) -> Option<&'static Entry> {
        ENTRIES.iter().find(|entry| entry.name == name)
    }
}

const fn entry(group: Group, name: &'static str, supply: Supply, costs: &'static str) -> Entry {
    Entry {
        name,
        group,
        costs,
        supply,
    }
}

#[rustfmt::skip] // A table: one line a capability.
pub const ENTRIES: &[Entry] = {
    use Group::{Containers, Hardware, Limits, Links, Machines, Tracing};
    use Supply::{
        Command, Controller, Iommu, Isolation, Kvm, Masquerade, Module, Newer, Nothing, Option as Config,
        Realtime,
    };
    &[
        entry(Containers, Facts::NAMESPACES, Config("CONFIG_NAMESPACES"), "no nodes at all"),
        entry(Containers, Facts::OVERLAYFS, Module("overlay", "CONFIG_OVERLAY_FS"), "no container nodes: their root is a writable layer over this one"),
        entry(Containers, Facts::LOOP, Module("loop", "CONFIG_BLK_DEV_LOOP"), "`storage` of type disk is refused for containers and native nodes"),
        entry(Containers, Facts::CRIU, Command("latlab doctor --fetch criu"), "`latlab snapshot` and `latlab restore` of containers are refused"),
        entry(Machines, Facts::KVM, Kvm, "virtual machines run in software emulation: about 5 times slower, and every result says so"),
        entry(Machines, Facts::TAP, Module("tun", "CONFIG_TUN"), "no vm nodes: nothing to attach their network to"),
        entry(Machines, Facts::VHOST_NET, Module("vhost_net", "CONFIG_VHOST_NET"), "packets of VMs pass through QEMU's own threads; `net: {backend: vhost}` is refused"),
        entry(Machines, Facts::IO_URING, Command("sysctl -w kernel.io_uring_disabled=0"), "`aio: io_uring` of VMs' disks is refused"),
        entry(Limits, Facts::CGROUP_CPU, Controller("cpu"), "`cpus` of native and container nodes is refused"),
        entry(Limits, Facts::CGROUP_CPUSET, Controller("cpuset"), "`cpuset` and `isolate` are refused: noise reaches what is measured"),
        entry(Limits, Facts::CGROUP_MEMORY, Controller("memory"), "`memory` of native and container nodes is refused"),
        entry(Limits, Facts::CGROUP_PIDS, Controller("pids"), "container nodes are refused, unless `security: {pids: unlimited}`"),
        entry(Links, Facts::VETH, Module("veth", "CONFIG_VETH"), "no links between native and container nodes"),
        entry(Links, Facts::NETKIT, Newer("6.7", "CONFIG_NETKIT", "Debian 13"), "`cable: netkit` of links of type overlay is refused"),
        entry(Links, Facts::BRIDGE, Module("bridge", "CONFIG_BRIDGE"), "no links of type bridge and nat"),
        entry(Links, Facts::MASQUERADE, Masquerade, "no links of type nat"),
        entry(Links, Facts::MACVLAN, Module("macvlan", "CONFIG_MACVLAN"), "no links of type macvlan"),
        entry(Links, Facts::MACVTAP, Module("macvtap", "CONFIG_MACVTAP"), "no vm nodes on links of type macvlan"),
        entry(Links, Facts::VXLAN, Module("vxlan", "CONFIG_VXLAN"), "no links of type vxlan"),
        entry(Links, Facts::VFIO, Iommu, "no links of type passthrough, no `vm: vfio` of links of type sriov, no DPDK on virtual functions"),
        entry(Links, Facts::TBF, Module("sch_tbf", "CONFIG_NET_SCH_TBF"), "`rate` of links is refused"),
        entry(Links, Facts::NETEM, Module("sch_netem", "CONFIG_NET_SCH_NETEM"), "`delay`, `jitter` and `loss` of links are refused"),
        entry(Tracing, Facts::BPF, Config("CONFIG_BPF_SYSCALL"), "no taps and no attribution of slow packets"),
        entry(Tracing, Facts::BPF_BTF, Config("CONFIG_DEBUG_INFO_BTF"), "no attribution of slow packets to kernel events"),
        entry(Tracing, Facts::BPF_RAW_TRACEPOINT, Config("CONFIG_BPF_EVENTS"), "no attribution of slow packets to kernel events"),
        entry(Tracing, Facts::AF_XDP, Config("CONFIG_XDP_SOCKETS"), "no generator above about 1 million packets a second on one core"),
        entry(Hardware, Facts::IRQ_AFFINITY, Nothing, "interrupts cannot be moved away from the CPUs that measure"),
        entry(Hardware, Facts::ISOLATED_CPUS, Isolation, "the scheduler's tick and kernel threads reach into the tail"),
        entry(Hardware, Facts::REALTIME, Realtime, "longer tails under load; guests can have it all the same (`kernel: rt`)"),
        entry(Hardware, Facts::HUGE_PAGES, Command("sysctl -w vm.nr_hugepages=256"), "guests' memory in small pages: more TLB misses; no DPDK"),
    ]
};

#[derive(Debug, Default)]
pub(super) struct Circumstances {
    /// `uname -r`.
    pub release: String,
    pub modules: bool,
    /// Texts of `modules.dep` and `modules.builtin`.
    pub module_lists: (String, String),
    /// `ID` and `ID_LIKE` of the distribution.
    pub family: String,
    pub virtual_machine: bool,
    pub kvm_device: bool,
    pub iommu: bool,
    pub nft: bool,
    pub processors: u32,
    pub cgroup: String,
}

impl Circumstances {
    /// The command that supplies a missing capability, where there is one.
    pub fn remedy(&self, entry: &Entry) -> Option<String> {
        match entry.supply {
            Supply::Module(module, option) => Some(self.module(module, option)),
            Supply::Option(option) => Some(self.kernel_with(option)),
            Supply::Newer(version, option, who) => Some(format!(
                "boot Linux {version} or later with {option} ({who} has it)"
            )),
            Supply::Controller(controller) => Some(self.controller(controller)),
            Supply::Iommu if !self.iommu => Some(
                "switch VT-d or AMD-Vi on in the firmware, and boot with intel_iommu=on iommu=pt"
                    .into(),
            ),
            Supply::Iommu => Some(self.module("vfio_pci", "CONFIG_VFIO_PCI")),
            Supply::Kvm => Some(self.kvm()),
            Supply::Masquerade if !self.nft => Some(self.install("nftables")),
            Supply::Masquerade => Some(self.module("nft_masq", "CONFIG_NFT_MASQ")),
            Supply::Command(command) => Some(command.into()),
            Supply::Isolation => self.isolation(),
            Supply::Realtime if self.modules => {
                Some("apt-get install linux-image-rt-amd64 && reboot".into())
            }
            Supply::Realtime => Some("boot a kernel with CONFIG_PREEMPT_RT".into()),
            Supply::Nothing => None,
        }
    }

    /// How to install one of Debian's packages.
    pub fn install(&self, package: &str) -> String {
        let is = |id: &str| self.family.split_whitespace().any(|word| word == id);
        match () {
            () if is("fedora") || is("rhel") => format!("dnf install {package}"),
            () if is("suse") || is("opensuse") => format!("zypper install {package}"),
            () if is("arch") => format!("pacman -S {package}"),
            () if is("alpine") => format!("apk add {package}"),
            () => format!("apt-get install {package}"),
        }
    }

    fn module(&self, module: &str, option: &str) -> String {
        let (dep, builtin) = &self.module_lists;
        match () {
            () if texts::can_be_loaded(dep, builtin, module) => format!("modprobe {module}"),
            () if !self.modules => self.kernel_with(option),
            () if self.family.contains("ubuntu") => {
                format!("apt-get install linux-modules-extra-{}", self.release)
            }
            () if self.release.contains("cloud") => {
                "apt-get install linux-image-amd64 && reboot (the cloud kernel leaves it out)"
                    .into()
            }
            () => self.kernel_with(option),
        }
    }

    /// A kernel that was given from outside cannot be replaced from inside.
    fn kernel_with(&self, option: &str) -> String {
        let debian = self.family.contains("debian");
        match (self.modules, debian) {
            (true, true) => "apt-get install linux-image-amd64 && reboot".into(),
            (_, _) => format!("boot a kernel with {option} (Debian's linux-image-amd64 has it)"),
        }
    }

    fn controller(&self, controller: &str) -> String {
        match (self.cgroup.as_str(), controller) {
            ("none", _) => "mount -t cgroup2 none /sys/fs/cgroup".into(),
            (_, "memory") => "boot with cgroup_enable=memory".into(),
            ("v2", _) => format!("echo +{controller} > /sys/fs/cgroup/cgroup.subtree_control"),
            (_, _) => {
                let at = format!("/sys/fs/cgroup/{controller}");
                format!("mkdir -p {at} && mount -t cgroup -o {controller} none {at}")
            }
        }
    }

    fn kvm(&self) -> String {
        match (self.kvm_device, self.virtual_machine) {
            (false, false) => "modprobe kvm_intel || modprobe kvm_amd (and switch virtualisation on in the firmware)".into(),
            (_, true) => "ask the operator of the hypervisor for nested virtualisation (KVM: kvm_intel.nested=1 or kvm_amd.nested=1, and `-cpu host`)".into(),
            (true, false) => "apt-get install qemu-system-x86 (a current one), then `latlab doctor --refresh`".into(),
        }
    }

    /// Leaves CPU 0 to the host, and half of the others on a large machine.
    fn isolation(&self) -> Option<String> {
        let first = match self.processors {
            0 | 1 => return None,
            few @ 2..=8 => few - 1,
            many => many / 2,
        };
        let list = match self.processors - 1 {
            last if last == first => first.to_string(),
            last => format!("{first}-{last}"),
        };
        Some(format!(
            "boot with isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian() -> Circumstances {
        Circumstances {
            release: "6.1.0-37-amd64".into(),
            modules: true,
            module_lists: ("kernel/net/sched/sch_netem.ko:\n".into(), String::new()),
            family: "debian ".into(),
            nft: true,
            processors: 4,
            cgroup: "v2".into(),
            ..Circumstances::default()
        }
    }

    fn remedy(circumstances: &Circumstances, name: &str) -> String {
        let entry = Entry::of(name).unwrap();
        circumstances.remedy(entry).unwrap_or_default()
    }

    #[test]
    fn each_capability_is_there_once_with_its_costs() {
        for entry in ENTRIES {
            let same = ENTRIES.iter().filter(|other| other.name == entry.name);
            assert_eq!(same.count(), 1, "{}", entry.name);
            assert!(!entry.costs.is_empty(), "{}", entry.name);
            assert!(Group::ALL.contains(&entry.group));
        }
    }

    #[test]
    fn a_module_on_the_disk_wants_to_be_loaded() {
        assert_eq!(remedy(&debian(), Facts::NETEM), "modprobe sch_netem");
        let elsewhere = "apt-get install linux-image-amd64 && reboot";
        assert_eq!(remedy(&debian(), Facts::VXLAN), elsewhere);
    }

    #[test]
    fn a_kernel_without_modules_must_be_another() {
        let fixed = Circumstances {
            modules: false,
            ..debian()
        };
        let words = remedy(&fixed, Facts::VXLAN);
        assert!(words.contains("CONFIG_VXLAN"), "{words}");
    }

    #[test]
    fn hidden_features_are_asked_of_the_hypervisors_owner() {
        let guest = Circumstances {
            virtual_machine: true,
            ..debian()
        };
        assert!(remedy(&guest, Facts::KVM).contains("nested"));
        assert!(remedy(&debian(), Facts::KVM).starts_with("modprobe kvm"));
    }

    #[test]
    fn isolation_leaves_the_host_a_cpu() {
        let on = |processors| {
            let machine = Circumstances {
                processors,
                ..debian()
            };
            remedy(&machine, Facts::ISOLATED_CPUS)
        };
        assert_eq!(on(1), "");
        assert!(on(2).contains("nohz_full=1 "), "{}", on(2));
        assert!(on(4).contains("nohz_full=3 "), "{}", on(4));
        assert!(on(128).contains("nohz_full=64-127 "), "{}", on(128));
    }

    #[test]
    fn packages_are_installed_the_familys_way() {
        let fedora = Circumstances {
            family: "fedora ".into(),
            nft: false,
            ..debian()
        };
        assert_eq!(remedy(&fedora, Facts::MASQUERADE), "dnf install nftables");
    }
}
