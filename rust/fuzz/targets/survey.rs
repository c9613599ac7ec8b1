use brokerless_core::{
    Columns, DecodeOptions, Missing, Part, SegmentFiles, Split, SplitReader, Step, Survey,
    SurveyedSegment,
};

use super::MAX_BATCH_BYTES;

/// The segment ends at a limit, or is the last one: by the first byte.
fn segment(data: &[u8]) -> (SurveyedSegment, &[u8]) {
    let (options, data) = data.split_first().unwrap_or((&0, data));
    let limit = i64::from(options >> 4) * 16;
    let segment = SurveyedSegment {
        base_offset: 0,
        following_offset: (options & 1 != 0).then_some(limit),
        limit_offset: (options & 2 != 0).then_some(limit),
        end: data.len() as u64,
        check_crcs: options & 4 != 0,
        is_clean: options & 8 != 0,
    };
    (segment, data)
}

/// Parts lie in the file, runs follow each other, and no finding ends before it starts.
pub(crate) fn survey(data: &[u8]) {
    let (segment, data) = segment(data);
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
            Part::Finding(finding) => {
                assert!(finding.position <= segment.end);
                assert!(
                    finding
                        .end_offset
                        .is_none_or(|end| finding.start_offset <= end)
                );
            }
        }
    }
}

struct NoIndex;

impl SegmentFiles for NoIndex {
    type Error = std::convert::Infallible;

    fn cut_short(&self, _: i64) -> Result<Option<Missing>, Self::Error> {
        Ok(None)
    }
}

/// A read ends, and the offsets of its rows rise from chunk to chunk.
pub(crate) fn split(data: &[u8]) {
    let (segment, data) = segment(data);
    let split = Split {
        end_position: segment.end,
        end_offset: i64::MAX,
        limit_offset: segment.limit_offset,
        following_offset: segment.following_offset,
        file_size: segment.following_offset.map(|_| segment.end),
        skips: segment.is_clean,
        ends_segment: true,
        ..Split::default()
    };
    let mut columns = Columns::default();
    columns.offsets = Some(Vec::new());
    columns.keys = Some(Default::default());
    columns.headers = Some(Default::default());
    let options = DecodeOptions {
        columns,
        check_crcs: segment.check_crcs,
        chunk: (1000, 64 << 10),
        max_batch_bytes: MAX_BATCH_BYTES,
        by_headers: false,
        min_timestamp: i64::MIN,
    };
    let Ok(mut reader) = SplitReader::new(split, Some(data), true, NoIndex, options) else {
        return;
    };
    while let Ok(Some(step)) = reader.step() {
        if let Step::Rows = step {
            assert!(reader.columns().rows() > 0);
            reader.columns().clear();
        }
    }
}
