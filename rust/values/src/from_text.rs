//! Decimals, dates and times of text, in the forms that [`crate::text`] writes, and those near them.

use crate::text::{self, Unit};

const DAY_SECONDS: i64 = 86_400;
/// The most digits of a decimal: the time to read them grows with their square.
const MOST_DIGITS: usize = 10_000;

/// The shortest bytes of a decimal, in two's complement and big-endian. None if the text is no decimal, has more than
/// `precision` digits, or has other digits than 0 beyond `scale` digits after the point.
pub(crate) fn decimal(text: &str, precision: usize, scale: u32) -> Option<Vec<u8>> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let scale = scale as usize;
    let kept = fraction.get(..scale).unwrap_or(fraction);
    if fraction
        .get(kept.len()..)?
        .bytes()
        .any(|digit| digit != b'0')
    {
        return None;
    }
    let digits = format!("{whole}{kept:0<scale$}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > precision.min(MOST_DIGITS) {
        return None;
    }
    Some(integer(digits, unsigned.len() < text.len()))
}

/// The shortest bytes of an integer with these digits.
fn integer(digits: &str, is_negative: bool) -> Vec<u8> {
    // The lowest limb first.
    let mut limbs = vec![0_u32];
    for group in digits.as_bytes().chunks(9) {
        let factor = 10_u64.pow(group.len() as u32);
        let mut carry = group.iter().fold(0, |number, digit| {
            number * 10 + u64::from(digit.wrapping_sub(b'0'))
        });
        for limb in &mut limbs {
            let product = u64::from(*limb) * factor + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    // A limb of zeros is room for the sign.
    limbs.push(0);
    if is_negative {
        let mut carry = true;
        for limb in &mut limbs {
            (*limb, carry) = (!*limb).overflowing_add(u32::from(carry));
        }
    }
    let bytes: Vec<u8> = limbs
        .iter()
        .rev()
        .flat_map(|limb| limb.to_be_bytes())
        .collect();
    let surplus = bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .take_while(|&(&first, &second)| first == if second < 0x80 { 0 } else { 0xff })
        .count();
    bytes.get(surplus..).unwrap_or_default().to_vec()
}

/// Extends an integer to a size. None if it has more bytes.
pub(crate) fn sized(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let surplus = size.checked_sub(bytes.len())?;
    let is_negative = bytes.first().is_some_and(|&byte| byte >= 0x80);
    let mut out = vec![if is_negative { 0xff } else { 0 }; surplus];
    out.extend_from_slice(bytes);
    Some(out)
}

/// The days from 1970 to a date.
pub(crate) fn date(text: &str) -> Option<i64> {
    let (rest, day) = text.rsplit_once('-')?;
    let (year, month) = rest.rsplit_once('-')?;
    let digits = year.strip_prefix(['-', '+']).unwrap_or(year);
    if !(4..=9).contains(&digits.len()) || !is_digits(digits) {
        return None;
    }
    let year = year.parse().ok()?;
    let parts = (year, number(month, 2)?, number(day, 2)?);
    let days = text::days(parts);
    (text::civil(days) == parts).then_some(days)
}

/// A time of a day.
pub(crate) fn time(text: &str, unit: Unit) -> Option<i64> {
    let (seconds, nanos) = clock(text)?;
    unit.of(seconds, nanos)
}

/// A point in time: with `Z` or the distance to UTC if it `is_utc`, else without.
pub(crate) fn timestamp(text: &str, unit: Unit, is_utc: bool) -> Option<i64> {
    let (seconds, nanos) = if is_utc { instant(text) } else { local(text) }?;
    unit.of(seconds, nanos)
}

/// The seconds since 1970 and the nanoseconds of a point in time in UTC, or in a zone with a distance to it.
pub(crate) fn instant(text: &str) -> Option<(i64, i32)> {
    if let Some(rest) = text.strip_suffix('Z') {
        return local(rest);
    }
    let (rest, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, zone),
        ("-", zone) => (-1, zone),
        _ => return None,
    };
    let (hours, minutes) = zone.split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let (seconds, nanos) = local(rest)?;
    let is_zone = hours < 24 && minutes < 60;
    is_zone.then_some((seconds - sign * (3600 * hours + 60 * minutes), nanos))
}

fn local(text: &str) -> Option<(i64, i32)> {
    let (day, clock_text) = text.split_once('T')?;
    let (seconds, nanos) = clock(clock_text)?;
    Some((date(day)? * DAY_SECONDS + seconds, nanos))
}

/// The seconds since midnight and the nanoseconds of a time.
fn clock(text: &str) -> Option<(i64, i32)> {
    let (whole, nanos) = with_nanos(text)?;
    let mut parts = whole.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    is_time.then_some((3600 * hour + 60 * minute + second, nanos))
}

/// The seconds and nanoseconds of a span of time, such as `-1.500s`.
pub(crate) fn duration(text: &str) -> Option<(i64, i32)> {
    let (whole, nanos) = with_nanos(text.strip_suffix('s')?)?;
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let seconds = whole.parse().ok().filter(|_| is_digits(digits))?;
    let is_negative = digits.len() < whole.len();
    Some((seconds, if is_negative { -nanos } else { nanos }))
}

/// Divides text at its point, and returns what is before it and the nanoseconds of what is after it.
fn with_nanos(text: &str) -> Option<(&str, i32)> {
    let Some((whole, fraction)) = text.split_once('.') else {
        return Some((text, 0));
    };
    let is_fraction = is_digits(fraction) && fraction.len() <= 9;
    let nanos = format!("{fraction:0<9}").parse().ok();
    Some((whole, nanos.filter(|_| is_fraction)?))
}

/// The bytes of a UUID with all its digits.
pub(crate) fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&one| one != '-').collect();
    let bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    text::uuid(bytes)
        .eq_ignore_ascii_case(text)
        .then_some(bytes)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && is_digits(text);
    text.parse().ok().filter(|_| is_number)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_as_they_are_written() {
        for value in [
            0,
            1,
            -1,
            127,
            128,
            -128,
            -129,
            255,
            256,
            1 << 40,
            i128::MAX,
            i128::MIN,
        ] {
            for scale in [0, 1, 5, 50] {
                let (mut written, mut again) = (String::new(), String::new());
                text::decimal(&value.to_be_bytes(), scale, &mut written);
                let bytes = decimal(&written, 90, scale).unwrap_or_default();
                text::decimal(&bytes, scale, &mut again);
                assert_eq!(again, written);
                assert_eq!(sized(&bytes, 16), Some(value.to_be_bytes().to_vec()));
            }
        }
        assert_eq!(decimal("128", 3, 0), Some(vec![0, 128]));
        assert_eq!(decimal("-128", 3, 0), Some(vec![128]));
        assert_eq!(decimal("-0.00", 3, 2), Some(vec![0]));
        assert_eq!(decimal("1.5", 3, 2), Some(vec![0, 150]));
        assert_eq!(decimal("1.500", 3, 2), Some(vec![0, 150]));
        assert_eq!(sized(&[0, 128], 1), None);
        for wrong in [
            "", "-", "1.", ".5", "+1", "1e2", "1.234", "12.34", "--1", "1 ", "1.2.3", "ä",
        ] {
            assert_eq!(decimal(wrong, 3, 2), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for unit in [Unit::Millis, Unit::Micros, Unit::Nanos] {
            for value in [0, 1, -1, 86_399_999, 951_782_400_000, i64::MAX, i64::MIN] {
                let mut written = String::new();
                text::timestamp(value, unit, &mut written);
                assert_eq!(timestamp(&written, unit, false), Some(value), "{written}");
                written.push('Z');
                assert_eq!(timestamp(&written, unit, true), Some(value), "{written}");
            }
        }
        for day in [
            0,
            -1,
            11_016,
            -719_162,
            2_932_897,
            -719_529,
            i32::MAX.into(),
            i32::MIN.into(),
        ] {
            let mut written = String::new();
            text::date(day, &mut written);
            assert_eq!(date(&written), Some(day), "{written}");
        }
        for (text, value) in [
            ("2024-05-01T12:33:01Z", Some(1_714_566_781_000)),
            ("2024-05-01T14:33:01.5+02:00", Some(1_714_566_781_500)),
            ("2024-05-01T12:33:01.832000000Z", Some(1_714_566_781_832)),
            ("2024-05-01T12:33:01.8321Z", None),
            ("2024-02-30T12:33:01Z", None),
            ("2024-05-01T24:33:01Z", None),
            ("2024-05-01T12:33:01", None),
            ("2024-05-01", None),
            ("99999999999-05-01T12:33:01Z", None),
            ("2024-05-01T12:33:01.Z", None),
            ("2024-05-01T12:33:01+é0:00", None),
        ] {
            assert_eq!(timestamp(text, Unit::Millis, true), value, "{text}");
        }
        assert_eq!(time("23:59:59.999", Unit::Millis), Some(86_399_999));
        assert_eq!(time("23:59:60", Unit::Millis), None);
        assert_eq!(duration("-1.500s"), Some((-1, -500_000_000)));
        assert_eq!(duration("-0.5s"), Some((0, -500_000_000)));
        assert_eq!(duration("+1s"), None);
    }
}
