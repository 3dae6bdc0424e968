//! Quantities with their units in the type, read the way people write them: `256MiB`, `10ms`,
//! `1Gbit`, `0.1%`, `0-3,8`.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitsPerSecond(pub u64);

/// A set of CPUs in the kernel's list form (`0-3,8`).
///
/// Kept as ranges, because a node of a lab may name thousands of CPUs in ten characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(Vec<(u32, u32)>);

const TIME: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("min", 60e9),
];
const SIZE: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
    ("K", 1024.0),
    ("M", 1048576.0),
    ("G", 1073741824.0),
];
const RATE: &[(&str, f64)] = &[
    ("bit", 1.0),
    ("kbit", 1e3),
    ("Kbit", 1e3),
    ("Mbit", 1e6),
    ("Gbit", 1e9),
    ("Tbit", 1e12),
];

/// Splits `12.5ms` into number and unit and scales it; `None` when it is not of that form.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))?;
    let (number, unit) = text.split_at(split);
    let unit = unit.trim();
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let value = number.replace('_', "").parse::<f64>().ok()? * factor;
    (value.is_finite() && value <= LARGEST as f64).then_some(value.round() as u64)
}

/// Largest quantity: beyond any that is meant, and its rounded form is still read back.
const LARGEST: u64 = 1 << 63;

impl Nanos {
    /// Reads `10ms`, `250us`, `2s`.
    pub fn parse(text: &str) -> Option<Nanos> {
        scaled(text, TIME).map(Nanos)
    }
}

impl Bytes {
    /// Reads `256MiB`, `1GB`, or a plain number of bytes.
    pub fn parse(text: &str) -> Option<Bytes> {
        let plain = text.trim().parse().ok().filter(|n| *n <= LARGEST);
        plain.or_else(|| scaled(text, SIZE)).map(Bytes)
    }
}

impl BitsPerSecond {
    /// Reads `1Gbit`, `100Mbit/s`, `10Mbps`.
    pub fn parse(text: &str) -> Option<BitsPerSecond> {
        let text = text.trim();
        let text = text.strip_suffix("/s").unwrap_or(text);
        let bits = text.strip_suffix("bps").map(|t| format!("{t}bit"));
        scaled(bits.as_deref().unwrap_or(text), RATE).map(BitsPerSecond)
    }
}

impl CpuList {
    /// From CPU numbers, in any order.
    pub fn new(cpus: Vec<u32>) -> Self {
        CpuList::joined(cpus.into_iter().map(|c| (c, c)).collect())
    }

    /// From ranges in any order, which may overlap.
    fn joined(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        CpuList(joined)
    }

    /// Reads the kernel's list form. Ranges are bounded, since the text may be hostile.
    pub fn parse(text: &str) -> Option<CpuList> {
        const MAX_CPU: u32 = 8191; // the kernel's own NR_CPUS limit on x86
        let mut ranges = Vec::new();
        let parts = text.trim().split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            if first > last || last > MAX_CPU {
                return None;
            }
            ranges.push((first, last));
        }
        (!ranges.is_empty()).then(|| CpuList::joined(ranges))
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    pub fn len(&self) -> usize {
        self.0
            .iter()
            .map(|(first, last)| (last - first) as usize + 1)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, cpu: u32) -> bool {
        let before = self.0.partition_point(|(first, _)| *first <= cpu);
        before > 0 && cpu <= self.0[before - 1].1
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (first, last) in &self.0 {
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        // A document may say that there are none; a person who writes none made a mistake.
        if text.is_empty() {
            return Ok(CpuList::default());
        }
        CpuList::parse(&text).ok_or_else(|| format!("`{text}` is not a list of CPUs"))
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

/// Writes `value` in the largest unit that leaves it at least 1, with at most two decimals.
fn in_largest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, factor) = units
        .iter()
        .rev()
        .find(|(_, factor)| value >= *factor)
        .unwrap_or(&units[0]);
    let number = format!("{:.2}", value as f64 / *factor as f64);
    write!(
        f,
        "{}{unit}",
        number.trim_end_matches('0').trim_end_matches('.')
    )
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ];
        in_largest(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
        ];
        in_largest(f, self.0, &units)
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("bit", 1),
            ("kbit", 1_000),
            ("Mbit", 1_000_000),
            ("Gbit", 1_000_000_000),
        ];
        in_largest(f, self.0, &units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them() {
        assert_eq!(Nanos::parse("10ms"), Some(Nanos(10_000_000)));
        assert_eq!(Nanos::parse("0.5 us"), Some(Nanos(500)));
        assert_eq!(Bytes::parse("256MiB"), Some(Bytes(256 << 20)));
        assert_eq!(Bytes::parse("1500"), Some(Bytes(1500)));
        assert_eq!(
            BitsPerSecond::parse("1Gbit/s"),
            Some(BitsPerSecond(1_000_000_000))
        );
        assert_eq!(
            BitsPerSecond::parse("10Mbps"),
            Some(BitsPerSecond(10_000_000))
        );
        for bad in [
            "",
            "ms",
            "10",
            "-1ms",
            "1e3ms",
            "10 parsecs",
            "1..2s",
            "10ms/s",
            "10msps",
        ] {
            assert_eq!(Nanos::parse(bad), None, "{bad}");
        }
        assert_eq!(Bytes::parse("1MB/s"), None);
        // Found by fuzzing: rounding made it larger than what is read.
        let largest = Bytes::parse("9223372036854775807").unwrap();
        assert_eq!(largest.to_string(), "8589934592GiB");
        assert!(Bytes::parse("8589934592GiB").is_some());
        for beyond in ["18446744073709551615", "17179869184GiB"] {
            assert_eq!(Bytes::parse(beyond), None, "{beyond}");
        }
    }

    #[test]
    fn cpu_lists_go_both_ways() {
        for (text, normal) in [
            ("0-3,8", "0-3,8"),
            ("3,1,2", "1-3"),
            ("5", "5"),
            ("0,2", "0,2"),
        ] {
            assert_eq!(CpuList::parse(text).unwrap().to_string(), normal);
        }
        for bad in ["", "3-1", "a", "0-99999999", "1-2-3"] {
            assert_eq!(CpuList::parse(bad), None, "{bad}");
        }
        let list = CpuList::parse("8,0-3,2-5").unwrap();
        assert_eq!((list.to_string(), list.len()), ("0-5,8".into(), 7));
        assert_eq!(list, CpuList::new(list.iter().collect()));
        let inside: Vec<bool> = (5..10).map(|c| list.contains(c)).collect();
        assert_eq!(inside, [true, false, false, true, false]);
    }

    #[test]
    fn quantities_are_shown_in_the_largest_fitting_unit() {
        assert_eq!(Nanos(1_500_000).to_string(), "1.5ms");
        assert_eq!(Bytes(256 << 20).to_string(), "256MiB");
        assert_eq!(BitsPerSecond(10_000_000_000).to_string(), "10Gbit");
        assert_eq!(Nanos(0).to_string(), "0ns");
    }
}
