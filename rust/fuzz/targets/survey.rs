//! Fuzz targets of surveys of damage, and of reads of one split.

use std::sync::Arc;

use brokerless_core::{
    Columns, Criterion, DecodeOptions, Defect, Header, Part, Search, SearchedPart, SegmentFiles,
    Split, SplitReader, Step, Survey, SurveyedSegment, Test, TextTest, crc32c,
};

use super::MAX_BATCH_BYTES;

/// The checksum of the bytes decides whether the segment ends at a limit or is the last one, and which parts of it are
/// checked.
fn segment(data: &[u8]) -> SurveyedSegment {
    let options = crc32c(data);
    let limit = i64::from(options >> 4 & 15) * 16;
    SurveyedSegment {
        base_offset: 0,
        following_offset: (options & 1 != 0).then_some(limit),
        limit_offset: (options & 2 != 0).then_some(limit),
        end: data.len() as u64,
        check_crcs: options & 4 != 0,
        is_clean: options & 8 != 0,
    }
}

/// Parts lie in the file, runs follow each other, and no defect ends before it starts.
pub(crate) fn survey(data: &[u8]) {
    let segment = segment(data);
    let Ok(found) = Survey::of(&data, segment) else {
        return;
    };
    let (mut end, mut next_offset) = (0, segment.base_offset);
    for part in found.parts {
        match part {
            Part::Run(run) => {
                assert!(end <= run.position && run.position < run.end_position);
                assert!(run.end_position <= segment.end);
                assert!(next_offset <= run.first_offset && run.first_offset < run.next_offset);
                (end, next_offset) = (run.end_position, run.next_offset);
            }
            Part::Defect(defect) => {
                assert!(defect.position <= segment.end);
                assert!(
                    defect
                        .end_offset
                        .is_none_or(|end| defect.start_offset <= end)
                );
            }
        }
    }
}

struct NoIndex;

impl SegmentFiles for NoIndex {
    type Error = std::convert::Infallible;

    fn cut_short(&self, _: i64) -> Result<Option<Defect>, Self::Error> {
        Ok(None)
    }
}

/// The result of a read.
#[derive(Debug, PartialEq)]
struct Rows {
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    keys: Vec<Option<Vec<u8>>>,
    /// Headers of batches, each with the number of its rows.
    batches: Vec<(Header, usize)>,
}

impl Rows {
    /// The rows, each with the header of its batch.
    fn each(&self) -> impl Iterator<Item = (&Header, i64, i64)> {
        let headers = self.batches.iter();
        let headers = headers.flat_map(|(header, rows)| std::iter::repeat_n(header, *rows));
        let rows = self.offsets.iter().zip(&self.timestamps);
        headers
            .zip(rows)
            .map(|(header, row)| (header, *row.0, *row.1))
    }

    /// Returns true if the headers describe the records correctly. A checksum cannot show that.
    fn have_true_headers(&self) -> bool {
        self.offsets.is_sorted_by(|a, b| a < b)
            && self.each().all(|(header, offset, timestamp)| {
                let is_inside = (header.base_offset..=header.last_offset()).contains(&offset);
                header.magic < 2 || is_inside && timestamp <= header.max_timestamp
            })
    }
}

/// Reads all rows; None if some are lost or damaged.
fn read(data: &[u8], split: &Split, options: DecodeOptions) -> Option<Rows> {
    let mut reader = SplitReader::new(split.clone(), Some(data), true, NoIndex, options).ok()?;
    let mut read = Rows {
        offsets: Vec::new(),
        timestamps: Vec::new(),
        keys: Vec::new(),
        batches: Vec::new(),
    };
    let mut is_sound = true;
    while let Some(step) = reader.step().ok()? {
        let Step::Rows = step else {
            is_sound = false;
            continue;
        };
        let columns = reader.columns();
        assert!(columns.rows() > 0);
        read.offsets.extend(columns.offsets.iter().flatten());
        read.timestamps.extend(columns.timestamps.iter().flatten());
        let keys = columns.keys.iter();
        read.keys.extend(
            keys.flat_map(|keys| (0..columns.rows()).map(|row| keys.get(row).map(<[u8]>::to_vec))),
        );
        for batch in &columns.batches {
            match read.batches.last_mut() {
                // A large batch comes in parts.
                Some((last, rows)) if last.position == batch.header.position => *rows += batch.rows,
                _ => read.batches.push((batch.header, batch.rows)),
            }
        }
        columns.reuse();
    }
    is_sound.then_some(read)
}

