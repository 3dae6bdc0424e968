//! Runs every target for a bounded time: `fuzz-bounded [TARGET...]`, or one input once:
//! `fuzz-bounded TARGET --input FILE`. `fuzz-bounded --seeds DIRECTORY` writes each target's seeds below a
//! directory of its name, for `scripts/fuzz-guided`.
//!
//! `LATLAB_FUZZ_SECONDS` is the time of each target (5), `LATLAB_FUZZ_SEED` the seed of its changes (1: the
//! same inputs every time, so that only a change of the code can fail). Each target runs in a process of its
//! own, which saves its input before the run: stack overflow, memory exhaustion or a hang leaves a reproducer
//! like a panic. Exit code 1 on a finding.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use latlab_fuzz::engine::{Corpus, Random, minimised};
use latlab_fuzz::{TARGETS, Target, run_dirs, target};

/// Limits memory, so that a decompression bomb ends its process and not the machine.
struct Bounded;

const MAX_MEMORY_BYTES: usize = 1 << 30;
static USED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: memory comes from and goes to the system's allocator under the caller's own layout; a null
// pointer is a legal answer of `alloc`.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if USED.fetch_add(layout.size(), Relaxed) + layout.size() > MAX_MEMORY_BYTES {
            USED.fetch_sub(layout.size(), Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// Grace period of a target beyond its time before it counts as hanging.
const GRACE: Duration = Duration::from_secs(20);

/// Message of the last panic.
static SAID: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [name, "--input", file] => with_target(name, |t| once(t, Path::new(file))),
        [name, "--child", note] => with_target(name, |t| child(t, Path::new(note))),
        ["--seeds", directory] => match write_seeds(Path::new(directory)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("fuzz-bounded: cannot write seeds below {directory}: {error}");
                ExitCode::from(2)
            }
        },
        [] => all(&TARGETS.iter().map(|t| t.name).collect::<Vec<_>>()),
        _ => all(&args),
    }
}

fn with_target(name: &str, run: impl FnOnce(&Target) -> ExitCode) -> ExitCode {
    match target(name) {
        Some(target) => run(target),
        None => {
            let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
            eprintln!(
                "fuzz-bounded: no target `{name}`; there are {}",
                names.join(", ")
            );
            ExitCode::from(2)
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Directory of reproducers.
fn artifacts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts")
}

fn all(names: &[&str]) -> ExitCode {
    let mut failed = false;
    for name in names {
        failed |= with_target(name, parent) != ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(failed))
}

/// Runs a target in a process of its own, and keeps its last input when that process dies.
fn parent(target: &Target) -> ExitCode {
    let note = std::env::temp_dir().join(format!("latlab-fuzz-note-{}", std::process::id()));
    let limit = Duration::from_secs(number("LATLAB_FUZZ_SECONDS", 5)) + GRACE;
    let started = Instant::now();
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    let mut child = command
        .args([target.name, "--child"])
        .arg(&note)
        .spawn()
        .expect("start this program again");
    let died = loop {
        match child.try_wait().expect("wait for a child") {
            Some(status) if status.success() => break None,
            // A panic, already reported.
            Some(status) if status.code() == Some(1) => break Some(String::new()),
            Some(status) => break Some(format!("it ended with {status}")),
            None if started.elapsed() > limit => {
                child.kill().ok();
                child.wait().ok();
                break Some("it hangs".into());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if let Some(why) = died.as_ref().filter(|why| !why.is_empty()) {
        tell(target, &fs::read(&note).unwrap_or_default(), why);
    }
    fs::remove_file(&note).ok();
    run_dirs::end(child.id());
    ExitCode::from(u8::from(died.is_some()))
}

/// Keeps a failing input and prints how to run it again.
fn tell(target: &Target, input: &[u8], why: &str) {
    let mut random = Random(
        input
            .iter()
            .fold(0, |sum, b| sum * 31 % (1 << 40) + u64::from(*b)),
    );
    let path = artifacts().join(format!("{}-{:08x}", target.name, random.bits() as u32));
    let kept = fs::create_dir_all(artifacts()).and_then(|()| fs::write(&path, input));
    println!("{}: FAILED: {why}", target.name);
    match kept {
        Ok(()) => println!(
            "  again: fuzz-bounded {} --input {}",
            target.name,
            path.display()
        ),
        Err(e) => println!("  the input could not be kept in {}: {e}", path.display()),
    }
}

/// The message of the panic that an input causes.
fn panics(target: &Target, input: &[u8]) -> Option<String> {
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    result
        .err()
        .map(|_| SAID.lock().map(|s| s.clone()).unwrap_or_default())
}

fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut said) = SAID.lock() {
            *said = panic.to_string();
        }
    }));
}

fn child(target: &Target, note: &Path) -> ExitCode {
    quiet_panics();
    let end = Instant::now() + Duration::from_secs(number("LATLAB_FUZZ_SECONDS", 5));
    let mut random = Random(number("LATLAB_FUZZ_SEED", 1));
    let mut note = File::create(note).expect("a file for the input in hand");
    let mut corpus = Corpus::new((target.seeds)(), target.tokens);
    let mut waiting: Vec<Vec<u8>> = corpus.inputs().to_vec();
    let seeds = waiting.len();
    let (mut runs, mut slowest) = (0u64, Duration::ZERO);
    while Instant::now() < end || !waiting.is_empty() {
        let input = waiting.pop().unwrap_or_else(|| corpus.next(&mut random));
        let noted = note
            .rewind()
            .and_then(|()| note.set_len(0))
            .and_then(|()| note.write_all(&input));
        noted.expect("write down the input in hand");
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            Ok(answer) => corpus.note(&input, answer),
            Err(_) => {
                let short = minimised(&input, |shorter| panics(target, shorter).is_some());
                tell(target, &short, &panics(target, &short).unwrap_or_default());
                return ExitCode::from(1);
            }
        }
        slowest = slowest.max(began.elapsed());
        runs += 1;
    }
    println!(
        "{}: good: {runs} inputs from {seeds} seeds, {} different answers, slowest {slowest:.1?}",
        target.name,
        corpus.answers()
    );
    ExitCode::SUCCESS
}

fn write_seeds(directory: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let directory = directory.join(target.name);
        fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(directory.join(number.to_string()), seed)?;
        }
    }
    Ok(())
}

/// Runs one input without protection.
fn once(target: &Target, file: &Path) -> ExitCode {
    match fs::read(file) {
        Ok(input) => {
            (target.run)(&input);
            run_dirs::end(std::process::id());
            println!("{}: good", target.name);
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("fuzz-bounded: cannot read {}: {e}", file.display());
            ExitCode::from(2)
        }
    }
}
