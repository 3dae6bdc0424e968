//! Parses timestamps as the documents write them (RFC 3339). A run has a handful of them and needs no
//! calendar library.

/// Seconds since 1970-01-01T00:00:00Z; `None` when the text is not a time.
pub(crate) fn unix_seconds(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let (clock, offset) = split_offset(rest)?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut clock = clock.splitn(3, ':');
    let hour: i64 = clock.next()?.parse().ok()?;
    let minute: i64 = clock.next()?.parse().ok()?;
    let second: f64 = clock.next()?.parse().ok()?;
    let sound = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..61.0).contains(&second);
    if !sound {
        return None;
    }
    let whole = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 - offset;
    Some(whole as f64 + second)
}

/// Takes `Z` or `+01:30` off the end; the offset in seconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = text.rfind(['+', '-'])?;
    let (clock, offset) = text.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':')?;
    let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
    let seconds = i64::from(hours) * 3_600 + i64::from(minutes) * 60;
    Some((
        clock,
        if offset.starts_with('-') {
            -seconds
        } else {
            seconds
        },
    ))
}

/// Days since 1970-01-01 in the Gregorian calendar (Hinnant, "chrono-compatible low-level date
/// algorithms": years begin in March, so that the leap day is the last).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::unix_seconds;

    #[test]
    fn known_moments() {
        // date -u -d … +%s
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(
            unix_seconds("2024-02-29T12:34:56.5Z"),
            Some(1_709_210_096.5)
        );
        assert_eq!(
            unix_seconds("2026-12-31T23:59:59+01:30"),
            Some(1_798_756_199.0)
        );
        assert_eq!(
            unix_seconds("2000-03-01T00:00:00-05:00"),
            Some(951_886_800.0)
        );
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in [
            "",
            "yesterday",
            "2024-01-01",
            "2024-13-01T00:00:00Z",
            "2024-01-01T25:00:00Z",
            "2024-01-01T00:00:00",
            "999999999999999999-01-01T00:00:00Z",
            "2024-01-01T00:00:00+1",
            "2024-01-01T00:00:00+9999999999999999:00",
            "-T:Z",
            "2024-01-01T00:00:é",
        ] {
            assert_eq!(unix_seconds(text), None, "{text:?}");
        }
    }
}
