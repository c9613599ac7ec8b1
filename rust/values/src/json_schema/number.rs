//! Numbers of JSON text, which have any number of digits.

/// The most digits of an integer that each double holds.
const EXACT_DIGITS: usize = 15;

/// The integer that a number is. It may have a fraction of zeros, or an exponent.
pub(super) fn integer(text: &str) -> Option<i64> {
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let (digits, zeros) = digits_and_zeros(text)?;
    if digits.is_empty() || digits == "-" {
        return Some(0);
    }
    let factor = 10_i64.checked_pow(u32::try_from(zeros).ok()?)?;
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

/// The digits of a number up to its last one that is no zero, and the number of zeros that follow them before the point.
/// A number with a fraction has less than none.
fn digits_and_zeros(text: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0').len();
    if matches!(digits.get(..kept), Some("" | "-")) {
        digits.truncate(kept);
        return Some((digits, 0));
    }
    let surplus = i64::try_from(digits.len() - kept).ok()?;
    digits.truncate(kept);
    let point = i64::try_from(fraction.len()).ok()?;
    let exponent: i64 = exponent.parse().ok()?;
    Some((digits, exponent.checked_add(surplus)?.checked_sub(point)?))
}

/// The double next to a number. An integer that it is not, such as an id of 64 bits, is none; but zeros may stand for the
/// last digits of a double, as JavaScript writes it.
pub(super) fn double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let is_exact = text.len() <= EXACT_DIGITS || value.fract() != 0.0 || is_integer(text, value);
    (value.is_finite() && is_exact).then_some(value)
}

/// False if a number is an integer, and a double without a fraction is not this one.
#[cold]
fn is_integer(text: &str, value: f64) -> bool {
    let Some((digits, zeros)) = digits_and_zeros(text) else {
        return true;
    };
    // A number that has a fraction is rounded. No double has more zeros.
    let Some(zeros) = usize::try_from(zeros).ok().filter(|&zeros| zeros < 400) else {
        return true;
    };
    let digits = digits.trim_start_matches('-').trim_start_matches('0');
    let written = format!("{digits}{}", "0".repeat(zeros));
    let value = value.abs();
    digits.is_empty() || [value.to_string(), format!("{value:.0}")].contains(&written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_in_each_form() {
        for (text, value) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("7.0", Some(7)),
            ("-12.500e1", Some(-125)),
            ("1e18", Some(10_i64.pow(18))),
            ("0.00e99999999999999999999", Some(0)),
            ("9007199254740993.0", Some((1 << 53) + 1)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("922337203685477580700E-2", Some(i64::MAX)),
            ("0.0000000000000000001e19", Some(1)),
            ("9223372036854775808", None),
            ("1e19", None),
            ("1e99999999999999999999", None),
            ("1e9223372036854775807", None),
            ("1e-9223372036854775808", None),
            ("0.99999999999999999999", None),
            ("15e-1", None),
        ] {
            assert_eq!(integer(text), value, "{text}");
        }
        let long = format!("1{}e-{}", "0".repeat(100_000), 100_000);
        assert_eq!(integer(&long), Some(1));
    }

    #[test]
    fn a_double_has_all_digits_of_an_integer() {
        for (text, value) in [
            ("9007199254740992", Some(9_007_199_254_740_992.0)),
            ("9007199254740993", None),
            ("-9007199254740993", None),
            // As JavaScript and as Python write them.
            ("12345678901234567000", Some(12_345_678_901_234_567_000.0)),
            ("12345678901234567168", Some(12_345_678_901_234_567_000.0)),
            ("12345678901234567001", None),
            ("99999999999999991611392", Some(1e23)),
            ("0.1234567890123456789", Some(0.123_456_789_012_345_68)),
            ("9007199254740993.0", None),
            ("-9007199254740993e0", None),
            ("900719925474099.3e1", None),
            ("123456789012345678901234567890.0", None),
            ("9007199254740992.000", Some(9_007_199_254_740_992.0)),
            ("12345678901234567.89", Some(12_345_678_901_234_568.0)),
            (
                "1.2345678901234567e+20",
                Some(123_456_789_012_345_670_000.0),
            ),
            ("000000000000000000.0e5", Some(0.0)),
            ("1e23", Some(1e23)),
            ("1.7976931348623157e+308", Some(f64::MAX)),
            ("1e400", None),
            ("-1E+2", Some(-100.0)),
        ] {
            assert_eq!(double(text), value, "{text}");
        }
        assert!(double("-0").is_some_and(f64::is_sign_negative));
    }
}
