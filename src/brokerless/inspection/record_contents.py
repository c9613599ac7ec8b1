"""The keys and values of dumped records, decoded: in the forms of `decode`, or as records of Kafka's own topics.

Text and JSON of Kafka's own records are those of kafka-dump-log with a decoder (DumpLogSegments of Kafka 4.4), also
where it cannot decode a record. A record without a key ends that tool; here it is an error like the others.
"""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from brokerless import _native
from brokerless.errors import BrokerlessError
from brokerless.layout.file_names import METADATA_TOPIC
from brokerless.metadata.records import decoded_records
from brokerless.metadata.schema import json_text
from brokerless.state.internal_topic import REMOTE_LOG_METADATA_TOPIC
from brokerless.state.remote_segments import STATES as REMOTE_STATES
from brokerless.state.transactions import STATES as TRANSACTION_STATES
from brokerless.values.row_decoder import RowDecoder, default_columns
from brokerless.wording import in_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from brokerless.values.decoding import Decoding

    Fields = list[tuple[str, str]]

ROW = ("topic", "partition", "offset", "position", "key", "value", "headers")
"""The columns that contents are decoded from. `position` is the number of the row."""

_ERRORS = {"key": "keyDecodeError", "value": "decodeError"}
_NAMES = {
    "keyBytes": "key_bytes",
    "keyDecodeError": "key_decode_error",
    "valueBytes": "value_bytes",
    "decodeError": "decode_error",
}
_PAYLOADS = {"key": "key", "value": "payload"}
# Our JSON has tagged fields last, by their tags. Kafka's has all fields in the order of the definition, which differs
# for these: the field, and the fields that follow it, of which the first may be left out.
_MOVED = {
    "PartitionRecord": (("leaderRecoveryState", ("leaderEpoch",)),),
    "PartitionChangeRecord": (("directories", ("eligibleLeaderReplicas", "lastKnownElr")),),
    "TransactionLog": (
        ("previousProducerId", ("producerEpoch",)),
        ("nextProducerId", ("producerEpoch",)),
        ("nextProducerEpoch", ("transactionTimeoutMs",)),
    ),
    "ShareSnapshot": (("deliveryCompleteCount", ("createTimestamp",)),),
    "ShareUpdate": (("deliveryCompleteCount", ("stateBatches",)),),
}
_EMBEDDED = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
_MEMBER_BYTES = re.compile(r'"(subscription|assignment)":"([^"]*)"')
_STATUS = re.compile(r'"transactionStatus":(-?\d+)')
_QUOTAS = ("ClientQuotaRecord", "QuotaRecord")
_QUOTA = re.compile(r'(?<=,"value":)-?\d[^,]*(?=,"remove":)')
# Where a word of a name begins.
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Contents(Protocol):
    """A decoder of the keys and values in rows with the columns `ROW`. It may leave rows out."""

    def fields(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Fields]]:
        """Yield the number of each row, and what its line shows: the names and texts of fields."""
        ...

    def members(self, rows: pa.RecordBatch, bytes_as: str) -> Iterator[tuple[int, str]]:
        """Yield the number of each row, and the members of its JSON object, without braces."""
        ...

    def notes(self) -> list[str]:
        """Return sentences on what did not decode, since the last call."""
        ...


class DecodedContents:
    """Keys and values in the forms of a decoding, which has its schemas.

    Args:
        decoding: the forms; the values of a registry are JSON text unless it chooses a schema.
        topics: the topics of all records; None is one that is not known.
    """

    def __init__(self, decoding: Decoding, topics: Collection[str | None]) -> None:
        decoding = decoding.as_text()
        self._decoder = RowDecoder(decoding, default_columns(decoding, ["position", "key", "value"]), topics)

    def fields(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Fields]]:
        for decoded in self._decoder.decode(rows):
            columns = {name: _texts(decoded, name) for name in decoded.schema.names if name != "position"}
            numbers: Any = decoded["position"].to_pylist()
            for row, number in enumerate(numbers):
                fields = []
                for part, name in _PAYLOADS.items():
                    found = (columns[one][row] for one in (part, f"{part}Bytes") if one in columns)
                    if (text := next((one for one in found if one is not None), None)) is not None:
                        fields.append((name, text))
                    error = columns.get(_ERRORS[part])
                    if error is not None and (why := error[row]) is not None:
                        fields.append((_ERRORS[part], why))
                yield number, fields

    def members(self, rows: pa.RecordBatch, bytes_as: str) -> Iterator[tuple[int, str]]:
        for decoded in self._decoder.decode(rows):
            order = sorted(decoded.schema.names[1:], key=lambda name: not name.startswith("key"))
            shown = decoded.select(order).rename_columns([_NAMES.get(name, name) for name in order])
            lines = _native.json_lines(shown, bytes_as).decode().split("\n")[:-1]
            yield from zip(decoded["position"].to_pylist(), (line[1:-1] for line in lines), strict=True)

    def notes(self) -> list[str]:
        return self._decoder.notes()


