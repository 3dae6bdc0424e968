//! Figures about virtual machines, printed and not judged.
//!
//! `vm_figures boot [ROUNDS]`: seconds from starting QEMU until the agent answers, against a bare QEMU
//! that boots the same kernel to an init that prints a line. QEMU boots once as one would type it (the
//! distribution's `vmlinuz`) and once with latlab's settings (the bare kernel, the machine, the
//! parameters). The three alternate, so that a change of the machine's load meets all of them.
//!
//! `vm_figures clone [ROUNDS]`: the same for a guest that starts as a clone: seconds until the agent answers, and
//! until it would as one of eight that start at once; and the private memory of both kinds of guests.
//!
//! `vm_figures clock [SECONDS]`: the guest's clock against the host's, once a second: offset, bound of its
//! error, drift, and how far the offsets lie from a straight line.
//!
//! `LATLAB_AGENT` and `LATLAB_KERNELS` name the agent and the kernels' cache; `LATLAB_KERNEL` the kernel
//! (default `standard`).

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latlab_host::nodes::vm::Vm;
use latlab_host::nodes::vm::clock::{self, ClockOffset};
use latlab_host::nodes::vm::clone;
use latlab_host::nodes::vm::initramfs;
use latlab_host::nodes::vm::kernel::{self, Kernel};
use latlab_host::nodes::vm::qemu::{Origin, VmConfig};
use latlab_host::nodes::vm::template::Templates;
use latlab_host::nodes::vm::{Accelerator, PROGRAM};
use latlab_host::nodes::vm::{Access, Share};
use latlab_wire::channel::Exec;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TIMEOUT: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |default| args.get(1).map_or(Ok(default), |text| text.parse::<u32>());
    match args.first().map(String::as_str) {
        Some("boot") => boot(number(5)?),
        Some("clone") => clones(number(5)?),
        Some("clock") => drift(number(60)?),
        _ => Err("usage: vm_figures boot [ROUNDS] | clone [ROUNDS] | clock [SECONDS]".into()),
    }
}

struct Parts {
    kernel: Kernel,
    vmlinuz: PathBuf,
    cache: PathBuf,
    agent: PathBuf,
}

fn parts() -> Result<Parts> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("LATLAB_KERNELS").unwrap_or("/var/cache/latlab/kernels".into());
    let agent = match variable("LATLAB_AGENT") {
        Some(agent) => agent,
        None => std::env::current_exe()?.with_file_name("../latlab-agent"),
    };
    let which = std::env::var("LATLAB_KERNEL").unwrap_or("standard".into());
    let kernel = kernel::resolve(&which, &cache, &mut |_| ())?;
    // Beside the modules in an unpacked package.
    let modules = kernel
        .modules
        .as_deref()
        .ok_or("the kernel has no modules directory")?;
    let root = modules
        .ancestors()
        .nth(3)
        .ok_or("no package around the modules")?;
    let vmlinuz = root.join(format!("boot/vmlinuz-{}", kernel.release));
    Ok(Parts {
        kernel,
        vmlinuz,
        cache,
        agent,
    })
}

fn config(parts: &Parts, dir: &Path) -> Result<VmConfig<'static>> {
    Ok(VmConfig {
        name: "figures".into(),
        lab: format!("vm-figures-{}", std::process::id()),
        vcpus: 1,
        topology: None,
        memory_bytes: 512 << 20,
        memory: latlab_model::plan::GuestMemory::default(),
        hardware: latlab_model::kinds::VmHardware::default(),
        iommu: false,
        kernel: parts.kernel.clone(),
        initramfs: initramfs::prepare(
            &parts.agent,
            &parts.kernel,
            latlab_model::kinds::GuestRoot::Share,
            &parts.cache,
        )?,
        agent: parts.agent.clone(),
        boot_parameters: Vec::new(),
        nics: Vec::new(),
        root: Share::new("/", "/", Access::Everybody),
        shares: Vec::new(),
        disks: None,
        storage: Vec::new(),
        scratch: Vec::new(),
        dir: dir.to_owned(),
        accelerator: Accelerator::Tcg,
        origin: Origin::Boot,
    })
}

