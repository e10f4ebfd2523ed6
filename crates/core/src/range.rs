//! Ranges of numbers that a user may give: checked, and said in words.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A range in words: "from 1 to 5".
pub fn from_to<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("from {} to {}", range.start(), range.end())
}

/// Refuses a value out of its range. The message names the key, the value and the range. `unit`:
/// that of the numbers, if they have one.
pub fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(format!("`{key}` = {value}: must be {}{space}{unit}", from_to(&range)))
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn a_range_holds_its_ends_and_the_message_says_them() {
        assert_eq!(within("flows", 1, 1..=5, ""), Ok(()));
        assert_eq!(within("flows", 5, 1..=5, ""), Ok(()));
        assert_eq!(within("flows", 6, 1..=5, "").unwrap_err(), "`flows` = 6: must be from 1 to 5");
        let nan = within("snr_db", f64::NAN, -50.0..=150.0, "dB");
        assert_eq!(nan.unwrap_err(), "`snr_db` = NaN: must be from -50 to 150 dB");
    }
}
