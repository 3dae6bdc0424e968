//! Real guests for the tests that boot some.
//!
//! `LATLAB_AGENT` names the agent, otherwise it is looked for beside the test (`cargo build -p
//! latlab-agent` first); `LATLAB_KERNELS` names the kernels' cache, otherwise `/var/cache/latlab/kernels`.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod evidence;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latlab_host::nodes::vm::Accelerator;
use latlab_host::nodes::vm::channel::Channel;
use latlab_host::nodes::vm::kernel;
use latlab_host::nodes::vm::nic::{Nic, Served};
use latlab_host::nodes::vm::qemu::{Origin, VmConfig};
use latlab_host::nodes::vm::{Access, Share};
use latlab_host::nodes::vm::{Vm, initramfs};
use latlab_model::kinds::{GuestRoot, VmHardware, VmNet};
use latlab_model::plan::GuestMemory;
use latlab_wire::channel::{Exec, ExitStatus};

pub const BOOT: Duration = Duration::from_secs(90);
pub const COMMAND: Duration = Duration::from_secs(60);

pub fn asked_for() -> bool {
    let asked = std::env::var_os("LATLAB_TEST_GUEST").is_some_and(|value| value == "1");
    if !asked {
        eprintln!("guest tests boot virtual machines: set LATLAB_TEST_GUEST=1 to run them");
    }
    asked
}

pub fn agent() -> PathBuf {
    if let Some(path) = std::env::var_os("LATLAB_AGENT") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    ["release", "debug"]
        .iter()
        .map(|profile| target.join(profile).join("latlab-agent"))
        .find(|path| path.exists())
        .expect("no latlab-agent in the target directory: run `cargo build -p latlab-agent` first")
}

pub fn kernels() -> PathBuf {
    std::env::var_os("LATLAB_KERNELS").map_or("/var/cache/latlab/kernels".into(), PathBuf::from)
}

/// A guest that is ended, and its directory removed, however the test ends.
pub struct Guest {
    pub vm: Option<Vm>,
    pub dir: PathBuf,
}

impl Guest {
    pub fn boot<'a>(which: &str, change: impl FnOnce(&mut VmConfig<'a>)) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(format!("/tmp/latlab-guest-{}-{number}", std::process::id()));
        let kernel = kernel::resolve(which, &kernels(), &mut |step| eprintln!("{step:?}")).unwrap();
        let initramfs =
            initramfs::prepare(&agent(), &kernel, GuestRoot::Share, &kernels()).unwrap();
        let mut config = VmConfig {
            name: "third".into(),
            lab: format!("guest-test-{}-{number}", std::process::id()),
            vcpus: 1,
            topology: None,
            memory_bytes: 512 << 20,
            memory: GuestMemory::default(),
            hardware: VmHardware::default(),
            iommu: false,
            kernel,
            initramfs,
            agent: agent(),
            boot_parameters: Vec::new(),
            nics: Vec::new(),
            root: Share::new("/", "/", Access::Everybody),
            shares: Vec::new(),
            disks: None,
            storage: Vec::new(),
            scratch: Vec::new(),
            dir: dir.clone(),
            accelerator: Accelerator::Tcg,
            origin: Origin::Boot,
        };
        change(&mut config);
        let vm = Vm::start(&config, None).unwrap();
        Self { vm: Some(vm), dir }
    }

    /// A guest with a card for each tap; the first has hardware address 02:00:00:00:09:00.
    pub fn boot_with(which: &str, taps: &[OwnedFd]) -> Self {
        Self::boot(which, |config| {
            for (index, tap) in taps.iter().enumerate() {
                let mac = [2, 0, 0, 0, 9, index as u8];
                config.nics.push(Nic {
                    mac,
                    shape: VmNet::default(),
                    served: Served::Taps {
                        queues: vec![tap.as_fd()],
                        vhost: Vec::new(),
                    },
                });
            }
        })
    }

    pub fn vm(&self) -> &Vm {
        self.vm.as_ref().unwrap()
    }

    pub fn channel(&self) -> Channel {
        self.vm().channel(BOOT).unwrap()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the guest's CPUs and its console:\n{}",
                evidence::of(&self.dir)
            );
        }
        if let Some(vm) = self.vm.take() {
            vm.stop(Duration::from_secs(5)).unwrap();
        }
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

pub fn shell(line: &str) -> Exec {
    Exec {
        argv: vec!["/bin/sh".into(), "-c".into(), line.into()],
        ..Exec::default()
    }
}

pub fn text(channel: &Channel, line: &str) -> String {
    let finished = channel.run(shell(line), b"", COMMAND).unwrap();
    assert_eq!(finished.status, ExitStatus::Code(0), "{line}: {finished:?}");
    String::from_utf8(finished.stdout).unwrap()
}