fn boot(rounds: u32) -> Result<()> {
    let parts = parts()?;
    let dir = std::env::temp_dir().join(format!("latlab-figures-{}", std::process::id()));
    let config = config(&parts, &dir)?;
    // The agent alone, as an init that prints a line and turns the machine off.
    let bare = Kernel {
        modules: None,
        ..parts.kernel.clone()
    };
    let tiny = initramfs::prepare(
        &parts.agent,
        &bare,
        latlab_model::kinds::GuestRoot::Share,
        &parts.cache,
    )?;
    let mut series: [(&str, Vec<f64>); 3] = [
        ("latlab", vec![]),
        ("bare vmlinuz", vec![]),
        ("bare vmlinux", vec![]),
    ];
    println!("round,what,seconds");
    for round in 0..rounds {
        let seconds = [
            guest(&config)?,
            bare_boot(&parts.vmlinuz, &tiny, "q35", "console=ttyS0 quiet panic=-1")?,
            bare_boot(
                &parts.kernel.image,
                &tiny,
                "q35,sata=off,smbus=off,usb=off,vmport=off",
                "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check tsc=reliable",
            )?,
        ];
        for ((what, values), seconds) in series.iter_mut().zip(seconds) {
            println!("{round},{what},{seconds:.3}");
            values.push(seconds);
        }
    }
    std::fs::remove_dir_all(&dir)?;
    let medians = series.each_mut().map(|(_, values)| median(values));
    println!(
        "kernel {}, tcg, 1 vcpu, 512 MiB, median of {rounds}:",
        parts.kernel.release
    );
    for ((what, _), median) in series.iter().zip(medians) {
        println!(
            "  {what:14} {median:7.3} s  latlab is {:.2} times that",
            medians[0] / median
        );
    }
    Ok(())
}

/// Clones that start at the same time.
const AT_ONCE: usize = 8;

fn clones(rounds: u32) -> Result<()> {
    let parts = parts()?;
    let dir = |number: usize| {
        std::env::temp_dir().join(format!("latlab-clone-{}-{number}", std::process::id()))
    };
    let configs = (0..AT_ONCE).map(|number| {
        let mut config = config(&parts, &dir(number))?;
        config.memory_bytes = 256 << 20;
        Ok(config)
    });
    let configs: Vec<_> = configs.collect::<Result<_>>()?;
    let rounds = clone_rounds(&parts, &configs, rounds)?;
    for number in 0..AT_ONCE {
        std::fs::remove_dir_all(dir(number))?;
    }
    let of = |value: fn(&CloneRound) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        median(&mut values)
    };
    let most = rounds.iter().map(|r| r.alone).fold(0.0, f64::max);
    let (alone, bare) = (of(|r| r.alone), of(|r| r.bare));
    let (shared, own) = (of(|r| r.clone_mib), of(|r| r.booted_mib));
    println!(
        "kernel {}, tcg, 1 vcpu, 256 MiB, median of {}:\n  a clone answers in {:.0} ms (at most {:.0}), \
         a bare QEMU boots in {:.0} ms: {:.1} times faster\n  {AT_ONCE} clones at once answer in {:.0} ms\n  private \
         memory: clone {shared:.1} MiB, booted {own:.1} MiB, ratio {:.3}",
        parts.kernel.release,
        rounds.len(),
        alone * 1e3,
        most * 1e3,
        bare * 1e3,
        bare / alone,
        of(|r| r.together) * 1e3,
        shared / own
    );
    Ok(())
}

/// Seconds until agents answer, and private memory.
struct CloneRound {
    alone: f64,
    together: f64,
    bare: f64,
    clone_mib: f64,
    booted_mib: f64,
}