class StateContents:
    """Keys and values of records in which Kafka keeps its own state.

    Args:
        topic: the topic whose records they are, such as `__consumer_offsets`.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._has_keys = topic not in (METADATA_TOPIC, REMOTE_LOG_METADATA_TOPIC)

    def fields(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Fields]]:
        for number, offset, record in self._records(rows):
            why = record["unknown"]
            if not self._has_keys:
                at = str(offset) if self._topic == METADATA_TOPIC else f"offset {offset}"
                yield number, [("payload", f"Error at {at}, skipping. {why}" if why else self._value(record))]
            elif why is not None:
                is_new = why.startswith("unknown type ")
                text = f"Unknown record type {record['type']} at offset {offset}, skipping." if is_new else None
                yield number, [("key", text or f"Error at offset {offset}, skipping. {why}")]
            else:
                value = "<DELETE>" if record["value"] is None else self._value(record)
                yield number, [("key", self._key(record)), ("payload", value)]

    def members(self, rows: pa.RecordBatch, bytes_as: str) -> Iterator[tuple[int, str]]:
        keys, values = (_lines(rows, name, bytes_as) for name in ("key", "value"))
        for number, _, record in self._records(rows):
            why = record["unknown"]
            key = self._key(record) if why is None and self._has_keys else None
            value = self._value(record, as_json=True) if why is None and record["value"] is not None else None
            found = {
                "key": key,
                "key_bytes": keys[number] if key is None else None,
                "value": value,
                "value_bytes": None if why is None else values[number],
                "decode_error": None if why is None else json_text(why),
            }
            yield number, ",".join(f'"{name}":{"null" if text is None else text}' for name, text in found.items())

    def notes(self) -> list[str]:
        return []

    def _records(self, rows: pa.RecordBatch) -> Iterator[tuple[int, int, dict[str, Any]]]:
        for part, decoded in decoded_records(self._topic, rows):
            numbers: Any = part["position"].to_pylist()
            offsets: Any = part["offset"].to_pylist()
            for number, offset, record in zip(numbers, offsets, decoded.to_pylist(), strict=True):
                if record["is_too_large"]:
                    record["unknown"] = f"it takes too much memory: decoded, about {in_bytes(record['memory'])}"
                yield number, offset, record

    def _key(self, record: dict[str, Any]) -> str:
        return f'{{"type":"{record["type"]}","data":{record["key"]}}}'

    def _value(self, record: dict[str, Any], *, as_json: bool = False) -> str:
        name, version = record["name"], record["version"]
        if self._topic == REMOTE_LOG_METADATA_TOPIC and not as_json and name in _JAVA_TEXTS:
            return _JAVA_TEXTS[name](json.loads(record["value"]))
        data = _in_order(name, record["value"])
        if name == "GroupMetadata":
            data = _with_protocol(data)
        elif name == "TransactionLog":
            data = _STATUS.sub(_with_state_name, data, count=1)
        elif name in _QUOTAS:
            data = _QUOTA.sub(_with_java_number, data, count=1)
        if self._has_keys:
            return f'{{"version":"{version}","data":{data}}}'
        return f'{{"type":"{_WORD.sub("_", name).upper()}","version":{version},"data":{data}}}'


def _in_order(name: str, data: str) -> str:
    """Return JSON with its tagged fields where Kafka has them."""
    for field, followers in _MOVED.get(name, ()):
        # No text contains this: quotes within it are escaped.
        found = re.search(rf',"{field}":(?:-?\d+|\[[^]]*\])', data)
        following = next((one for one in followers if f',"{one}":' in data), None)
        if found and following:
            rest = data[: found.start()] + data[found.end() :]
            data = rest.replace(f',"{following}":', f'{found[0]},"{following}":', 1)
    return data


def _with_protocol(data: str) -> str:
    """Return a group's JSON with what its members said and got, if they are consumers."""
    return _MEMBER_BYTES.sub(_embedded, data) if '"protocolType":"consumer"' in data else data


