//! The programs that can be borrowed.

/// A program that distributions have in versions that are too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Checkpoints of processes. Before 4.2 it dumps no TCP socket on Linux 6.16 and later.
    Criu,
    /// Before 9 it has no `mapped-ram`, and loses memory of busy guests that move under emulation.
    Qemu,
}

impl Tool {
    pub const ALL: [Tool; 2] = [Tool::Criu, Tool::Qemu];

    /// Its name for people, and of its directory in the cache.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::Criu => "criu",
            Tool::Qemu => "qemu",
        }
    }

    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) const fn program(self) -> &'static str {
        match self {
            Tool::Criu => "criu",
            Tool::Qemu => "qemu-system-x86_64",
        }
    }

    /// The oldest version that does.
    pub(super) const fn oldest(self) -> (u32, u32) {
        match self {
            Tool::Criu => (4, 2),
            Tool::Qemu => (9, 0),
        }
    }

    /// Where the program is among the unpacked files.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Tool::Criu => "usr/sbin/criu",
            Tool::Qemu => "usr/bin/qemu-system-x86_64",
        }
    }

    /// Debian's packages of the program itself. The first one's version is the program's.
    pub(super) const fn packages(self) -> &'static [&'static str] {
        match self {
            Tool::Criu => &["criu"],
            Tool::Qemu => &[
                "qemu-system-x86",
                "qemu-system-common",
                "qemu-system-data",
                "seabios",
            ],
        }
    }

    /// Whether it comes with all its libraries, the C library included; otherwise the machine's do.
    pub(super) const fn has_libraries(self) -> bool {
        match self {
            Tool::Criu => true,
            Tool::Qemu => false,
        }
    }

    /// Debian's suite that has it, on a machine of the release with this name.
    pub(super) fn suite(self, release: &str) -> String {
        match self {
            Tool::Criu => "sid".into(),
            Tool::Qemu => format!("{release}-backports"),
        }
    }

    /// Directories of data, below the unpacked files, which it is told.
    pub(super) const fn data(self) -> &'static [&'static str] {
        match self {
            Tool::Criu => &[],
            Tool::Qemu => &["usr/share/qemu", "usr/share/seabios"],
        }
    }
}
