//! Numbers, lists and verdicts as people read them.

use latlab_model::results::{Cell, Summary, Verdict};

/// A quantity with its interval, the unit once: `22.0 Gbit/s [21.3, 22.7]`.
pub fn with_interval(value: f64, interval: Option<(f64, f64)>, unit: &str) -> String {
    let shown = quantity(value, unit);
    let Some((low, high)) = interval else {
        return shown;
    };
    let size = match units(unit) {
        Some(units) => pick(value, units).1,
        None if unit == "1" => 0.01,
        None => 1.0,
    };
    format!("{shown} [{}, {}]", digits(low / size), digits(high / size))
}

/// A duration with three significant digits and the unit that suits it: `6.46 µs`.
pub fn nanos(ns: f64) -> String {
    quantity(ns, "ns")
}

/// A quantity with its unit: bit rates get decimal prefixes, fractions become percent.
pub fn quantity(value: f64, unit: &str) -> String {
    if let Some(units) = units(unit) {
        let (name, size) = pick(value, units);
        // Rounded before scaling, as the unit was picked.
        return format!("{} {name}", digits(three_digits(value) / size));
    }
    match unit {
        "1" => format!("{} %", digits(value * 100.0)),
        "count" if value.fract() == 0.0 && (0.0..1e15).contains(&value) => count(value as u64),
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
    let rounded = three_digits(value);
    let size = rounded.abs();
    if !(1e-4..1e7).contains(&size) {
        return format!("{rounded:.2e}");
    }
    let places = (2 - libm::log10(size).floor() as i32).clamp(0, 8) as usize;
    format!("{rounded:.places$}")
}

/// A ratio: three significant digits, two below a tenth, where a third tells nothing.
pub fn ratio(value: f64) -> String {
    if value.abs() < 0.1 {
        // Leading zeros would make the narrowest numbers the widest.
        let rounded: f64 = format!("{value:.1e}").parse().unwrap_or(value);
        let text = digits(rounded);
        return text
            .strip_suffix('0')
            .filter(|t| t.contains('.') && !t.contains('e'))
            .unwrap_or(&text)
            .to_owned();
    }
    digits(value)
}

/// A ratio with its interval, where it has one.
pub fn ratio_with_interval(value: f64, ci95: Option<(f64, f64)>) -> String {
    match ci95 {
        Some((low, high)) => format!("{} [{}, {}]", ratio(value), from(low), to(low, high)),
        None => ratio(value),
    }
}

/// The ends of an interval that says next to nothing are not told to three digits.
fn from(low: f64) -> String {
    match low > 0.0 && low < 0.001 {
        true => "<0.001".to_owned(),
        false => ratio(low),
    }
}

fn to(low: f64, high: f64) -> String {
    match low < 1.0 && high > 1000.0 {
        true => ">1000".to_owned(),
        false => ratio(high),
    }
}

pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotProven => "not proven",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "inconclusive",
        Verdict::TooFewReplicates => "too few replicates",
    }
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

/// The units that a quantity may be shown in, with their sizes.
fn units(unit: &str) -> Option<&'static [(&'static str, f64)]> {
    match unit {
        "ns" => Some(&[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]),
        "bit/s" => Some(&[
            ("bit/s", 1.0),
            ("kbit/s", 1e3),
            ("Mbit/s", 1e6),
            ("Gbit/s", 1e9),
        ]),
        "B" => Some(&[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
        ]),
        _ => None,
    }
}

/// The largest unit with at least one before the point, by the rounded value, so that 999.9 ns is 1.00 µs.
fn pick(value: f64, units: &'static [(&'static str, f64)]) -> (&'static str, f64) {
    let fits = |unit: &&(&str, f64)| three_digits(value).abs() >= unit.1;
    *units.iter().rev().find(fits).unwrap_or(&units[0])
}

/// As the page rounds (`toPrecision` of JavaScript): what lies in the middle of two goes up, not to the even one.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let step = 10_f64.powi(libm::log10(value.abs()).floor() as i32 - 2);
    let is_middle = (value / step).fract().abs() == 0.5;
    let value = value
        + if is_middle {
            value.signum() * step * 1e-3
        } else {
            0.0
        };
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// All levels of a cell, in the order of the factors: its label has the baseline's factors only.
pub fn levels(summary: &Summary, cell: &Cell) -> String {
    let factors = summary.factors.iter();
    let levels = factors.filter_map(|factor| cell.levels.get(&factor.name));
    let levels: Vec<&str> = levels.map(String::as_str).collect();
    levels.join(" · ")
}

/// The levels of a cell, with the measurement where there are several.
pub(crate) fn cell_name(summary: &Summary, cell: &Cell) -> String {
    let levels = levels(summary, cell);
    match (&summary.measurements[..], levels.is_empty()) {
        ([_], false) => levels,
        (_, true) => cell.measurement.clone(),
        _ => format!("{} · {levels}", cell.measurement),
    }
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
            (40_250.0, "40.3 µs"),
            (40_249.0, "40.2 µs"),
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
    fn an_interval_that_says_next_to_nothing_is_cut_short() {
        let shown = |ends| ratio_with_interval(1.18, Some(ends));
        assert_eq!(shown((0.9, 1.5)), "1.18 [0.900, 1.50]");
        assert_eq!(shown((7.69e-5, 18_000.0)), "1.18 [<0.001, >1000]");
        assert_eq!(shown((2.0, 1200.0)), "1.18 [2.00, 1200]");
    }

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(quantity(21.6e9, "bit/s"), "21.6 Gbit/s");
        assert_eq!(quantity(0.0125, "1"), "1.25 %");
        assert_eq!(quantity(0.412, "ns/byte"), "0.412 ns/byte");
        assert_eq!(quantity(24.0 * 1_048_576.0, "B"), "24.0 MiB");
        assert_eq!(quantity(-2048.0, "B"), "-2.00 KiB");
        assert_eq!(quantity(17.0, "count"), "17");
        assert_eq!(quantity(1234.0, "count"), "1,234");
        assert_eq!(quantity(0.5, "count"), "0.500");
    }

    #[test]
    fn intervals_share_the_unit_of_their_value() {
        assert_eq!(
            with_interval(6461.0, Some((970.0, 6520.0)), "ns"),
            "6.46 µs [0.970, 6.52]"
        );
        assert_eq!(
            with_interval(0.0125, Some((0.0, 0.02)), "1"),
            "1.25 % [0, 2.00]"
        );
        assert_eq!(
            with_interval(0.4, Some((0.3, 0.5)), "ns/byte"),
            "0.400 ns/byte [0.300, 0.500]"
        );
        assert_eq!(with_interval(2.0, None, "count"), "2");
    }

    #[test]
    fn small_ratios_are_short() {
        assert_eq!(ratio(3.7e-10), "3.70e-10");
        let shown = [57.64, 1.0, 0.9604, 0.08224, 0.0801, 0.00123].map(ratio);
        assert_eq!(shown, ["57.6", "1.00", "0.960", "0.082", "0.080", "0.0012"]);
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
