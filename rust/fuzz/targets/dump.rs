//! Fuzz targets of dumps: text and JSON of logs, and of control records.

use brokerless_core::{
    BytesFormat, ControlType, Error, Json, JsonDump, LogDump, Result, control_type,
    coordinator_epoch, crc32c, java_utf8,
};

use super::MAX_BATCH_BYTES;

/// The output is valid text in whole lines, and does not depend on the windows.
pub(crate) fn dump(data: &[u8]) {
    for (deep, print, skip) in [
        (false, false, false),
        (true, true, false),
        (true, true, true),
    ] {
        let new = || LogDump::new(deep, print, skip, MAX_BATCH_BYTES);
        let (mut dump, mut windowed) = (new(), new());
        let whole = lines(data, data.len().max(1), |b, p, out| dump.feed(b, p, out));
        let parts = lines(data, 100, |b, p, out| windowed.feed(b, p, out));
        assert_eq!(parts, whole);
        assert_eq!(dump.gaps(), windowed.gaps());
    }
    for format in [BytesFormat::Utf8, BytesFormat::Base64, BytesFormat::Hex] {
        let mut dump = JsonDump::new(true, format, MAX_BATCH_BYTES);
        lines(data, data.len().max(1), |b, p, out| {
            let start = out.len();
            let consumed = dump.feed(b, p, out)?;
            let text = std::str::from_utf8(&out[start..]).unwrap();
            assert!(text.split_inclusive('\n').all(is_one_object));
            Ok(consumed)
        });
    }
}

/// The number of lines and a checksum of them all, and the error at the end.
fn lines(
    data: &[u8],
    window: usize,
    mut feed: impl FnMut(&[u8], u64, &mut Vec<u8>) -> Result<usize>,
) -> (usize, u32, Option<Error>) {
    let (mut count, mut checksum) = (0, 0u32);
    let (mut out, mut position, mut size) = (Vec::new(), 0, window);
    while position < data.len() {
        let end = data.len().min(position + size);
        out.clear();
        match feed(&data[position..end], position as u64, &mut out) {
            Ok(0) if out.is_empty() && end == data.len() => break,
            Ok(0) if out.is_empty() => size *= 2,
            // No progress: the next call returns the error.
            Ok(0) => {}
            Ok(consumed) => {
                position += consumed;
                size = window;
            }
            Err(error) => return (count, checksum, Some(error)),
        }
        let text = std::str::from_utf8(&out).unwrap();
        for line in text.split_inclusive('\n') {
            assert!(line.ends_with('\n'));
            count += 1;
            checksum = checksum.rotate_left(1) ^ crc32c(line.as_bytes());
        }
    }
    (count, checksum, None)
}

/// Brackets balance outside strings, and strings end.
fn is_one_object(line: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            0..0x20 if in_string => return false,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'\n' => return depth == 0 && at + 1 == line.len(),
            _ => {}
        }
    }
    false
}

/// Control values parse or fail, and the output is valid text.
pub(crate) fn control(data: &[u8]) {
    let _ = (control_type(data), coordinator_epoch(data));
    for control_type in [
        ControlType::LeaderChange,
        ControlType::SnapshotHeader,
        ControlType::SnapshotFooter,
        ControlType::KRaftVersion,
        ControlType::KRaftVoters,
    ] {
        let mut out = Vec::new();
        if control_type
            .value_json(data, &mut Json::new(&mut out))
            .is_ok()
        {
            out.push(b'\n');
            assert!(is_one_object(std::str::from_utf8(&out).unwrap()));
        }
    }
    let text = java_utf8(data);
    assert_eq!(
        matches!(text, std::borrow::Cow::Borrowed(_)),
        std::str::from_utf8(data).is_ok()
    );
    assert!(text.chars().count() <= data.len());
}
