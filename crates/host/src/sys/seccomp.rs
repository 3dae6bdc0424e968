//! The system calls that programs of a container may make: a seccomp filter (seccomp(2)).
//!
//! Its answers are those of Docker's and Podman's default profiles: calls that programs need are allowed by name, all
//! others fail with EPERM. Those profiles refuse as well: kernel modules, BPF, performance counters, io_uring,
//! keyrings, userfaultfd, file handles, mounts and new namespaces, the machine's clock, swap, quotas and log. Calls
//! newer than the list fail with ENOSYS, so that C libraries fall back to older ones.
//!
//! Three differences: memory policies are allowed, because measured programs place their memory.
//! Pushing input into a terminal (TIOCSTI, CVE-2017-5226) is not, because a command at a terminal
//! shares it with the caller's shell. Programs for 32-bit CPUs are killed.
//!
//! The filter is made here and not by the runtime: commands are started without the runtime, and
//! both the first process and they get the same one.

use std::ffi::{c_long, c_ulong};
use std::io;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    sock_filter,
};

use super::calls::{self, GRANTED, NEWEST};
use super::error::checked;

#[derive(Debug, Clone)]
pub struct Filter(Vec<sock_filter>);

/// Offsets in `struct seccomp_data`; of arguments the lower half, on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
pub(super) const ARGUMENTS: u32 = 16;
const _: () = assert!(cfg!(target_endian = "little"));

/// `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

/// The flags of `clone(2)` for new namespaces.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// CAP_SYS_ADMIN, with which namespaces may be made.
const SYS_ADMIN: u32 = 21;

/// `personality(2)`: Linux, with or without UNAME26, 32-bit addresses, and the question.
const PERSONALITIES: [u32; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// `ioctl(2)` requests that put input into a terminal or change the console.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

pub(super) fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

pub(super) fn answer(action: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, action)
}

/// Goes on with the next instruction if the test holds, else skips `otherwise` of them.
pub(super) fn unless(test: u32, k: u32, otherwise: usize) -> sock_filter {
    sock_filter {
        jf: u8::try_from(otherwise).expect("short jumps only"),
        ..statement(BPF_JMP | test | BPF_K, k)
    }
}

/// The begin of a program: calls of other architectures are answered, and the number of a native one is loaded.
pub(super) fn for_native(foreign: u32) -> Vec<sock_filter> {
    vec![
        load(ARCHITECTURE),
        sock_filter {
            jt: 1,
            ..unless(BPF_JEQ, NATIVE, 0)
        },
        answer(foreign),
        load(NUMBER),
    ]
}

/// The instructions for `call`: those of `body`, which end with an answer.
pub(super) fn rule(program: &mut Vec<sock_filter>, call: i64, body: &[sock_filter]) {
    program.push(unless(BPF_JEQ, call as u32, body.len()));
    program.extend_from_slice(body);
}

/// `call` is answered by the lower half of one argument: `special` for `values`, else `other`.
pub(super) fn by_argument(
    program: &mut Vec<sock_filter>,
    call: i64,
    argument: u32,
    values: &[u32],
    (special, other): (u32, u32),
) {
    let mut body = vec![load(ARGUMENTS + 8 * argument)];
    for value in values {
        body.push(unless(BPF_JEQ, *value, 1));
        body.push(answer(special));
    }
    body.push(answer(other));
    rule(program, call, &body);
}

/// A program in the kernel's own form.
pub(super) fn bytes(program: &[sock_filter]) -> Vec<u8> {
    let instruction = |i: &sock_filter| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&i.code.to_ne_bytes());
        bytes[2..4].copy_from_slice(&[i.jt, i.jf]);
        bytes[4..].copy_from_slice(&i.k.to_ne_bytes());
        bytes
    };
    program.iter().flat_map(instruction).collect()
}

/// Puts the calling thread, and what it starts, under a filter, for good. Makes one system call and allocates nothing.
/// Kernels before 5.16 would switch speculation off together with it, and slow down what is measured.
pub(super) fn install(program: &[sock_filter], flags: c_ulong) -> c_long {
    let flags = flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies `len` instructions from a live slice and writes nothing.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    }
}

impl Filter {
    /// The filter for programs that have these capabilities, by number: a capability is worth
    /// nothing without the calls it is for.
    pub fn new(capabilities: &[u32]) -> Self {
        let granted = GRANTED
            .iter()
            .filter(|(capability, _)| capabilities.contains(capability))
            .flat_map(|(_, calls)| calls.iter().copied());
        let mut allowed: Vec<u32> = calls::allowed().chain(granted).map(|c| c as u32).collect();
        allowed.sort_unstable();
        allowed.dedup();

        let mut program = for_native(KILL);
        if !capabilities.contains(&SYS_ADMIN) {
            let no_new = [
                load(ARGUMENTS),
                unless(BPF_JSET, NEW_NAMESPACES, 1),
                answer(REFUSE),
                answer(ALLOW),
            ];
            rule(&mut program, libc::SYS_clone, &no_new);
            // Its flags are in memory, which a filter cannot read; C libraries fall back to clone.
            rule(&mut program, libc::SYS_clone3, &[answer(UNKNOWN)]);
        }
        let vsock = [libc::AF_VSOCK as u32];
        by_argument(&mut program, libc::SYS_socket, 0, &vsock, (REFUSE, ALLOW));
        by_argument(
            &mut program,
            libc::SYS_personality,
            0,
            &PERSONALITIES,
            (ALLOW, REFUSE),
        );
        by_argument(
            &mut program,
            libc::SYS_ioctl,
            1,
            &[TIOCSTI, TIOCLINUX],
            (REFUSE, ALLOW),
        );
        for (first, last) in ranges(&allowed) {
            program.extend([
                sock_filter {
                    jt: 3,
                    ..unless(BPF_JGT, last, 0)
                },
                unless(BPF_JGE, first, 1),
                answer(ALLOW),
                answer(REFUSE),
            ]);
        }
        program.push(unless(BPF_JGT, NEWEST, 1));
        program.push(answer(UNKNOWN));
        program.push(answer(REFUSE));
        Self(program)
    }

