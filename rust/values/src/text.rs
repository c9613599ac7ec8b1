//! Numbers, dates and times as text.

use std::fmt::Write as _;

const DAY_SECONDS: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

/// Appends an integer of any size, in two's complement and big-endian, as decimal text with `scale` digits after the
/// point.
pub fn decimal(bytes: &[u8], scale: u32, out: &mut String) {
    let is_negative = bytes.first().is_some_and(|&byte| byte >= 0x80);
    let mut digits = unsigned(&magnitude(bytes, is_negative));
    let scale = scale as usize;
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    if is_negative {
        out.push('-');
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.push_str(whole);
    if scale > 0 {
        out.push('.');
        out.push_str(fraction);
    }
}

/// The number of decimal digits of an integer in two's complement and big-endian.
pub(crate) fn digits(bytes: &[u8]) -> usize {
    let is_negative = bytes.first().is_some_and(|&byte| byte >= 0x80);
    unsigned(&magnitude(bytes, is_negative)).len()
}

/// The absolute value of an integer, as 32-bit limbs, the highest first.
fn magnitude(bytes: &[u8], is_negative: bool) -> Vec<u32> {
    let fill = if is_negative { 0xff } else { 0 };
    let mut limbs: Vec<u32> = bytes
        .rchunks(4)
        .rev()
        .map(|chunk| {
            let mut limb = [fill; 4];
            let start = 4 - chunk.len();
            if let Some(tail) = limb.get_mut(start..) {
                tail.copy_from_slice(chunk);
            }
            u32::from_be_bytes(limb)
        })
        .collect();
    if is_negative {
        let mut carry = true;
        for limb in limbs.iter_mut().rev() {
            (*limb, carry) = (!*limb).overflowing_add(u32::from(carry));
        }
        // The lowest number of a length has no positive counterpart of that length.
        if carry {
            limbs.insert(0, 1);
        }
    }
    limbs
}

/// The decimal digits of an integer in 32-bit limbs, without leading zeros; "0" for zero.
fn unsigned(limbs: &[u32]) -> String {
    const GROUP: u64 = 1_000_000_000;
    let mut limbs = limbs.to_vec();
    let mut groups = Vec::new();
    while limbs.iter().any(|&limb| limb != 0) {
        let mut remainder = 0;
        for limb in &mut limbs {
            let value = (remainder << 32) | u64::from(*limb);
            *limb = (value / GROUP) as u32;
            remainder = value % GROUP;
        }
        groups.push(remainder);
    }
    let mut text = groups.pop().unwrap_or(0).to_string();
    for group in groups.iter().rev() {
        let _ = write!(text, "{group:09}");
    }
    text
}

/// Appends a day since 1970 as ISO 8601: `2024-05-01`. Years beyond 9999 have a sign, and at least five digits.
pub fn date(day: i64, out: &mut String) {
    let (year, month, day) = civil(day);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+06}-{month:02}-{day:02}"),
    };
}

/// Appends a time of a day: `12:33:01.832000`.
pub fn time(value: i64, unit: Unit, out: &mut String) {
    let (seconds, fraction) = unit.split(value);
    // A time outside of a day is not valid, and is shown as what it is.
    let (hours, seconds) = (seconds.div_euclid(3600), seconds.rem_euclid(3600));
    let _ = write!(out, "{hours:02}:{:02}:{:02}", seconds / 60, seconds % 60);
    unit.fraction(fraction, out);
}

