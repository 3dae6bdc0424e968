//! Names of kernel functions, for timers.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Names of these kernel addresses. The kernel's list has a hundred thousand lines, so it is read once, after
/// the window.
pub(super) fn names(addresses: &BTreeSet<u64>) -> Vec<(u64, String)> {
    let Ok(file) = File::open("/proc/kallsyms") else {
        return Vec::new();
    };
    if addresses.is_empty() {
        return Vec::new();
    }
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| parse(&line))
        .filter(|(address, _)| addresses.contains(address))
        .collect()
}

/// `ffffffff81234560 t tick_nohz_handler [module]`
fn parse(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    // Text symbols only; all addresses are 0 without the privilege to see them.
    (address != 0 && kind.eq_ignore_ascii_case("t")).then(|| (address, name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_and_data_is_not() {
        assert_eq!(
            parse("ffffffff8119 t tick_nohz_handler"),
            Some((0xffff_ffff_8119, "tick_nohz_handler".into()))
        );
        assert_eq!(parse("ffffffff8119 D jiffies"), None);
        assert_eq!(parse("0000000000000000 T hidden"), None);
        assert_eq!(parse(""), None);
    }
}
