//! Starting a process of a lab so that no crash of latlab leaves one that cannot be found.
//!
//! A process of a lab is found by the label in its environment, and the kernel shows that only
//! from `execve` on. Between fork and exec a child would have no label. So the child first asks for
//! SIGKILL on its parent's death, then does everything that may take time (joining cgroups,
//! entering the network namespace, arranging descriptors), and takes the request back immediately
//! before `execve`. If latlab dies earlier, the child dies with it; if later, the child is
//! labelled, or about to be, and it is in the lab's cgroup.
//!
//! `clone3` is called directly, because a child can be *born* in a cgroup only so (see
//! [`CgroupEntry`]), and because it hands back a pidfd of the child without a race (see `vfork.rs`).

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, getpid, getppid};

mod child;
mod options;
mod vfork;

pub use options::{Confinement, Executable, Root};

use child::{CHANGE_DIRECTORY, Child, EXECUTE, Pointers, STEPS};

use super::Error;
use super::cgroup_entry::CgroupEntry;
use super::process::{Exit, LAB_VARIABLE, Process};

/// A process to be started. Standard input, output and error are `/dev/null` unless given.
#[derive(Debug)]
pub struct Spawn<'a> {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    netns: Option<BorrowedFd<'a>>,
    root: Option<Root<'a>>,
    cgroup: Option<&'a CgroupEntry>,
    cgroup_namespace: bool,
    descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    executable: Executable<'a>,
    confinement: Confinement<'a>,
    session: bool,
    tied: bool,
}

#[derive(Debug)]
pub struct Output {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl<'a> Spawn<'a> {
    /// A process running `program` (searched for in `PATH` unless it has a slash), labelled as
    /// belonging to the lab with this id. It inherits latlab's environment.
    pub fn new(program: impl Into<PathBuf>, lab: &str) -> Self {
        let label = (LAB_VARIABLE.into(), lab.into());
        let inherited = std::env::vars_os().filter(|(key, _)| key != LAB_VARIABLE);
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: inherited.chain([label]).collect(),
            directory: None,
            netns: None,
            root: None,
            cgroup: None,
            cgroup_namespace: false,
            descriptors: Vec::new(),
            executable: Executable::Path,
            confinement: Confinement::default(),
            session: false,
            tied: false,
        }
    }

    pub fn executable(mut self, executable: Executable<'a>) -> Self {
        self.executable = executable;
        self
    }

