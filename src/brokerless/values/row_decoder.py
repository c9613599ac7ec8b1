"""Rows of bytes to rows of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from brokerless import _native
from brokerless.arguments import unknown
from brokerless.errors import RecordDeserializationError
from brokerless.values.forms import REGISTRY
from brokerless.values.resolution import Resolver, target
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from brokerless.schemas.store import SchemaStore
    from brokerless.values.decoding import Decoding
    from brokerless.values.resolution import Target

_OF_ALL = {"Bytes": "bytes", "DecodeError": "error"}
_OF_REGISTRY = {"Framing": "framing", "SchemaId": "schemaId", "Subject": "subject", "Version": "version"}
_PLACE = ("topic", "partition", "offset")
_LEFT_OVER = "bytes after the end, which are left out"
_OF_GLUE = "the framing of the AWS Glue Schema Registry, which keeps no schemas in Kafka: not decoded"


def decoded_columns(decoding: Decoding) -> list[str]:
    """Return the columns that a decoded read has besides those of each read.

    >>> from brokerless.values.decoding import Decoding
    >>> decoded_columns(Decoding(key="utf8"))
    ['keyBytes', 'keyDecodeError']
    """
    return [name for part in decoding.parts for name in _names(decoding, part)]


def default_columns(decoding: Decoding, columns: Sequence[str]) -> list[str]:
    """Return the columns of a decoded read that names none: these, and what keeps a row that does not decode.

    >>> from brokerless.values.decoding import Decoding
    >>> default_columns(Decoding(value="int64"), ["offset", "value"])
    ['offset', 'value', 'valueBytes', 'decodeError']
    """
    return [*columns, *(list(_names(decoding, part))[i] for part in decoding.parts for i in range(len(_OF_ALL)))]


def _names(decoding: Decoding, part: str) -> dict[str, str]:
    """Return the additional columns of a part, and the names that the extension gives them."""
    more = _OF_REGISTRY if decoding.form(part) == REGISTRY else {}
    names = {f"{part}{name}": column for name, column in {**_OF_ALL, **more}.items()}
    # The word is short where it matters most.
    return {("decodeError" if name == "valueDecodeError" else name): column for name, column in names.items()}


@dataclass(frozen=True)
class Tally:
    """The keys or values of a topic that a note counts.

    Attributes:
        topic: the topic.
        part: "key" or "value".
        count: their number.
        first: the place and error of the first one that does not decode.
        surplus: what they have although they decode, or are not to be decoded; "" for those that do not decode.
        is_left_out: whether their rows were left out, because they do not decode.
    """

    topic: str | None
    part: str
    count: int
    first: str = ""
    surplus: str = ""
    is_left_out: bool = False

    @property
    def text(self) -> str:
        """The note."""
        what = f"{self.topic or 'a log'}: {counted(self.count, self.part)}"
        if self.surplus:
            return f"{what} {'has' if self.count == 1 else 'have'} {self.surplus}"
        what += f" {'does' if self.count == 1 else 'do'} not decode"
        if self.is_left_out:
            what += f" and {'is' if self.count == 1 else 'are'} left out"
        return f"{what}, the first at {self.first}"


def summed(tallies: Iterable[Tally]) -> list[Tally]:
    """Return one tally for all of a topic that count the same.

    >>> [tally.text for tally in summed([Tally("t", "key", 1, "offset 7"), Tally("t", "key", 2, "offset 9")])]
    ['t: 3 keys do not decode, the first at offset 7']
    """
    found: dict[tuple[str | None, str, str], Tally] = {}
    for tally in tallies:
        kind = (tally.topic, tally.part, tally.surplus)
        known = found.get(kind)
        found[kind] = tally if known is None else replace(known, count=known.count + tally.count)
    return list(found.values())


class RowDecoder:
    """Decodes the keys and values in the rows of any number of topics.

    Args:
        decoding: how to decode, with its schemas.
        columns: the columns of the decoded rows, in this order.
        topics: the topics of all rows, which determine the types of "registry".
        targets: the schemas whose types keys and values of "registry" have; None: those that the topics determine.

    Attributes:
        columns: as given.
        leaves_out: whether rows that do not decode are left out.
        input_columns: the columns that `decode` needs.
        targets: the schemas whose types keys and values of "registry" have.
        schema: the schema of the decoded rows.

    Raises:
        ValueError: a column is unknown, or the schemas are not known.
    """

    def __init__(
        self,
        decoding: Decoding,
        columns: Sequence[str],
        topics: Collection[str | None] = (),
        *,
        targets: Mapping[str, Target] | None = None,
    ) -> None:
        if decoding.needs_schemas:
            raise ValueError("decode: name the schemas: bl.Schemas(path)")
        self._decoding, self.columns = decoding, list(columns)
        self.leaves_out = decoding.on_error == "skip"
        self._made = {part: _names(decoding, part) for part in decoding.parts}
        known = (*_native.ROW_COLUMNS, *decoded_columns(decoding))
        for column in columns:
            if column not in known:
                raise unknown("column", column, known)
        stored = [column for column in columns if column in _native.ROW_COLUMNS]
        needed = [*decoding.parts, *_PLACE, *(["headers"] if decoding.is_framed else [])]
        self.input_columns = list(dict.fromkeys([*stored, *needed]))
        registry = [part for part in decoding.parts if decoding.form(part) == REGISTRY]
        chosen = {part: target(decoding, set(topics), part) for part in registry} if targets is None else targets
        self.targets: Mapping[str, Target] = chosen
        self._decoders: dict[tuple[str | None, str], _native.SchemaDecoder] = {}
        self._failures: list[Tally] = []
        self._counted: dict[tuple[str | None, str, str], int] = {}
        rows, _ = self._decoded(_empty(self.input_columns), None)
        self.schema = rows.schema

    def decode(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows, which are all of one topic, with decoded keys and values.

        Raises:
            RecordDeserializationError: a key or value does not decode, and `on_error` is "raise". The rows before it
                were yielded.
        """
        topic = rows["topic"][0].as_py() if rows.num_rows else None
        while rows.num_rows:
            decoded, errors = self._decoded(rows, topic)
            count = decoded.num_rows
            yield from self._kept(rows.slice(0, count), decoded, errors, topic)
            rows = rows.slice(count)

    def notes(self) -> list[str]:
        """Return a sentence for each topic with keys or values that did not decode, since the last call."""
        return [tally.text for tally in self.tallies()]

    def tallies(self) -> list[Tally]:
        """Return what the notes count, since the last call of this or of `notes`."""
        found, self._failures = self._failures, []
        for (topic, part), decoder in self._decoders.items():
            for surplus, count in ((_LEFT_OVER, decoder.left_over), (_OF_GLUE, decoder.of_glue)):
                if new := count - self._counted.get((topic, part, surplus), 0):
                    found.append(Tally(topic, part, new, surplus=surplus))
                self._counted[topic, part, surplus] = count
        return found

    def _decoded(self, rows: pa.RecordBatch, topic: str | None) -> tuple[pa.RecordBatch, dict[str, pa.Array[Any]]]:
        """Decode the first rows: as many as fit into one batch. Return them, and the errors of each part."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

        made: dict[str, pa.RecordBatch] = {}
        for part in self._decoding.parts:
            made[part] = found = self._decoded_part(rows, topic, part)
            rows = rows.slice(0, found.num_rows)
        of_names = {
            name: (made[part], column) for part, names in self._made.items() for name, column in names.items()
        } | {part: (found, "decoded") for part, found in made.items()}
        fields, arrays = [], []
        for name in self.columns:
            source, column = of_names.get(name, (rows, name))
            fields.append(source.schema.field(column).with_name(name))
            arrays.append(source[column].slice(0, rows.num_rows))
        decoded = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        return decoded, {part: found["error"].slice(0, rows.num_rows) for part, found in made.items()}

    def _decoded_part(self, rows: pa.RecordBatch, topic: str | None, part: str) -> pa.RecordBatch:
        form = self._decoding.form(part)
        if form != REGISTRY:
            return _native.decode_plain(rows[part], str(form))
        if (topic, part) not in self._decoders:
            self._decoders[topic, part] = self._schema_decoder(topic, part)
        return self._decoders[topic, part].decode(rows[part], rows["headers"])

    def _schema_decoder(self, topic: str | None, part: str) -> _native.SchemaDecoder:
        given = self._decoding
        subject = given.subject if part == "value" else None
        resolver = Resolver(cast("SchemaStore", given.schemas), topic, part, subject, given.context)
        reader, union = self.targets[part]
        message = given.message if part == "value" else None
        return _native.SchemaDecoder(resolver, is_key=part == "key", reader=reader, union=union, message=message)

    def _kept(
        self, rows: pa.RecordBatch, decoded: pa.RecordBatch, errors: dict[str, pa.Array[Any]], topic: str | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield decoded rows, as `on_error` says."""
        failed = {part: _valid(found) for part, found in errors.items() if found.null_count < len(found)}
        if not failed:
            yield decoded
            return
        if self._decoding.on_error == "raise":
            part, row = min(((part, places[0]) for part, places in failed.items()), key=lambda pair: pair[1])
            yield decoded.slice(0, row)
            raise _error(rows, row, part, errors[part][row].as_py())
        for part, places in failed.items():
            first = f"{_place(rows, places[0])}: {errors[part][places[0]]}"
            self._failures = summed(
                [*self._failures, Tally(topic, part, len(places), first, is_left_out=self.leaves_out)]
            )
        if self.leaves_out:
            left_out = set().union(*failed.values())
            decoded = decoded.take([row for row in range(decoded.num_rows) if row not in left_out])
        yield decoded


def _valid(column: pa.Array[Any]) -> list[int]:
    """Return the rows that are not null."""
    return [row for row, is_valid in enumerate(column.is_valid().to_pylist()) if is_valid]


def _error(rows: pa.RecordBatch, row: int, part: str, why: str) -> RecordDeserializationError:
    topic, partition, offset = (rows[name][row].as_py() for name in _PLACE)
    message = f"the {part} of a record does not decode at {_place(rows, row)}: {why}"
    return RecordDeserializationError(message, topic=topic, partition=partition, offset=offset, part=part)


def _empty(columns: list[str]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - slow to import at every start of the command

    return pa.RecordBatch.from_pylist([], schema=_native.row_schema(columns))


def _place(rows: pa.RecordBatch, row: int) -> str:
    """Return the place of a row in words: orders-0, offset 12."""
    topic, partition, offset = (rows[name][row].as_py() for name in _PLACE)
    return f"offset {offset}" if topic is None else f"{topic}-{partition}, offset {offset}"
