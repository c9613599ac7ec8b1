"""Whether a record with damaged headers is read does not depend on the columns that are asked for."""

import pytest

import brokerless as bl
from support.damaged_headers import COUNT, DAMAGED, SOUND, write_log

COLUMNS = [
    None,
    ["offset"],
    ["timestamp"],
    ["partition"],
    ["key"],
    ["value"],
    ["headers"],
    ["key", "producerId", "sequence"],
]


@pytest.mark.parametrize("headers", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_a_record_with_damaged_headers_is_refused_whatever_is_asked_for(tmp_path, columns, headers):
    """Without the column `headers`, such records were rows."""
    write_log(tmp_path / "t-0", headers)
    log = bl.Log(tmp_path / "t-0")
    for start in (0, 4):
        with pytest.raises(bl.errors.CorruptRecordError, match=r"record 1 of 3 at .*\(base_offset 2\)"):
            log.to_table(columns=columns, start_offset=start)
    with pytest.raises(bl.errors.CorruptRecordError, match="record 1 of 3"):
        log.to_table(columns=columns, end_offset=3)
    with pytest.raises(bl.errors.CorruptRecordError, match="record 1 of 3"):
        log.to_table(columns=columns, limit=4)
    assert log.to_table(columns=columns, limit=2).num_rows == 2
    reader = log.read(columns=columns, on_corrupt="skip")
    assert sum(rows.num_rows for rows in reader) == 3
    assert [(lost.start_offset, lost.end_offset) for lost in reader.lost] == [(2, 5)]


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_sound_headers_are_no_damage(tmp_path, columns):
    write_log(tmp_path / "t-0", SOUND)
    assert bl.Log(tmp_path / "t-0").to_table(columns=columns).num_rows == COUNT
