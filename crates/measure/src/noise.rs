//! The load beside a measurement that the study asks for: see [`Noise`].
//!
//! One instance a CPU, pinned to it if latlab may run there. Where a tuning dedicates CPUs to the lab, latlab
//! may not, and the instances share the rest: that effect is to be measured.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_host::sys::process::LAB_VARIABLE;
use latlab_model::spec::{Measurement, Noise};
use latlab_model::units::CpuList;
use rustix::process::{Pid, Signal, kill_process};

use crate::affinity::pin_thread;

const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Added to the measurement's time, bounds the life of a stress-ng whose latlab was killed.
const GRACE: Duration = Duration::from_secs(120);

#[derive(Default)]
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    spinning: Vec<JoinHandle<()>>,
    children: Vec<Child>,
}

impl Running {
    /// Starts the noise of `measurement` and waits until it runs. Fails when stress-ng is missing, or ends at once;
    /// the error quotes it.
    pub fn start(measurement: &Measurement, lab: &str) -> io::Result<Running> {
        let mut running = Running::default();
        let work = measurement
            .workload
            .as_ref()
            .map_or(0, |work| work.timeout.0);
        let whole = measurement.duration.0 + measurement.warmup.0 + work;
        let life = Duration::from_nanos(whole) + GRACE;
        for cpu in online_cpus(&measurement.noise)? {
            match &measurement.noise {
                Noise::None => {}
                Noise::Spin => running.spin(cpu),
                Noise::StressNg(options) => running.stress(cpu, options, life, lab)?,
            }
        }
        running.wait_for_workers()?;
        Ok(running)
    }

    fn spin(&mut self, cpu: u32) {
        let stop = Arc::clone(&self.stop);
        self.spinning.push(std::thread::spawn(move || {
            pin_thread(cpu).ok();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }));
    }

    fn stress(
        &mut self,
        cpu: u32,
        options: &[String],
        life: Duration,
        lab: &str,
    ) -> io::Result<()> {
        let mut command = Command::new("stress-ng");
        command.args(options).arg("--quiet");
        command.args(["--timeout", &life.as_secs().to_string()]);
        // `latlab destroy` ends it, if this process dies before.
        command.env(LAB_VARIABLE, lab);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A child inherits the affinity of the thread that starts it; this thread keeps its own.
        let started = std::thread::spawn(move || {
            pin_thread(cpu).ok();
            command.spawn()
        });
        let child = started
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        self.children
            .push(child.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("stress-ng is not installed"),
                _ => error,
            })?);
        Ok(())
    }

    /// Ends the noise. Fails when a stress-ng ended before: out of memory, or by an option of its own.
    pub fn end(mut self) -> io::Result<()> {
        let ended = self.children.iter_mut().map(Child::try_wait);
        let ended = ended.collect::<io::Result<Vec<_>>>()?;
        match ended.into_iter().flatten().next() {
            Some(status) => Err(too_short(status)),
            None => Ok(()),
        }
    }

    fn wait_for_workers(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        for child in &mut self.children {
            let workers = format!("/proc/{0}/task/{0}/children", child.id());
            while fs::read_to_string(&workers).unwrap_or_default().is_empty() {
                match child.try_wait()? {
                    Some(status) if status.success() => return Err(too_short(status)),
                    Some(status) => {
                        let reason = format!("stress-ng refused its options ({status})");
                        return Err(io::Error::other(reason));
                    }
                    None => {}
                }
                if Instant::now() > deadline {
                    return Err(io::Error::other("stress-ng has no workers"));
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for child in &mut self.children {
            // One that has ended may have left its number to another process.
            if matches!(child.try_wait(), Ok(None)) {
                // stress-ng ends its workers itself.
                kill_process(Pid::from_child(child), Signal::TERM).ok();
            }
        }
        for child in &mut self.children {
            child.wait().ok();
        }
        for thread in self.spinning.drain(..) {
            thread.join().ok();
        }
    }
}

fn too_short(status: ExitStatus) -> io::Error {
    io::Error::other(format!(
        "stress-ng ended before the window did ({status}); its options must let it run for the whole trial"
    ))
}

/// Online CPUs; none when there is no noise to make.
fn online_cpus(noise: &Noise) -> io::Result<Vec<u32>> {
    if *noise == Noise::None {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let list = CpuList::parse(text.trim());
    let list = list.ok_or_else(|| io::Error::other("cannot read the list of CPUs"))?;
    Ok(list.iter().collect())
}
