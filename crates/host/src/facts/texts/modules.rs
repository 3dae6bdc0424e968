//! Whether a module could be loaded, from the two lists that lie beside the kernel's modules.

/// Looks for `module` in the texts of `modules.dep` and `modules.builtin` below
/// `/lib/modules/RELEASE`. Hyphen and underscore are the same in a module's name.
pub fn can_be_loaded(dep: &str, builtin: &str, module: &str) -> bool {
    let named = |line: &str| {
        let path = line.split(':').next().unwrap_or_default().trim();
        let file = path.rsplit('/').next().unwrap_or_default();
        let Some((stem, _)) = file.split_once(".ko") else {
            return false;
        };
        let plain = |c: char| if c == '-' { '_' } else { c };
        stem.chars().map(plain).eq(module.chars().map(plain))
    };
    !builtin.lines().any(named) && dep.lines().any(named)
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
        for (module, expected) in [
            ("sch_netem", true),
            ("vhost-net", true),
            ("ipvlan", true),
            ("tun", false),
            // Named only as a dependency.
            ("vhost", false),
            ("netem", false),
        ] {
            assert_eq!(can_be_loaded(DEP, BUILTIN, module), expected, "{module}");
        }
        assert!(!can_be_loaded("", "", "x"));
    }
}
