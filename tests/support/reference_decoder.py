"""The oracle: a slow decoder of message formats 0, 1 and 2, written from the format's description for reading.

`rows(data)` gives every record of every batch in `data`, control records left out, as dicts with the names of our row
columns. It is meant for bytes that Kafka wrote: what is malformed raises AssertionError, LookupError or ValueError.
"""

import struct
import zlib

import pyarrow as pa

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1


def rows(data, check_crcs=True):
    return [row for batch in batches(data) for row in _batch_rows(batch, check_crcs)]


def batches(data):
    """Yield (position, bytes) of each whole entry: 8 bytes offset, 4 bytes length, and as many bytes more."""
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        assert size >= 26, f"length at {position}"
        if position + size > len(data):
            return
        yield position, data[position : position + size]
        position += size


def _batch_rows(batch, check_crcs):
    position, entry = batch
    return _records(position, entry, check_crcs) if entry[16] == 2 else _messages(position, entry, check_crcs)


# Format 2: a header of 61 bytes, then records, compressed together.


def _records(position, entry, check_crcs):
    base_offset, _, leader_epoch, _, crc, attributes, _, base_timestamp, max_timestamp, *producer, count = (
        struct.unpack_from(">qiibIhiqqqhii", entry)
    )
    producer_id, producer_epoch, base_sequence = producer
    assert not check_crcs or crc32c(entry[21:]) == crc, f"crc at {position}"
    if attributes & 0x20 or count == 0:  # a control batch
        return
    cursor = Cursor(decompress(attributes & 7, entry[61:]))
    for _ in range(count):
        end = cursor.varint() + cursor.at
        cursor.take(1)  # attributes, unused
        timestamp = base_timestamp + cursor.varint()
        offset_delta = cursor.varint()
        key, value = cursor.bytes(), cursor.bytes()
        headers = [(cursor.bytes().decode(errors="replace"), cursor.bytes()) for _ in range(cursor.varint())]
        assert cursor.at == end, f"record length at {position}"
        yield {
            "key": key,
            "value": value,
            "offset": base_offset + offset_delta,
            "timestamp": max_timestamp if attributes & 8 else timestamp,
            "timestampType": LOG_APPEND_TIME if attributes & 8 else CREATE_TIME,
            "headers": headers,
            "leaderEpoch": _known(leader_epoch),
            "baseOffset": base_offset,
            "position": position,
            "magic": 2,
            "compression": CODECS[attributes & 7],
            "producerId": _known(producer_id),
            "producerEpoch": _known(producer_epoch),
            "sequence": None if base_sequence < 0 else (base_sequence + offset_delta) % (1 << 31),
            "isTransactional": bool(attributes & 0x10),
        }
    assert cursor.at == len(cursor.data), f"bytes behind the last record at {position}"


def _known(number):
    return None if number < 0 else number


class Cursor:
    """Reads the fields of records one after the other."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        assert 0 <= count <= len(self.data) - self.at
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        """Zigzag, base 128, lowest group first: 0 -1 1 -2 ... are 0 1 2 3 ..."""
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def bytes(self):
        length = self.varint()
        return None if length < 0 else self.take(length)


# Formats 0 and 1: a message an entry; a compressed one wraps others.


def _messages(position, entry, check_crcs):
    offset, magic, codec, timestamp, is_log_append, value = _message(entry, check_crcs)[:6]
    inner = [entry] if codec == 0 else [inner for _, inner in batches(decompress(codec, value, magic))]
    unpacked = [_message(message, check_crcs) for message in inner]
    shift = 0
    if codec and magic == 1 and offset:
        # inner offsets of format 1 count from 0; the wrapper bears the last one's absolute offset
        shift = offset - unpacked[-1][0]
    for inner_offset, _, _, own_timestamp, _, inner_value, key in unpacked:
        yield {
            "key": key,
            "value": inner_value,
            "offset": inner_offset + shift,
            "timestamp": timestamp if is_log_append else own_timestamp,
            "timestampType": NO_TIMESTAMP_TYPE if magic == 0 else LOG_APPEND_TIME if is_log_append else CREATE_TIME,
            "headers": [],
            "leaderEpoch": None,
            "baseOffset": unpacked[0][0] + shift,
            "position": position,
            "magic": magic,
            "compression": CODECS[codec],
            "producerId": None,
            "producerEpoch": None,
            "sequence": None,
            "isTransactional": False,
        }


def _message(entry, check_crcs):
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbb", entry)
    assert not check_crcs or zlib.crc32(entry[16:]) == crc, f"crc of message {offset}"
    at = 18
    timestamp = -1
    if magic == 1:
        timestamp = int.from_bytes(entry[18:26], "big", signed=True)
        at = 26
    key, at = _field(entry, at)
    value, _ = _field(entry, at)
    return offset, magic, attributes & 7, timestamp, magic == 1 and bool(attributes & 8), value, key


def _field(entry, at):
    length = int.from_bytes(entry[at : at + 4], "big", signed=True)
    at += 4
    return (None, at) if length < 0 else (entry[at : at + length], at + length)


# Compression.


def decompress(codec, data, magic=2):
    match CODECS[codec]:
        case "none":
            return data
        case "gzip":
            return zlib.decompress(data, wbits=31)
        case "snappy":
            return b"".join(map(_snappy, _xerial_blocks(data)))
        case "lz4":
            return b"".join(_lz4_frame(data))
        case "zstd":
            return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()


def _xerial_blocks(data):
    """Split snappy-java's framing: a header of 16 bytes, then blocks with their length; without it, all is a block."""
    if not data.startswith(b"\x82SNAPPY\0"):
        yield data
        return
    at = 16
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def _snappy(block):
    size = shift = at = 0
    while True:
        size |= (block[at] & 0x7F) << shift
        shift += 7
        at += 1
        if block[at - 1] < 0x80:
            break
    out = bytearray()
    while at < len(block):
        tag = block[at]
        at += 1
        if tag & 3 == 0:  # literal
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(block[at : at + extra], "little")
                at += extra
            out += block[at : at + length + 1]
            at += length + 1
            continue
        if tag & 3 == 1:
            length, distance = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | block[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, distance = (tag >> 2) + 1, int.from_bytes(block[at : at + width], "little")
            at += width
        _copy(out, distance, length)
    assert len(out) == size
    return bytes(out)


def _lz4_frame(data):
    """Yield the blocks of one frame; the header's checksum, which old clients computed wrongly, is not looked at."""
    assert data[:4] == b"\x04\x22\x4d\x18"
    flags = data[4]
    at = 7 + (8 if flags & 8 else 0)
    while True:
        word = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if word == 0:
            return
        block = data[at : at + (word & 0x7FFFFFFF)]
        at += len(block) + (4 if flags & 0x10 else 0)
        yield block if word >> 31 else _lz4(block)


def _lz4(block):
    out = bytearray()
    at = 0

    def extended(length):
        nonlocal at
        if length == 15:
            while True:
                length += block[at]
                at += 1
                if block[at - 1] != 255:
                    break
        return length

    while at < len(block):
        token = block[at]
        at += 1
        length = extended(token >> 4)
        out += block[at : at + length]
        at += length
        if at >= len(block):
            break
        distance = int.from_bytes(block[at : at + 2], "little")
        at += 2
        _copy(out, distance, extended(token & 15) + 4)
    return bytes(out)


def _copy(out, distance, length):
    """Repeat what stands `distance` back; it may overlap what is being written."""
    assert 0 < distance <= len(out)
    for _ in range(length):
        out.append(out[-distance])


# Checksums.

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
