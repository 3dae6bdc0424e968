//! `/proc/cpuinfo`: the model's name, and on x86 whether there is a hypervisor underneath.
//!
//! Its shape differs by architecture. x86 names the model on every CPU; ARM gives numbers that stand for a maker and a
//! design (the names below are lscpu's); POWER and z have words of their own.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuInfo {
    /// The model, or the models of a machine with several, joined by ` + `.
    pub model: Option<String>,
    pub processors: u32,
    /// The CPU says that it is virtual (x86 only).
    pub virtual_machine: bool,
}

/// ARM's and its licensees' designs: implementer, part, name.
const ARM_PARTS: &[(u32, u32, &str)] = &[
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x43, 0x0af, "ThunderX2"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "Kunpeng-920"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

pub fn cpuinfo(text: &str) -> CpuInfo {
    let mut info = CpuInfo::default();
    let mut names: Vec<String> = Vec::new();
    let mut note = |name: String| {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    };
    let mut implementer = None;
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key.trim() {
            // Older 32-bit ARM kernels write the model as `Processor`, once.
            "processor" if value.parse::<u32>().is_ok() => info.processors += 1,
            "model name" | "cpu" | "Processor" => note(value.into()),
            "flags" => info.virtual_machine |= value.split(' ').any(|f| f == "hypervisor"),
            "CPU implementer" => implementer = hexadecimal(value),
            "CPU part" => {
                let part = hexadecimal(value);
                if let (Some(implementer), Some(part)) = (implementer, part) {
                    note(arm_name(implementer, part));
                }
            }
            _ => {}
        }
    }
    info.model = (!names.is_empty()).then(|| names.join(" + "));
    info
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn arm_name(implementer: u32, part: u32) -> String {
    let known = ARM_PARTS
        .iter()
        .find(|(i, p, _)| (*i, *p) == (implementer, part));
    match known {
        Some((_, _, name)) => (*name).into(),
        None => format!("ARM implementer {implementer:#x} part {part:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRECRACKER: &str = include_str!("fixtures/cpuinfo-epyc-firecracker");
    const XEON: &str = include_str!("fixtures/cpuinfo-xeon-two-sockets");
    const GRAVITON: &str = include_str!("fixtures/cpuinfo-neoverse");
    const BIG_LITTLE: &str = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\n\
        processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n";

    #[test]
    fn a_virtual_machine_says_so() {
        let info = cpuinfo(FIRECRACKER);
        assert_eq!(info.model.as_deref(), Some("AMD EPYC"));
        assert_eq!(info.processors, 2);
        assert!(info.virtual_machine);
    }

    #[test]
    fn two_sockets_with_smt_have_one_model() {
        let info = cpuinfo(XEON);
        assert_eq!(
            info.model.as_deref(),
            Some("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz")
        );
        assert_eq!(info.processors, 8);
        assert!(!info.virtual_machine);
    }

    #[test]
    fn arm_designs_are_named_from_their_numbers() {
        assert_eq!(cpuinfo(GRAVITON).model.as_deref(), Some("Neoverse-V1"));
        assert_eq!(cpuinfo(GRAVITON).processors, 2);
        let both = cpuinfo(BIG_LITTLE).model;
        assert_eq!(both.as_deref(), Some("Cortex-A53 + Cortex-A72"));
        let unknown = cpuinfo("CPU implementer : 0x99\nCPU part : 0x1\n").model;
        assert_eq!(unknown.as_deref(), Some("ARM implementer 0x99 part 0x1"));
    }

    #[test]
    fn other_architectures_and_nonsense_are_read_as_far_as_they_go() {
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(
            cpuinfo(power).model.as_deref(),
            Some("POWER9, altivec supported")
        );
        for text in ["", ":", "processor", "CPU part: 0x", "flags:"] {
            assert_eq!(cpuinfo(text), CpuInfo::default(), "{text}");
        }
    }
}