    /// Has it give up what it is not to have.
    pub fn confine(mut self, confinement: Confinement<'a>) -> Self {
        self.confinement = confinement;
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets a variable of its environment. The label cannot be overwritten.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        if key != LAB_VARIABLE {
            self.environment.retain(|(present, _)| present != key);
            self.environment.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    /// Leaves out latlab's own environment; to be followed by what it shall have instead.
    pub fn clean_environment(mut self) -> Self {
        self.environment.retain(|(key, _)| key == LAB_VARIABLE);
        self
    }

    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    pub fn netns(mut self, netns: BorrowedFd<'a>) -> Self {
        self.netns = Some(netns);
        self
    }

    /// Starts it with this root directory; the program and the directory are looked up there. To be
    /// called on a thread of [`inside::in_namespaces_of`](super::inside::in_namespaces_of), since
    /// a process cannot change its own process namespace.
    pub fn root(mut self, root: Root<'a>) -> Self {
        self.root = Some(root);
        self
    }

    pub fn cgroup(mut self, cgroup: &'a CgroupEntry) -> Self {
        self.cgroup = Some(cgroup);
        self
    }

    /// Gives it a cgroup namespace of its own, of which its cgroups are the roots (cgroup_namespaces(7)).
    pub fn cgroup_namespace(mut self) -> Self {
        self.cgroup_namespace = true;
        self
    }

    /// Hands `descriptor` down as number `target`; 0, 1 and 2 are the standard streams.
    pub fn descriptor(mut self, descriptor: BorrowedFd<'a>, target: RawFd) -> Self {
        self.descriptors.push((descriptor, target));
        self
    }

    /// Makes it the leader of a new session, so that no terminal's signals reach it.
    pub fn session(mut self) -> Self {
        self.session = true;
        self
    }

    /// Keeps it tied to the *thread* that starts it: when that ends, it is killed. For tools whose end is waited for.
    pub fn tied(mut self) -> Self {
        self.tied = true;
        self
    }

    /// Starts it. Returns when the program is running in its place, or says what failed.
    pub fn start(&self) -> Result<Process, Error> {
        self.start_with(&[])
    }

    fn start_with(&self, streams: &[(BorrowedFd<'_>, RawFd)]) -> Result<Process, Error> {
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(Error::of("open", "/dev/null"))?;
        let (report_in, report_out) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Error::of("make", "a pipe"))?;
        let mut child = self.prepare(streams, null.as_fd(), report_out.as_fd())?;
        let cgroup = self.cgroup.and_then(CgroupEntry::unified);
        let started = vfork::start(&mut child, cgroup.map(|group| group.as_raw_fd()));
        let (pid, pidfd) = started.map_err(Error::of("start", self.program.display()))?;
        // The child's copy must be the only one, so that its exec ends our read.
        drop(report_out);
        let mut report = [0; 5];
        let failed = File::from(report_in).read_exact(&mut report).is_ok();
        let process = Process::with_pidfd(pid, pidfd)?;
        if failed {
            if let Some(process) = process {
                process.wait(Duration::from_secs(1))?;
                process.collect()?;
            }
            let action = STEPS
                .get(usize::from(report[0]))
                .copied()
                .unwrap_or("start");
            let errno = i32::from_ne_bytes([report[1], report[2], report[3], report[4]]);
            let source = io::Error::from_raw_os_error(errno);
            let object = match &self.directory {
                Some(directory) if action == CHANGE_DIRECTORY => directory,
                _ => &self.program,
            };
            return Err(Error::of(action, object.display())(source));
        }
        // Our own child, not collected yet: /proc shows it even if it has ended already.
        process.ok_or_else(|| {
            let reason = "it vanished as it was started";
            Error::because(
                "start",
                self.program.display(),
                io::ErrorKind::Other,
                reason,
            )
        })
    }

    /// Runs it to its end with `input` as its standard input; kills it after `timeout`. Input and
    /// output are kept in memory files, so no order of reading and writing can block.
    pub fn run(self, input: &[u8], timeout: Duration) -> Result<Output, Error> {
        self.tied().run_apart(input, timeout, |_| ())
    }

    /// As [`run`](Self::run), for a tool that goes on when this process is killed: it must not stop half-way. `begun`
    /// is told its process.
    pub fn run_apart(
        self,
        input: &[u8],
        timeout: Duration,
        begun: impl FnOnce(&Process),
    ) -> Result<Output, Error> {
        let name = self.program.display().to_string();
        let memory = || {
            let file = rustix::fs::memfd_create("latlab", MemfdFlags::CLOEXEC);
            file.map(File::from)
                .map_err(Error::of("make a memory file for", &name))
        };
        let (mut stdin, mut stdout, mut stderr) = (memory()?, memory()?, memory()?);
        let written = stdin.write_all(input).and_then(|()| stdin.rewind());
        written.map_err(Error::of("write the input of", &name))?;
        let streams = [(stdin.as_fd(), 0), (stdout.as_fd(), 1), (stderr.as_fd(), 2)];
        let process = self.start_with(&streams)?;
        begun(&process);
        if !process.wait(timeout)? {
            process.signal(Signal::KILL)?;
            process.wait(Duration::from_secs(5))?;
            process.collect()?;
            let reason = format!("no end after {} s", timeout.as_secs_f64());
            return Err(Error::because("run", name, io::ErrorKind::TimedOut, reason));
        }
        let exit = process.collect()?.unwrap_or(Exit::Code(-1));
        let mut output = Output {
            exit,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        for (file, into) in [
            (&mut stdout, &mut output.stdout),
            (&mut stderr, &mut output.stderr),
        ] {
            let read = file.rewind().and_then(|()| file.read_to_end(into));
            read.map_err(Error::of("read the output of", &name))?;
        }
        Ok(output)
    }

    /// Everything the child needs, laid out so that it has nothing left to allocate.
    fn prepare(
        &self,
        streams: &[(BorrowedFd<'_>, RawFd)],
        null: BorrowedFd<'_>,
        report: BorrowedFd<'_>,
    ) -> Result<Child<'a>, Error> {
        let given = self.descriptors.iter().chain(streams);
        let mut moves: Vec<_> = given.map(|(from, to)| (from.as_raw_fd(), *to)).collect();
        for standard in 0..3 {
            if moves.iter().all(|&(_, to)| to != standard) {
                moves.push((null.as_raw_fd(), standard));
            }
        }
        // A launcher is told the number at which it reports, so that has one of its own.
        let report_at = moves.iter().map(|&(_, to)| to + 1).max().unwrap_or(3);
        let (program, file) = match self.executable {
            Executable::Path => (find_program(&self.program)?, None),
            Executable::File(file) | Executable::Launcher(file) => {
                (self.program.clone(), Some(file.as_raw_fd()))
            }
        };
        let directory = self.directory.as_ref();
        Ok(Child {
            parent: getpid(),
            program: self.c_string(program.as_os_str())?,
            arguments: Pointers::new(self.argument_strings(report_at)?),
            environment: Pointers::new(self.environment_strings()?),
            directory: directory
                .map(|path| self.c_string(path.as_os_str()))
                .transpose()?,
            netns: self.netns,
            root: self.root,
            cgroup: self.cgroup,
            cgroup_namespace: self.cgroup_namespace,
            floor: report_at + 1,
            moves,
            report: report.as_raw_fd(),
            listener: self
                .confinement
                .held
                .map_or(-1, |(_, socket)| socket.as_raw_fd()),
            report_at,
            file,
            launches: matches!(self.executable, Executable::Launcher(_)),
            confinement: self.confinement,
            session: self.session,
            tied: self.tied,
        })
    }

    /// The words of the command line; those of the launcher come first.
    fn argument_strings(&self, report_at: RawFd) -> Result<Vec<CString>, Error> {
        let mut words: Vec<OsString> = Vec::new();
        if let Executable::Launcher(_) = self.executable {
            words.extend(["latlab-agent", "launch"].map(OsString::from));
            words.extend([report_at.to_string().into(), EXECUTE.to_string().into()]);
        }
        words.push(self.program.clone().into_os_string());
        words.extend(self.arguments.iter().cloned());
        words.iter().map(|word| self.c_string(word)).collect()
    }

    fn environment_strings(&self) -> Result<Vec<CString>, Error> {
        let variables = self.environment.iter().map(|(key, value)| {
            let mut variable = key.clone();
            variable.push("=");
            variable.push(value);
            self.c_string(&variable)
        });
        variables.collect()
    }

    fn c_string(&self, text: &OsStr) -> Result<CString, Error> {
        CString::new(text.as_bytes()).map_err(|_| {
            let reason = format!("{text:?} holds a zero byte");
            let kind = io::ErrorKind::InvalidInput;
            Error::because("start", self.program.display(), kind, reason)
        })
    }
}

/// The file to execute: the program itself if it has a slash, else the first match in `PATH`.
fn find_program(program: &Path) -> Result<PathBuf, Error> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    // A login without /usr/sbin in its PATH is common, and root's tools are there.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(more)
        .map(|directory| directory.join(program));
    let executable = |file: &PathBuf| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    found.into_iter().find(executable).ok_or_else(|| {
        let reason = "not found in PATH";
        Error::because(
            "execute",
            program.display(),
            io::ErrorKind::NotFound,
            reason,
        )
    })
}

/// Has a tool that is no lab's end when the thread that starts it does, however that ends: killed, it could
/// not see to that itself.
pub fn end_with_us(tool: &mut Command) -> &mut Command {
    let parent = getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before it asked. In another process namespace we cannot be seen.
        match getppid() {
            Some(now) if now != parent => Err(Errno::SRCH.into()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { tool.pre_exec(tie) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Spawn<'static> {
        Spawn::new("sh", "test-spawn").args(["-c", script])
    }

    #[test]
    fn a_tool_gets_input_and_gives_output_status_and_label() {
        let script = "cat; echo \"$LATLAB_LAB $X\" >&2; exit 3";
        let output = shell(script)
            .env("X", "1")
            .env("X", "2")
            .env(LAB_VARIABLE, "forged");
        let output = output.run(b"input", TIMEOUT).unwrap();
        assert_eq!(output.exit, Exit::Code(3));
        assert_eq!(output.stdout, b"input");
        assert_eq!(output.stderr, b"test-spawn 2\n");
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_block() {
        let output = shell("head -c 1000000 /dev/zero")
            .run(b"", TIMEOUT)
            .unwrap();
        assert_eq!(output.stdout.len(), 1_000_000);
    }

    #[test]
    fn a_tool_that_hangs_is_killed() {
        let error = shell("exec sleep 60")
            .run(b"", Duration::from_millis(50))
            .unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_failed_step_of_the_child_is_reported() {
        let error = Spawn::new("/no/such/program", "x").start().unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT));
        assert!(
            error
                .to_string()
                .starts_with("cannot execute /no/such/program: "),
            "{error}"
        );
        let error = shell("true").directory("/no/such/dir").start().unwrap_err();
        assert!(
            error.to_string().starts_with("cannot enter directory "),
            "{error}"
        );
        let error = Spawn::new("no-such-program", "x").start().unwrap_err();
        assert!(error.to_string().contains("not found in PATH"), "{error}");
    }

    #[test]
    fn descriptors_can_be_exchanged() {
        let file = |text: &str| {
            let mut file = File::from(rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC).unwrap());
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            file
        };
        let (a, b) = (file("a"), file("b"));
        // Each goes to the number the other has here.
        let (to_a, to_b) = (b.as_raw_fd(), a.as_raw_fd());
        // Not `<&`: a shell may take numbers of one digit only.
        let script = format!("cat /proc/self/fd/{to_a} /proc/self/fd/{to_b}");
        let spawn = shell(&script)
            .descriptor(a.as_fd(), to_a)
            .descriptor(b.as_fd(), to_b);
        let output = spawn.run(b"", TIMEOUT).unwrap();
        assert_eq!(output.stdout, b"ab");
    }

    #[test]
    fn descriptors_of_the_caller_stay_with_the_caller() {
        let (stray, _) = rustix::pipe::pipe().unwrap();
        let script = format!("test ! -e /proc/self/fd/{}", stray.as_raw_fd());
        let output = shell(&script).run(b"", TIMEOUT).unwrap();
        assert_eq!(output.exit, Exit::Code(0));
    }

    #[test]
    fn a_started_process_outlives_the_thread_that_started_it_unless_tied() {
        let start = |spawn: Spawn<'static>| {
            std::thread::spawn(move || spawn.start().unwrap())
                .join()
                .unwrap()
        };
        let free = start(shell("exec sleep 60"));
        let tied = start(shell("exec sleep 60").tied());
        assert!(tied.wait(TIMEOUT).unwrap());
        assert_eq!(tied.collect().unwrap(), Some(Exit::Signal(libc::SIGKILL)));
        assert!(!free.has_ended().unwrap());
        assert_eq!(super::super::process::stop(&[free], TIMEOUT).unwrap(), []);
    }

    #[test]
    fn threads_that_start_processes_at_once_get_their_own() {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..20 {
                        let said = format!("{thread} {round}");
                        let output =
                            shell(&format!("echo {said}; exit {thread}")).run(b"", TIMEOUT);
                        let output = output.unwrap();
                        assert_eq!(output.exit, Exit::Code(thread));
                        assert_eq!(output.stdout, format!("{said}\n").as_bytes());
                    }
                });
            }
        });
    }

    #[test]
    fn signals_are_blocked_in_neither_process_afterwards() {
        let blocked = |pid: &str| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("SigBlk:"));
            line.unwrap().to_owned()
        };
        let before = blocked("thread-self");
        let process = shell("exec sleep 60").start().unwrap();
        assert_eq!(blocked("thread-self"), before);
        let none = format!("SigBlk:\t{}", "0".repeat(16));
        assert_eq!(blocked(&process.id().pid.to_string()), none);
        super::super::process::stop(&[process], TIMEOUT).unwrap();
    }

    #[test]
    fn a_session_leader_is_its_own_session() {
        let process = shell("exec sleep 60").session().start().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id().pid)).unwrap();
        let session = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(3)
            .unwrap();
        assert_eq!(session, process.id().pid.to_string());
        super::super::process::stop(&[process], TIMEOUT).unwrap();
    }
}
