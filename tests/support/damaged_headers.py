"""Records whose headers are damaged under a right checksum."""

from brokerless import _native
from support.log_files import batch, write_segment
from support.peak_memory import varint

SOUND = varint(1) + varint(1) + b"h" + varint(1) + b"x"
DAMAGED = {
    "one header too many": varint(2) + SOUND[1:],
    "one header too few": varint(0) + SOUND[1:],
    "a negative count": varint(-1),
    "a key without a length": varint(1) + varint(-1) + varint(-1),
    "a key beyond the record": varint(1) + varint(60) + b"h" + varint(1) + b"x",
    "a value beyond the record": varint(1) + varint(1) + b"h" + varint(60) + b"x",
    "bytes behind the headers": SOUND + b"zz",
}
"""Header count and headers: in records that are long enough for the fast way to take them."""
COUNT = 6


def write_log(directory, headers):
    """Write a log of three batches and `COUNT` records; the record with offset 3, amid a batch, has these headers."""
    damaged = _batch(2, [SOUND, headers, SOUND])
    write_segment(directory, 0, [_batch(0, [SOUND, SOUND]), damaged, _batch(5, [SOUND])])


def _batch(base_offset, headers):
    records = b""
    for delta, tail in enumerate(headers):
        body = b"\0\0" + varint(delta) + varint(1) + b"k" + varint(200) + bytes(200) + tail
        records += varint(len(body)) + body
    head = batch(base_offset, [b""] * len(headers))[:61]
    content = head[21:] + records
    length = (len(content) + 9).to_bytes(4, "big")
    return head[:8] + length + head[12:17] + _native.crc32c(content).to_bytes(4, "big") + content
