//! Whether a module could be loaded, from the two lists that lie beside the kernel's modules.

/// The state of a module, by the kernel's module lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleState {
    BuiltIn,
    Loadable,
    Absent,
}

/// Looks for `module` in the texts of `modules.dep` and `modules.builtin` below
/// `/lib/modules/RELEASE`. Hyphen and underscore are the same in a module's name.
pub fn module_state(dep: &str, builtin: &str, module: &str) -> ModuleState {
    let named = |line: &str| {
        let path = line.split(':').next().unwrap_or_default().trim();
        let file = path.rsplit('/').next().unwrap_or_default();
        let Some((stem, _)) = file.split_once(".ko") else {
            return false;
        };
        let plain = |c: char| if c == '-' { '_' } else { c };
        stem.chars().map(plain).eq(module.chars().map(plain))
    };
    if builtin.lines().any(named) {
        ModuleState::BuiltIn
    } else if dep.lines().any(named) {
        ModuleState::Loadable
    } else {
        ModuleState::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/net/sched/sch_netem.ko:\n\
        kernel/drivers/vhost/vhost_net.ko.xz: kernel/drivers/vhost/vhost.ko.xz\n\
        kernel/drivers/net/ipvlan/ipvlan.ko.zst:\n";
    const BUILTIN: &str = "kernel/net/core/pktgen.ko\nkernel/drivers/net/tun.ko\n";

    #[test]
    fn modules_are_found_by_their_file_whatever_its_compression() {
        for (module, state) in [
            ("sch_netem", ModuleState::Loadable),
            ("vhost-net", ModuleState::Loadable),
            ("ipvlan", ModuleState::Loadable),
            ("tun", ModuleState::BuiltIn),
            // Named only as a dependency.
            ("vhost", ModuleState::Absent),
            ("netem", ModuleState::Absent),
        ] {
            assert_eq!(module_state(DEP, BUILTIN, module), state, "{module}");
        }
        assert_eq!(module_state("", "", "x"), ModuleState::Absent);
    }
}
