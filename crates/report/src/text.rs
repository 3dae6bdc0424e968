//! Numbers and lists as people read them.

/// A duration with three significant digits and the unit that suits it: `6.46 µs`.
pub fn nanos(ns: f64) -> String {
    scaled(ns, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// A quantity with its unit: bit rates get decimal prefixes, fractions become percent.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" => nanos(value),
        "bit/s" => scaled(
            value,
            &[
                ("bit/s", 1.0),
                ("kbit/s", 1e3),
                ("Mbit/s", 1e6),
                ("Gbit/s", 1e9),
            ],
        ),
        "1" => format!("{} %", digits(value * 100.0)),
        "count" => digits(value),
        other => format!("{} {other}", digits(value)),
    }
}

/// Three significant digits, without an exponent in the range people write that way.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rounded first, so that 9.999 becomes 10.0 and not 10.00.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let size = rounded.abs();
    if !(1e-4..1e7).contains(&size) {
        return format!("{rounded:.2e}");
    }
    let places = (2 - libm::log10(size).floor() as i32).clamp(0, 8) as usize;
    format!("{rounded:.places$}")
}

/// A whole number in groups of three: `1,000,000`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 trial`, `2 trials`.
pub fn plural(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{} {noun}s", count(number as u64))
    }
}

/// The first few of a list, and how many more there are.
pub fn some_of<S: AsRef<str>>(items: &[S]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = items.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let rest = items.len().saturating_sub(SHOWN);
    let shown = shown.join(", ");
    if rest == 0 {
        shown
    } else {
        format!("{shown} and {rest} more")
    }
}

/// A percentile's usual name: `p50`, `p99.9`.
pub fn percentile(p: f64) -> String {
    // 99.9 and 99.99 are not exact in binary; six decimals are more than any table has.
    let hundred = format!("{:.6}", p * 100.0);
    format!("p{}", hundred.trim_end_matches('0').trim_end_matches('.'))
}

fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    // Compared after rounding to three digits, so that 999.9 ns is 1.00 µs.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let fits = |unit: &&(&str, f64)| rounded.abs() >= unit.1;
    let (name, size) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{} {name}", digits(rounded / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_unit_where_they_round_up() {
        let cases = [
            (0.0, "0 ns"),
            (0.4, "0.400 ns"),
            (34.0, "34.0 ns"),
            (999.4, "999 ns"),
            (999.9, "1.00 µs"),
            (6461.0, "6.46 µs"),
            (1_234_567.0, "1.23 ms"),
            (12.3e9, "12.3 s"),
            (-1500.0, "-1.50 µs"),
        ];
        for (ns, expected) in cases {
            assert_eq!(nanos(ns), expected);
        }
    }

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(quantity(21.6e9, "bit/s"), "21.6 Gbit/s");
        assert_eq!(quantity(0.0125, "1"), "1.25 %");
        assert_eq!(quantity(0.412, "ns/byte"), "0.412 ns/byte");
        assert_eq!(quantity(17.0, "count"), "17.0");
    }

    #[test]
    fn counts_and_lists() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)].join(" "),
            "0 999 1,000 1,234,567"
        );
        assert_eq!(some_of(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(plural(1, "trial"), "1 trial");
        assert_eq!(plural(1200, "trial"), "1,200 trials");
    }

    #[test]
    fn percentiles_by_their_usual_names() {
        let names: Vec<String> = latlab_model::results::QUANTILES
            .iter()
            .map(|&p| percentile(p))
            .collect();
        let expected = [
            "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999",
        ];
        assert_eq!(names, expected);
    }
}
