//! The numbers of the kernel's BPF objects (bpf(2), BPF_PROG_GET_NEXT_ID and BPF_MAP_GET_NEXT_ID).

#![allow(unsafe_code)]

/// Numbers of `bpf`'s commands (include/uapi/linux/bpf.h).
pub const PROGRAMS: i32 = 11;
pub const MAPS: i32 = 12;

/// How many of these there are on the machine.
pub fn count(command: i32) -> usize {
    let mut last = 0;
    std::iter::from_fn(|| {
        // `start_id`, `next_id`, `open_flags`
        let mut attributes = [last, 0_u32, 0];
        // SAFETY: the command reads and writes the three words that it is given, with their length.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                attributes.as_mut_ptr(),
                size_of_val(&attributes),
            )
        };
        last = attributes[1];
        (result == 0).then_some(last)
    })
    .count()
}
