//! Command-line options, by hand.
//!
//! The probes are started by latlab, seldom by people, and live in a small static binary: a parser of a hundred lines
//! serves them better than a library that is larger than they are. Every option takes a value, as `--name VALUE` or
//! `--name=VALUE`; whatever a probe does not ask for is refused by name.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::error::{Error, Result};

#[derive(Debug)]
pub struct Options {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Options> {
        let mut given: Vec<(String, String)> = Vec::new();
        let mut args = args.map(|arg| {
            arg.into_string()
                .map_err(|arg| Error::Usage(format!("argument {arg:?} is not UTF-8")))
        });
        while let Some(arg) = args.next().transpose()? {
            let Some(option) = arg.strip_prefix("--").filter(|option| !option.is_empty()) else {
                return Err(Error::Usage(format!("expected an option, found `{arg}`")));
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => match args.next().transpose()? {
                    Some(value) => (option.to_owned(), value),
                    None => return Err(Error::Usage(format!("--{option} needs a value"))),
                },
            };
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Error::Usage(format!("--{name} is given twice")));
            }
            given.push((name, value));
        }
        Ok(Options {
            given,
            known: Vec::new(),
        })
    }

    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.given.iter().position(|(given, _)| given == name)?;
        Some(self.given.swap_remove(at).1)
    }

    /// Takes an option; `what` describes the values it accepts.
    pub fn value<T: FromStr>(&mut self, name: &'static str, what: &str) -> Result<Option<T>> {
        self.text(name)
            .map(|text| text.parse().map_err(|_| bad(name, &text, what)))
            .transpose()
    }

    pub fn required<T: FromStr>(&mut self, name: &'static str, what: &str) -> Result<T> {
        self.value(name, what)?
            .ok_or_else(|| Error::Usage(format!("--{name} is missing: {what}")))
    }

    /// Takes a whole number within bounds.
    pub fn number(&mut self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>> {
        let what = format!("a whole number from {min} to {max}");
        match self.value(name, &what)? {
            Some(number) if !(min..=max).contains(&number) => {
                Err(bad(name, &number.to_string(), &what))
            }
            number => Ok(number),
        }
    }

    /// Takes a time in milliseconds and gives it in nanoseconds.
    pub fn millis_as_ns(&mut self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>> {
        Ok(self
            .number(name, min, max)?
            .map(|millis| millis * 1_000_000))
    }

    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                Err(bad(name, &text, &format!("one of {}", words.join(", "))))
            }
        }
    }

    /// Takes an address with a port, which must be there.
    pub fn address(&mut self, name: &'static str) -> Result<SocketAddr> {
        self.required(name, "ADDR:PORT, or [ADDR]:PORT for IPv6")
    }

    /// To be called when everything was taken: whatever is left is a mistake.
    pub fn finish(self, probe: &str) -> Result<()> {
        match self.given.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::Usage(format!(
                "{probe} has no option --{name}; it has --{}",
                self.known.join(", --"),
            ))),
        }
    }
}

fn bad(name: &str, text: &str, what: &str) -> Error {
    Error::Usage(format!("--{name} {text}: expected {what}"))
}

/// A list of CPUs as the kernel writes them: `0,2-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

impl CpuList {
    /// Largest CPU number that a CPU mask of the C library has room for.
    const MAX: u32 = 1023;
}

impl FromStr for CpuList {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<CpuList, ()> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (
                first.parse().map_err(|_| ())?,
                last.parse().map_err(|_| ())?,
            );
            if first > last || last > CpuList::MAX {
                return Err(());
            }
            cpus.extend(first..=last);
        }
        Ok(CpuList(cpus))
    }
}

/// An Ethernet address as `ip link` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetAddress(pub [u8; 6]);

impl FromStr for EthernetAddress {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<EthernetAddress, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        match parts.next() {
            None => Ok(EthernetAddress(bytes)),
            Some(_) => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Options> {
        Options::parse(args.iter().map(OsString::from))
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn both_spellings_give_the_value() {
        let mut given = options(&["--count", "5", "--rate=10"]).unwrap();
        assert_eq!(given.number("count", 1, 9).unwrap(), Some(5));
        assert_eq!(given.number("rate", 1, 99).unwrap(), Some(10));
        assert_eq!(given.number("bytes", 1, 99).unwrap(), None);
        given.finish("source").unwrap();
    }

    #[test]
    fn mistakes_name_the_option() {
        assert_eq!(message(options(&["5"])), "expected an option, found `5`");
        assert_eq!(message(options(&["--count"])), "--count needs a value");
        assert_eq!(
            message(options(&["--a", "1", "--a=2"])),
            "--a is given twice"
        );
        let mut given = options(&["--count", "0", "--rate", "x", "--poll", "y", "--z=1"]).unwrap();
        assert_eq!(
            message(given.number("count", 1, 9)),
            "--count 0: expected a whole number from 1 to 9",
        );
        assert_eq!(
            message(given.number("rate", 1, 9)),
            "--rate x: expected a whole number from 1 to 9",
        );
        assert_eq!(
            message(given.choice("poll", &[("block", 1), ("busy", 2)])),
            "--poll y: expected one of block, busy",
        );
        assert!(message(given.address("bind")).starts_with("--bind is missing: ADDR:PORT"));
        assert_eq!(
            message(given.finish("source")),
            "source has no option --z; it has --count, --rate, --poll, --bind",
        );
    }

    #[test]
    fn cpu_lists_read_as_the_kernel_writes_them() {
        assert_eq!("0,2-4".parse(), Ok(CpuList(vec![0, 2, 3, 4])));
        for wrong in ["", "a", "3-1", "1024", "0,", "0-4294967295"] {
            assert_eq!(wrong.parse::<CpuList>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn an_ethernet_address_has_six_bytes() {
        let read = |text: &str| text.parse::<EthernetAddress>();
        let address = EthernetAddress([0xde, 0x50, 0x21, 0xc4, 0x03, 0x0a]);
        assert_eq!(read("de:50:21:c4:03:0a"), Ok(address));
        for wrong in [
            "",
            "de:50:21:c4:03",
            "de:50:21:c4:03:0a:01",
            "de:50:21:c4:03:100",
        ] {
            assert_eq!(read(wrong), Err(()), "{wrong}");
        }
    }
}
