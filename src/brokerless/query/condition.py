"""A condition in SQL that rows must meet, with DuckDB."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.log.frames import library
from brokerless.query.json_fields import with_fields
from brokerless.values.forms import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

_UNKNOWN = "Binder Error: Referenced column"
# The word OFFSET, or a text or a name in quotes.
_OFFSET = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\b(?P<offset>offset)\b""", re.IGNORECASE)


class SqlCondition:
    """A condition on the columns of rows, as DuckDB reads it.

    Bytes are compared as text; those that are no text are null. The fields of text are those of JSON:
    `value.customer.id = 42`. A field that is missing, and text that is no JSON, is null. A field of another type is not
    equal to the value.

    Args:
        text: the condition, as after `WHERE`.
        schema: the schema of the rows, with all columns that they may have.

    Attributes:
        columns: the columns that the condition may need.

    Raises:
        ModuleNotFoundError: DuckDB is not installed.
        ValueError: DuckDB does not understand the condition.

    >>> import pyarrow as pa
    >>> rows = pa.RecordBatch.from_pydict({"offset": [1, 2], "value": ['{"user": {"id": 7}}', "none"]})
    >>> SqlCondition("value.user.id = 7", rows.schema).apply(rows)["offset"].to_pylist()
    [1]
    """

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._given = text
        # A condition has no clause of this name, only a column.
        self._text = _OFFSET.sub(lambda found: f'"{found[0]}"' if found["offset"] else found[0], text)
        self._connection: duckdb.DuckDBPyConnection = library("duckdb", "a condition in SQL", extra="sql").connect()
        # A batch is small, and its rows keep their order.
        self._connection.execute("set threads = 1; set timezone = 'UTC'")
        with self._errors():
            count = len(self._connection.extract_statements(f"select ({self._text}\n)"))
        if count != 1:
            raise ValueError(f"the condition {text!r} is more than one statement: it has a semicolon")
        words = set(re.findall(r"\w+", text.lower()))
        self.columns = [name for name in schema.names if name.lower() in words] or schema.names[:1]
        of_rows = pa.schema([schema.field(name) for name in self.columns])
        stored = [name for name in PARTS if name in self.columns and pa.types.is_binary(of_rows.field(name).type)]
        as_text = [f'try(decode("{name}")) as "{name}"' for name in stored]
        replaced = f" replace ({', '.join(as_text)})" if as_text else ""
        self._source = f"select *{replaced} from batch"  # noqa: S608 - names of columns
        self._bound(of_rows)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that meet the condition.

        Raises:
            ValueError: the condition cannot be evaluated, as a cast of a text that is no number.
        """
        with self._errors():
            self._connection.register("batch", rows.select(self.columns))
            met_or_null = f"cast(({self._text}\n) as boolean)"
            query = f"select coalesce({met_or_null}, false) as met from ({self._source})"  # noqa: S608 - it is SQL
            met = self._connection.sql(query).to_arrow_table()["met"]
        return rows.filter(met.combine_chunks())

    def _bound(self, schema: pa.Schema) -> None:
        """Check the condition. If it names fields of text, take them from JSON."""
        self._connection.register("batch", schema.empty_table())
        try:
            self._check()
        except ValueError:
            texts = {name for name in PARTS if name in self.columns and _is_text(schema.field(name).type)}
            with self._errors():
                with_json = with_fields(self._connection, self._text, texts)
            if with_json == self._text:
                raise
            self._text = with_json
            self._check()

    def _check(self) -> None:
        with self._errors():
            # Not every expression may stand after WHERE: no aggregate, for example.
            query = f"select 1 from ({self._source}) where ({self._text}\n)"  # noqa: S608 - it is SQL
            self._connection.execute(query)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        errors: Any = library("duckdb", "a condition in SQL", extra="sql").Error
        try:
            yield
        except errors as error:
            what = " ".join(str(error).split("LINE 1:")[0].split())
            hint = "; a field is written with its part, as value.id" if what.startswith(_UNKNOWN) else ""
            raise ValueError(f"the condition {self._given!r}: {what}{hint}") from None


def _is_text(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_binary(of))