def _embedded(found: re.Match[str]) -> str:
    try:
        text = _native.embedded_json(_EMBEDDED[found[1]], base64.b64decode(found[2])).decode()
    except BrokerlessError:
        return found[0]
    return f'"{found[1]}":{text}'


def _with_state_name(found: re.Match[str]) -> str:
    number = int(found[1])
    name = TRANSACTION_STATES[number] if 0 <= number < len(TRANSACTION_STATES) else str(number)
    return f'"transactionStatus":"{name}"'


def _with_java_number(found: re.Match[str]) -> str:
    """Return a number as `Double.toString` writes it: 1.048576E7."""
    number = float(found[0])
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{int(exponent) + len(digits) - 1}"


def _lines(rows: pa.RecordBatch, name: str, bytes_as: str) -> list[str]:
    """Return the values of a column as JSON."""
    written = _native.json_lines(rows.select([name]), bytes_as).decode()
    # Not `splitlines`: a JSON text may contain U+2028.
    return [line[len(name) + 4 : -1] for line in written.split("\n")[:-1]]


def _texts(rows: pa.RecordBatch, name: str) -> list[str | None]:
    """Return the values of a column as text."""
    column: Any = rows[name]
    if pa.types.is_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_binary(column.type) and name in _PAYLOADS:
        return [None if stored is None else _java_text(stored) for stored in column.to_pylist()]
    if pa.types.is_binary(column.type):
        return [None if stored is None else _text_or_base64(stored) for stored in column.to_pylist()]
    texts = zip(_lines(rows, name, "utf8"), column.is_valid().to_pylist(), strict=True)
    return [text if is_valid else None for text, is_valid in texts]


def _java_text(stored: bytes) -> str:
    """Return bytes as text, as Java reads UTF-8: a surrogate is one malformed sequence, unlike in Python."""
    return re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]?", "\ufffd".encode(), stored).decode(errors="replace")


def _text_or_base64(stored: bytes) -> str:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(stored).decode()}"}}'


def _segment_id(data: dict[str, Any]) -> str:
    found = data["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_partition(found['topicIdPartition'])}, id={found['id']}}}"


def _topic_partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _state(number: int, states: tuple[str, ...]) -> str:
    return states[number] if 0 <= number < len(states) else str(number)


def _custom_metadata(data: dict[str, Any]) -> str:
    found = data.get("customMetadata")
    if found is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(base64.b64decode(found))} bytes}}]"


def _segment_text(data: dict[str, Any]) -> str:
    epochs = ", ".join(f"{one['leaderEpoch']}={one['offset']}" for one in data["segmentLeaderEpochs"])
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(data)}, startOffset={data['startOffset']}, "
        f"endOffset={data['endOffset']}, brokerId={data['brokerId']}, maxTimestampMs={data['maxTimestampMs']}, "
        f"eventTimestampMs={data['eventTimestampMs']}, segmentLeaderEpochs={{{epochs}}}, "
        f"segmentSizeInBytes={data['segmentSizeInBytes']}, customMetadata={_custom_metadata(data)}, "
        f"state={_state(data['remoteLogSegmentState'], REMOTE_STATES)}, "
        f"txnIdxEmpty={json.dumps(data.get('txnIndexEmpty', False))}}}"
    )


def _update_text(data: dict[str, Any]) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(data)}, "
        f"customMetadata={_custom_metadata(data)}, state={_state(data['remoteLogSegmentState'], REMOTE_STATES)}, "
        f"eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
    )


def _deletion_text(data: dict[str, Any]) -> str:
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_partition(data['topicIdPartition'])}, "
        f"state={_state(data['remotePartitionDeleteState'], _DELETE_STATES)}, "
        f"eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
    )


# RemotePartitionDeleteState, by its number in records.
_DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
# Kafka's tool prints these records as Java objects, and not as JSON.
_JAVA_TEXTS = {
    "RemoteLogSegmentMetadataRecord": _segment_text,
    "RemoteLogSegmentMetadataUpdateRecord": _update_text,
    "RemotePartitionDeleteMetadataRecord": _deletion_text,
}