    pub fn bytes(&self) -> Vec<u8> {
        bytes(&self.0)
    }

    /// As [`install`]. The calling thread must have given up new privileges.
    pub(super) fn install(&self) -> io::Result<()> {
        checked(install(&self.0, 0))
    }
}

/// Sorted numbers as ranges, first and last.
fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's evaluation: the filter's answer to a call.
    fn ask(filter: &Filter, architecture: u32, call: i64, arguments: [u64; 2]) -> u32 {
        let mut data = [0u32; 16];
        data[0] = call as u32;
        data[1] = architecture;
        for (at, argument) in arguments.iter().enumerate() {
            data[4 + 2 * at] = *argument as u32;
            data[5 + 2 * at] = (argument >> 32) as u32;
        }
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let i = filter.0[at];
            at += 1;
            let code = u32::from(i.code);
            let holds = match code & 0xf0 {
                _ if code & 7 == BPF_RET => return i.k,
                _ if code & 7 == BPF_LD => {
                    accumulator = data[i.k as usize / 4];
                    continue;
                }
                BPF_JEQ => accumulator == i.k,
                BPF_JGT => accumulator > i.k,
                BPF_JGE => accumulator >= i.k,
                BPF_JSET => accumulator & i.k != 0,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { i.jt } else { i.jf });
        }
    }

    fn answers(filter: &Filter, call: i64, first: u64, second: u64) -> u32 {
        ask(filter, NATIVE, call, [first, second])
    }

    #[test]
    fn every_allowed_call_is_allowed_and_the_others_of_the_kernel_are_not() {
        let filter = Filter::new(&[]);
        let conditional = [
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_socket,
            libc::SYS_personality,
            libc::SYS_ioctl,
        ];
        for call in 0..i64::from(NEWEST) + 40 {
            if conditional.contains(&call) {
                continue;
            }
            let expected = match calls::allowed().any(|allowed| allowed == call) {
                true => ALLOW,
                false if call > i64::from(NEWEST) => UNKNOWN,
                false => REFUSE,
            };
            assert_eq!(answers(&filter, call, 0, 0), expected, "call {call}");
        }
    }

    #[test]
    fn arguments_decide_where_they_make_the_difference() {
        let filter = Filter::new(&[]);
        let fork = libc::SIGCHLD as u64;
        assert_eq!(answers(&filter, libc::SYS_clone, fork, 0), ALLOW);
        let user = libc::CLONE_NEWUSER as u64 | fork;
        assert_eq!(answers(&filter, libc::SYS_clone, user, 0), REFUSE);
        assert_eq!(answers(&filter, libc::SYS_clone3, 0, 0), UNKNOWN);
        let admin = Filter::new(&[SYS_ADMIN]);
        assert_eq!(answers(&admin, libc::SYS_clone, user, 0), ALLOW);
        assert_eq!(answers(&admin, libc::SYS_mount, 0, 0), ALLOW);
        let socket = |family: i32| answers(&filter, libc::SYS_socket, family as u64, 0);
        assert_eq!(socket(libc::AF_INET), ALLOW);
        assert_eq!(socket(libc::AF_VSOCK), REFUSE);
        assert_eq!(
            answers(&filter, libc::SYS_personality, 0xffff_ffff, 0),
            ALLOW
        );
        assert_eq!(
            answers(&filter, libc::SYS_personality, 0x40_0000, 0),
            REFUSE
        );
        // The kernel looks at the lower half of a request only (CVE-2019-10063).
        for high in [0, 1 << 32] {
            let request = high | u64::from(TIOCSTI);
            assert_eq!(answers(&filter, libc::SYS_ioctl, 0, request), REFUSE);
        }
        assert_eq!(answers(&filter, libc::SYS_ioctl, 0, 0x5401), ALLOW);
    }

    #[test]
    fn other_architectures_are_killed_and_other_numberings_do_not_exist() {
        let filter = Filter::new(&[]);
        const I386: u32 = 0x4000_0003;
        assert_eq!(ask(&filter, I386, libc::SYS_read, [0; 2]), KILL);
        // x32: the same architecture, with a bit in the number.
        let x32 = 0x4000_0000 | libc::SYS_read;
        assert_eq!(answers(&filter, x32, 0, 0), UNKNOWN);
    }

    #[test]
    fn a_filter_is_shorter_than_the_kernels_limit() {
        let all: Vec<u32> = (0..41).collect();
        assert!(Filter::new(&all).0.len() < libc::BPF_MAXINSNS as usize);
        assert_eq!(Filter::new(&[]).bytes().len() % 8, 0);
    }
}