/// A read ends. If the headers describe the records correctly, rows made from headers alone equal the rows of the
/// records, a minimum timestamp leaves out only rows below it, and a search for a key finds the rows that have it.
pub(crate) fn split(data: &[u8]) {
    let segment = segment(data);
    let range = crc32c(data) >> 8;
    let start_offset = i64::from(range & 31);
    let split = Split {
        end_position: segment.end,
        start_offset,
        end_offset: match range >> 5 & 63 {
            length if length < 48 => start_offset + i64::from(length),
            _ => i64::MAX,
        },
        limit_offset: segment.limit_offset,
        following_offset: segment.following_offset,
        file_size: segment.following_offset.map(|_| segment.end),
        skips: segment.is_clean,
        ends_segment: true,
        ..Split::default()
    };
    let options = |columns, by_headers, min_timestamp| DecodeOptions {
        columns,
        check_crcs: segment.check_crcs,
        chunk: (1000, 64 << 10),
        max_batch_bytes: MAX_BATCH_BYTES,
        by_headers,
        min_timestamp,
        search: None,
    };
    let columns = || {
        let mut columns = Columns::default();
        columns.offsets = Some(Vec::new());
        columns.timestamps = Some(Vec::new());
        columns.keys = Some(Default::default());
        columns.headers = Some(Default::default());
        columns
    };
    let of_all = Split {
        start_offset: i64::MIN,
        end_offset: i64::MAX,
        ..split.clone()
    };
    let all = read(data, &of_all, options(columns(), false, i64::MIN));
    let whole = read(data, &split, options(columns(), false, i64::MIN));
    let mut offsets = Columns::default();
    offsets.offsets = Some(Vec::new());
    let by_headers = read(data, &split, options(offsets, true, i64::MIN));
    let counted = read(data, &split, options(Columns::default(), true, i64::MIN));
    if !all.is_some_and(|all| all.have_true_headers()) {
        return;
    }
    let whole = whole.unwrap();
    let (by_headers, counted) = (by_headers.unwrap(), counted.unwrap());
    assert_eq!(by_headers.offsets, whole.offsets);
    assert_eq!(by_headers.batches, whole.batches);
    assert_eq!(counted.batches, whole.batches);

    let Some(&least) = whole.timestamps.get(whole.timestamps.len() / 2) else {
        return;
    };
    let late = read(data, &split, options(columns(), true, least)).unwrap();
    let wanted = |rows: &Rows| -> Vec<i64> {
        let late = rows.each().filter(|&(_, _, timestamp)| timestamp >= least);
        late.map(|(_, offset, _)| offset).collect()
    };
    assert_eq!(wanted(&late), wanted(&whole));

    let Some(Some(key)) = whole.keys.get(whole.keys.len() / 2) else {
        return;
    };
    let test = TextTest {
        texts: vec![key.clone()],
        is_whole: true,
        ..TextTest::default()
    };
    let criterion = Criterion::new(SearchedPart::Key, Test::Texts(test)).unwrap();
    let search = Search::new(vec![criterion], false, Vec::new());
    let searching = DecodeOptions {
        search: Some(Arc::new(search)),
        ..options(columns(), false, i64::MIN)
    };
    let found = read(data, &split, searching).unwrap();
    let has_key = |(_, of_row): &(&i64, &Option<Vec<u8>>)| of_row.as_ref() == Some(key);
    let rows = whole.offsets.iter().zip(&whole.keys);
    let expected: Vec<i64> = rows.filter(has_key).map(|(offset, _)| *offset).collect();
    assert_eq!(found.offsets, expected);
}