fn clone_rounds(parts: &Parts, configs: &[VmConfig<'_>], rounds: u32) -> Result<Vec<CloneRound>> {
    let bare = Kernel {
        modules: None,
        ..parts.kernel.clone()
    };
    let tiny = initramfs::prepare(
        &parts.agent,
        &bare,
        latlab_model::kinds::GuestRoot::Share,
        &parts.cache,
    )?;
    let templates = || Templates::new(&parts.cache);
    // The first one makes the template.
    let (first, _) = clone::load(&configs[0], None, &templates(), TIMEOUT)?;
    first.end()?;
    println!("round,clone,{AT_ONCE} clones,bare boot");
    let mut done = Vec::new();
    for round in 0..rounds {
        let start = Instant::now();
        let (vm, _channel) = clone::load(&configs[0], None, &templates(), TIMEOUT)?;
        let alone = start.elapsed().as_secs_f64();
        let clone_mib = private_memory(vm.id().pid)?;
        vm.end()?;
        let together = all_at_once(configs, &templates())?;
        let boot = Vm::start(&configs[0], None)?;
        boot.channel(TIMEOUT)?;
        let booted_mib = private_memory(boot.id().pid)?;
        boot.end()?;
        let line = "console=ttyS0 quiet panic=-1";
        let bare = bare_boot(&parts.vmlinuz, &tiny, "q35", line)?;
        println!("{round},{alone:.3},{together:.3},{bare:.3}");
        done.push(CloneRound {
            alone,
            together,
            bare,
            clone_mib,
            booted_mib,
        });
    }
    Ok(done)
}

/// Seconds until the last of them answers.
fn all_at_once(configs: &[VmConfig<'_>], templates: &Templates) -> Result<f64> {
    let start = Instant::now();
    let vms = std::thread::scope(|scope| {
        let load = |config| clone::load(config, None, templates, TIMEOUT);
        let starts = configs
            .iter()
            .map(|config| scope.spawn(move || load(config)));
        let starts: Vec<_> = starts.collect();
        let ended = starts.into_iter();
        ended
            .map(std::thread::ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    let seconds = start.elapsed().as_secs_f64();
    for vm in vms {
        vm.map_err(|_| "a thread panicked")??.0.end()?;
    }
    Ok(seconds)
}

/// Memory that no other process has, in MiB.
fn private_memory(pid: u32) -> Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    let kilobytes = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kilobytes.sum::<f64>() / 1024.0)
}

fn guest(config: &VmConfig<'_>) -> Result<f64> {
    let start = Instant::now();
    let vm = Vm::start(config, None)?;
    let opened = vm.channel(TIMEOUT);
    let seconds = start.elapsed().as_secs_f64();
    vm.stop(Duration::from_secs(10))?;
    opened?;
    Ok(seconds)
}

fn bare_boot(kernel: &Path, initrd: &Path, machine: &str, line: &str) -> Result<f64> {
    let start = Instant::now();
    let mut child = Command::new(PROGRAM)
        .args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ])
        .args([
            "-machine", machine, "-accel", "tcg", "-cpu", "max", "-m", "512M",
        ])
        .args([
            "-serial",
            "stdio",
            "-append",
            &format!("{line} latlab.probe"),
        ])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initrd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    let mut seconds = None;
    if let Some(mut stdout) = child.stdout.take() {
        let mut bytes = [0; 4096];
        while let count @ 1.. = stdout.read(&mut bytes)? {
            said.extend_from_slice(&bytes[..count]);
            if seconds.is_none() && String::from_utf8_lossy(&said).contains("user space runs") {
                seconds = Some(start.elapsed().as_secs_f64());
            }
        }
    }
    child.wait()?;
    seconds.ok_or_else(|| format!("no init: {}", String::from_utf8_lossy(&said)).into())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn drift(seconds: u32) -> Result<()> {
    let parts = parts()?;
    let dir = std::env::temp_dir().join(format!("latlab-figures-{}", std::process::id()));
    let config = config(&parts, &dir)?;
    let vm = Vm::start(&config, None)?;
    let measured = exchanges(&vm, seconds);
    vm.stop(Duration::from_secs(10))?;
    std::fs::remove_dir_all(&dir)?;
    let offsets = measured?;
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Err("no exchange".into());
    };
    println!("second,offset_change_ns,error_ns,median_round_trip_ns,from_line_ns");
    let mut furthest = 0;
    for offset in &offsets {
        let on_line = ClockOffset::between(first, last, offset.at_host_ns);
        let from_line = on_line.map_or(0, |(line, _)| offset.offset_ns - line);
        furthest = furthest.max(from_line.abs());
        println!(
            "{:.3},{},{},{},{from_line}",
            (offset.at_host_ns - first.at_host_ns) as f64 / 1e9,
            offset.offset_ns - first.offset_ns,
            offset.error_ns,
            offset.median_round_trip_ns
        );
    }
    let span_ns = (last.at_host_ns - first.at_host_ns) as f64;
    let change_ns = last.offset_ns - first.offset_ns;
    let mut errors: Vec<f64> = offsets
        .iter()
        .map(|offset| offset.error_ns as f64)
        .collect();
    println!(
        "drift {:.3} ppm ({change_ns} ns in {:.1} s)",
        change_ns as f64 / span_ns * 1e6,
        span_ns / 1e9
    );
    println!(
        "error of an exchange: median {} ns, worst {} ns",
        median(&mut errors),
        errors[errors.len() - 1]
    );
    println!("furthest from the straight line between first and last: {furthest} ns");
    Ok(())
}

fn exchanges(vm: &Vm, seconds: u32) -> Result<Vec<ClockOffset>> {
    let channel = vm.channel(TIMEOUT)?;
    let say = |argv: &[&str]| -> Result<String> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let exec = Exec {
            argv,
            ..Exec::default()
        };
        let finished = channel.run(exec, b"", TIMEOUT)?;
        Ok(String::from_utf8_lossy(&finished.stdout).trim().to_owned())
    };
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    println!("guest clock source: {}", say(&["cat", source])?);
    println!(
        "guest clock read: {}",
        say(&["latlab-agent", "probe", "clock", "--output", "json"])?
    );
    let page = vm.clock_page();
    let mut offsets = vec![clock::exchange(&page, &channel)?];
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        offsets.push(clock::exchange(&page, &channel)?);
    }
    Ok(offsets)
}