/// Appends a point in time: `1980-06-03T06:02:34.692000`.
pub fn timestamp(value: i64, unit: Unit, out: &mut String) {
    let (seconds, fraction) = unit.split(value);
    date(seconds.div_euclid(DAY_SECONDS), out);
    let second = seconds.rem_euclid(DAY_SECONDS);
    let _ = write!(
        out,
        "T{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    unit.fraction(fraction, out);
}

/// Appends a point in time as Protobuf does, in UTC: `1972-01-01T10:00:20.021Z`. Nanoseconds beyond a second are
/// carried.
pub(crate) fn instant(seconds: i64, nanos: i32, out: &mut String) {
    let nanos = i64::from(nanos);
    let seconds = seconds.saturating_add(nanos.div_euclid(NANOS));
    date(seconds.div_euclid(DAY_SECONDS), out);
    let second = seconds.rem_euclid(DAY_SECONDS);
    let _ = write!(
        out,
        "T{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    short_fraction(nanos.rem_euclid(NANOS), out);
    out.push('Z');
}

/// Appends a span of time as Protobuf does: `-1.500s`. Nanoseconds beyond a second are carried.
pub fn duration(seconds: i64, nanos: i32, out: &mut String) {
    let total = i128::from(seconds) * i128::from(NANOS) + i128::from(nanos);
    if total < 0 {
        out.push('-');
    }
    let total = total.unsigned_abs();
    let second = u128::from(NANOS.unsigned_abs());
    let _ = write!(out, "{}", total / second);
    short_fraction((total % second) as i64, out);
    out.push('s');
}

/// Appends the fraction of a second with three, six or nine digits, or with none.
fn short_fraction(nanos: i64, out: &mut String) {
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// The text of a UUID.
pub fn uuid(bytes: [u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default());
    parts.join("-")
}

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a second.
    Millis,
    /// Millionths.
    Micros,
    /// Billionths.
    Nanos,
}

impl Unit {
    fn in_second(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }

    /// True for a time from midnight on and before the next midnight.
    pub(crate) fn is_of_day(self, value: i64) -> bool {
        (0..DAY_SECONDS * self.in_second()).contains(&value)
    }

    /// The whole seconds of a time, and the nanoseconds of the rest.
    pub fn seconds_and_nanos(self, value: i64) -> (i64, i32) {
        let (seconds, rest) = self.split(value);
        (seconds, (rest * (NANOS / self.in_second())) as i32)
    }

    /// The time of seconds and nanoseconds. None if it is no whole number of this unit, or is beyond 64 bits.
    pub(crate) fn of(self, seconds: i64, nanos: i32) -> Option<i64> {
        let step = NANOS / self.in_second();
        let nanos = i64::from(nanos);
        let whole = i128::from(seconds) * i128::from(self.in_second()) + i128::from(nanos / step);
        i64::try_from(whole).ok().filter(|_| nanos % step == 0)
    }

    fn split(self, value: i64) -> (i64, i64) {
        (
            value.div_euclid(self.in_second()),
            value.rem_euclid(self.in_second()),
        )
    }

    /// Appends the fraction of a second: six digits, so that a column has one form; nine of nanoseconds.
    fn fraction(self, fraction: i64, out: &mut String) {
        let _ = match self {
            Self::Millis => write!(out, ".{fraction:03}000"),
            Self::Micros => write!(out, ".{fraction:06}"),
            Self::Nanos => write!(out, ".{fraction:09}"),
        };
    }
}

/// The year, month and day of a day since 1970, in the proleptic Gregorian calendar. Years run from March in between,
/// so that the day of a leap year is the last one; 400 years have 146,097 days.
pub(crate) fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The day since 1970 of a year, month and day: the inverse of [`civil`].
pub(crate) fn days((year, month, day): (i64, i64, i64)) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + of_year;
    146_097 * era + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn decimals_have_all_digits_of_their_scale() {
        for (bytes, scale, text) in [
            (&[][..], 2, "0.00"),
            (&[0x00], 0, "0"),
            (&[0xff], 2, "-0.01"),
            (&[0x80], 0, "-128"),
            (&[0x80, 0, 0, 0], 3, "-2147483.648"),
            (&[0x00, 0x80], 1, "12.8"),
        ] {
            assert_eq!(shown(|out| decimal(bytes, scale, out)), text);
        }
        for value in [-(1_i128 << 100), i128::MAX, i128::MIN, 10_i128.pow(27)] {
            let bytes = value.to_be_bytes();
            assert_eq!(shown(|out| decimal(&bytes, 0, out)), value.to_string());
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (day, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (-719_529, "-00001-12-31"),
        ] {
            assert_eq!(shown(|out| date(day, out)), text);
        }
    }

    #[test]
    fn times_before_1970_go_forward_within_their_second() {
        assert_eq!(
            shown(|out| timestamp(-1, Unit::Millis, out)),
            "1969-12-31T23:59:59.999000"
        );
        assert_eq!(
            shown(|out| timestamp(i64::MIN, Unit::Nanos, out)),
            "1677-09-21T00:12:43.145224192"
        );
        assert_eq!(
            shown(|out| time(45_181_832, Unit::Millis, out)),
            "12:33:01.832000"
        );
    }
}
