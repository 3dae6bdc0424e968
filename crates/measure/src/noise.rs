//! The load beside a measurement that the study asks for: see [`Noise`].
//!
//! One instance a processor of the machine, bound to it where latlab may run there. Where a tuning
//! keeps processors for the lab, latlab itself may not, and the instances share what is left: that is
//! the effect to be measured.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use latlab_host::sys::process::LAB_VARIABLE;
use latlab_model::spec::{Measurement, Noise};
use latlab_model::units::CpuList;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

/// What stress-ng may take to start its workers.
const START: Duration = Duration::from_secs(10);
/// Added to the measurement's own time, it bounds the life of a stress-ng whose latlab was killed.
const AFTER: Duration = Duration::from_secs(120);

/// Running load, ended when it is dropped.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    spinning: Vec<JoinHandle<()>>,
    children: Vec<Child>,
}

impl Running {
    /// Starts what `measurement` asks for and waits until it runs.
    ///
    /// # Errors
    /// When stress-ng is missing, or ends at once; its own words are in the error.
    pub fn start(measurement: &Measurement, lab: &str) -> io::Result<Running> {
        let mut running = Running {
            stop: Arc::new(AtomicBool::new(false)),
            spinning: Vec::new(),
            children: Vec::new(),
        };
        let life = Duration::from_nanos(measurement.duration.0 + measurement.warmup.0) + AFTER;
        for cpu in processors(&measurement.noise)? {
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
            bind(cpu);
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
        // `latlab destroy` ends it, should this process not live to do so.
        command.env(LAB_VARIABLE, lab);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A child inherits the affinity of the thread that starts it; this thread keeps its own.
        let started = std::thread::spawn(move || {
            bind(cpu);
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

    fn wait_for_workers(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START;
        for child in &mut self.children {
            let workers = format!("/proc/{0}/task/{0}/children", child.id());
            while fs::read_to_string(&workers).unwrap_or_default().is_empty() {
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!(
                        "stress-ng refused its options ({status})"
                    )));
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
        for child in &self.children {
            // It ends its workers itself.
            kill_process(pid_of(child), Signal::TERM).ok();
        }
        for child in &mut self.children {
            child.wait().ok();
        }
        for thread in self.spinning.drain(..) {
            thread.join().ok();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Binds this thread to a processor, or leaves it where it may run.
fn bind(cpu: u32) {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).ok();
}

/// Processors of the machine, in use or kept free; none when there is no noise to make.
fn processors(noise: &Noise) -> io::Result<Vec<u32>> {
    if *noise == Noise::None {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let list = CpuList::parse(text.trim());
    let list = list.ok_or_else(|| io::Error::other("cannot read the list of processors"))?;
    Ok(list.iter().collect())
}
