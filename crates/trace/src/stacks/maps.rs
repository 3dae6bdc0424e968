//! The executable mappings of a process (proc_pid_maps(5)).

/// A mapping with code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Its begin in the file.
    pub offset: u64,
    /// The file's device and inode; the same for all mappings of a file.
    pub file: (String, u64),
    /// The file's path as the process sees it, or a name in brackets.
    pub path: String,
}

impl Mapping {
    /// `7f00-7f10 r-xp 00001000 fd:01 4711   /usr/lib/libc.so.6`
    fn parse(line: &str) -> Option<Mapping> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let offset = words.next()?;
        let device = words.next()?.to_string();
        let inode = words.next()?.parse().ok()?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mapping = Mapping {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            file: (device, inode),
            path: words.next().unwrap_or_default().trim().to_string(),
        };
        (is_code && mapping.start < mapping.end).then_some(mapping)
    }

    pub fn is_vdso(&self) -> bool {
        self.path == "[vdso]"
    }

    /// The last part of the path, in brackets: how code without a symbol is named.
    pub fn name(&self) -> String {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let last = last.trim_start_matches('[').trim_end_matches(']');
        match last {
            "" => "[unknown]".into(),
            last => format!("[{last}]"),
        }
    }
}

/// Mappings with code, in the order of their addresses; none of a process that has ended.
pub fn of(process: u32) -> Vec<Mapping> {
    let bytes = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(Mapping::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_read_and_data_is_not() {
        let code = "7f00-7f10 r-xp 00001000 fd:01 4711                  /usr/lib/a b.so (deleted)";
        let expected = Mapping {
            start: 0x7f00,
            end: 0x7f10,
            offset: 0x1000,
            file: ("fd:01".into(), 4711),
            path: "/usr/lib/a b.so (deleted)".into(),
        };
        assert_eq!(Mapping::parse(code), Some(expected.clone()));
        assert_eq!(expected.name(), "[a b.so (deleted)]");
        let vdso = Mapping::parse("7f00-7f10 r-xp 00000000 00:00 0    [vdso]").unwrap();
        assert!(vdso.is_vdso());
        assert_eq!(vdso.name(), "[vdso]");
        let nameless = Mapping::parse("7f00-7f10 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!(nameless.name(), "[unknown]");
        for other in [
            "7f00-7f10 rw-p 00001000 fd:01 4711 /usr/lib/a.so",
            "7f10-7f00 r-xp 00001000 fd:01 4711 /usr/lib/a.so",
            "7f00-7f10",
            "",
        ] {
            assert_eq!(Mapping::parse(other), None, "{other}");
        }
    }
}
