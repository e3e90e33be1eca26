//! Times as ISO 8601 text.

/// Milliseconds since the Unix epoch as `YYYY-MM-DDTHH:MM:SS.mmmZ`; none outside the years 0 to 9999,
/// which that form cannot write.
pub fn iso8601(ms: i64) -> Option<String> {
    const DAY: i64 = 86_400_000;
    let (days, in_day) = (ms.div_euclid(DAY), ms.rem_euclid(DAY));
    // Days to a civil date by 400-year eras that begin on 1 March (Howard Hinnant, `civil_from_days`).
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1_000 % 60, in_day % 1_000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
}

#[cfg(test)]
mod tests {
    use super::iso8601;

    #[test]
    fn times_before_and_after_the_epoch() {
        let text = |ms| iso8601(ms).unwrap_or_default();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(text(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(text(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(text(253_402_300_800_000), "");
        assert_eq!(text(-62_167_219_200_000), "0000-01-01T00:00:00.000Z");
        assert_eq!(text(-9_007_199_254_740_991), "");
    }
}
