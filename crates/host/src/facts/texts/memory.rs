//! Memory: its amounts, the use of huge pages, and sizes of caches.

use std::collections::BTreeMap;

/// Bytes by name from `/proc/meminfo`, or from a memory node's, whose lines begin `Node 0`.
///
/// Most lines are in kB; the few that count (`HugePages_Total`) have no unit and are returned as they are.
pub fn meminfo(text: &str) -> BTreeMap<&str, u64> {
    let line = |line| -> Option<(&str, u64)> {
        let (name, value) = str::split_once(line, ':')?;
        let name = name.rsplit(' ').next()?;
        let mut words = value.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        let factor = if words.next() == Some("kB") { 1024 } else { 1 };
        Some((name, number.checked_mul(factor)?))
    };
    text.lines().filter_map(line).collect()
}

/// The chosen one of a list such as `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Bytes from a cache's size file: `32K`, `16M`.
pub fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_counts_as_they_are() {
        let text = "MemTotal:       24684096 kB\nMemAvailable:   24199572 kB\n\
            HugePages_Total:       7\nHugepagesize:       2048 kB\nDirectMap1G: x kB\nodd\n";
        let memory = meminfo(text);
        assert_eq!(memory["MemTotal"], 24_684_096 << 10);
        assert_eq!(memory["HugePages_Total"], 7);
        assert_eq!(memory["Hugepagesize"], 2 << 20);
        assert!(!memory.contains_key("DirectMap1G"));
        assert_eq!(
            meminfo("Node 1 MemTotal:  131072 kB\n")["MemTotal"],
            1 << 27
        );
        assert!(meminfo("Big: 18446744073709551615 kB").is_empty());
    }

    #[test]
    fn the_chosen_one_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(chosen("]x["), None);
    }

    #[test]
    fn cache_sizes_have_units() {
        assert_eq!(cache_size("32K\n"), Some(32 << 10));
        assert_eq!(cache_size("260M"), Some(260 << 20));
        for bad in [
            "",
            "K",
            "1T",
            "99999999999999999999K",
            "18446744073709551615G",
        ] {
            assert_eq!(cache_size(bad), None, "{bad}");
        }
    }
}
