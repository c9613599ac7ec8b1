"""The compiled decoder and the slow one agree on all that Kafka wrote, in every column.

The columns that a consumer does not show (lineage) have no other oracle.
"""

from pathlib import Path

import pytest

from brokerless import _native
from support import reference_decoder
from support.kafka_answers import LOG_DIRS

CONSTANT = {"topic", "partition"}
COLUMNS = [column for column in _native.ROW_COLUMNS if column not in CONSTANT]


def decoded(data):
    decoder = _native.Decoder(COLUMNS, start_offset=-(1 << 63))
    found, position = [], 0
    while True:
        chunk, consumed = decoder.decode(memoryview(data)[position:], position)
        if not consumed:
            return found
        position += consumed
        if chunk is not None:
            at = chunk.schema.get_field_index("timestamp")
            found += chunk.set_column(at, "timestamp", chunk["timestamp"].cast("int64")).to_pylist()


def comparable(row):
    headers = [(h["key"], h["value"]) if isinstance(h, dict) else h for h in row["headers"]]
    return {name: headers if name == "headers" else row[name] for name in COLUMNS}


@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_every_segment_of_real_brokers(golden, log_dir):
    for path in sorted((golden / "logs" / log_dir).glob("*/*.log")):
        if path.parent.name in ("crash-zstd-0", "crash-zeros-0", "crash-preallocated-0", "big-record-0"):
            continue  # damage, tails of zeros, and megabytes that the slow decoder is too slow for
        data = Path(path).read_bytes()
        assert list(map(comparable, decoded(data))) == list(map(comparable, reference_decoder.rows(data))), path


def test_crc32c_check_value():
    assert reference_decoder.crc32c(b"123456789") == 0xE3069283
