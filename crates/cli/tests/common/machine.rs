//! A machine of another shape for labs: a guest in which latlab runs.

use std::path::Path;

use super::{Bench, Said, finish};

/// A guest, and latlab in it. It has four CPUs unless a test says otherwise.
pub struct Machine<'b> {
    pub bench: &'b Bench,
    pub lab: String,
}

impl<'b> Machine<'b> {
    pub fn boot(bench: &'b Bench, name: &str, kernel: &str, path: Option<&str>) -> Machine<'b> {
        Machine::among(bench, name, kernel, path, "")
    }

    /// In a lab with further nodes and links.
    pub fn among(
        bench: &'b Bench,
        name: &str,
        kernel: &str,
        path: Option<&str>,
        more: &str,
    ) -> Machine<'b> {
        Machine::shaped(bench, name, kernel, path, "cpus: 4, memory: 1GiB", more)
    }

    /// With one CPU, so that no two threads emulate CPUs at the same time, and registers of cards that root may read.
    pub fn with_cards(bench: &'b Bench, name: &str, kernel: &str, path: &str) -> Machine<'b> {
        let shape = "cpus: 1, memory: 1GiB, boot: iomem=relaxed";
        Machine::shaped(bench, name, kernel, Some(path), shape, "")
    }

    /// With one CPU, memory for a guest of its own, and a kernel that uses an IOMMU.
    pub fn with_iommu(bench: &'b Bench, name: &str, kernel: &str, path: &str) -> Machine<'b> {
        let shape = "cpus: 1, memory: 1536MiB, boot: intel_iommu=on iommu=pt";
        Machine::shaped(bench, name, kernel, Some(path), shape, "")
    }

    /// With a huge page of 1 GiB, which its kernel has reserved. The path is that of this process.
    pub fn with_large_page(bench: &'b Bench, name: &str) -> Machine<'b> {
        let path = std::env::var("PATH").unwrap_or_default();
        let shape = "cpus: 2, memory: 2560MiB, boot: hugepagesz=1G hugepages=1";
        Machine::shaped(bench, name, "standard", Some(&path), shape, "")
    }

    fn shaped(
        bench: &'b Bench,
        name: &str,
        kernel: &str,
        path: Option<&str>,
        shape: &str,
        more: &str,
    ) -> Machine<'b> {
        // The guest has the host's root, but not the directories that tests are built in, nor latlab's own.
        let here = Path::new(env!("CARGO_BIN_EXE_latlab")).parent().unwrap();
        let cache = std::env::var("LATLAB_CACHE_DIR").unwrap_or("/var/cache/latlab".into());
        // Another QEMU in the path gives the guest memory of its own making.
        let start = path.map_or("clone", |_| "boot");
        let lab = format!(
            "name: NAME\ntopology:\n  nodes:\n    machine: {{kind: vm, kernel: {kernel}, start: {start}, {shape}, \
             binds: [\"{}:/run/tools:ro\", \"{cache}:/run/cache:ro\"]}}\n{more}",
            here.display()
        );
        let file = bench.file(name, &lab);
        let mut deploy = bench.command(&["deploy", &file]);
        deploy.envs(path.map(|path| ("PATH", path)));
        finish(&mut deploy).good();
        let machine = Machine {
            bench,
            lab: bench.name(name),
        };
        machine.sh("mkdir -p /run/labs/profiles");
        machine
    }

    /// A line for the guest's shell; latlab is in its path, with directories of its own.
    pub fn try_sh(&self, line: &str) -> Said {
        let line = format!(
            "export PATH=/run/tools:$PATH NO_COLOR=1 LATLAB_STATE_DIR=/run/labs/state \
             LATLAB_RUN_DIR=/run/labs/run LATLAB_PROFILE_DIR=/run/labs/profiles
             cd /run/labs; {line}"
        );
        self.bench.exec(&self.lab, "machine", &["sh", "-c", &line])
    }

    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        self.try_sh(line).good().out
    }

    /// A line that may take longer than one command of a guest in the tests: ten minutes. What it says.
    #[track_caller]
    pub fn long_sh(&self, line: &str) -> String {
        self.sh(&format!(
            "(( {line} ) > long.out 2>&1; echo $? > long.code) < /dev/null > /dev/null 2>&1 &"
        ));
        let ask = "for i in $(seq 60); do test -f long.code && break; sleep 1; done; cat long.code 2> /dev/null; true";
        let code = (0..20).map(|_| self.sh(ask)).find(|code| !code.is_empty());
        let told = self.sh("cat long.out; rm -f long.code");
        assert_eq!(code.as_deref().map(str::trim), Some("0"), "{told}");
        told
    }

    pub fn write(&self, file: &str, text: &str) {
        self.sh(&format!("cat > {file} <<'END'\n{text}END"));
    }

    pub fn end(self) {
        self.bench.latlab(&["destroy", &self.lab]).good();
        self.bench.assert_clean();
    }
}
