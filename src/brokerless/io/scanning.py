"""`Scannable`: a `pyarrow.dataset.Dataset` whose rows a function yields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.compute as pc

    Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class Fragment:
    """A part of a dataset, for engines that scan parts at the same time, as DataFusion does.

    Args:
        dataset: the part.
    """

    def __init__(self, dataset: Scannable) -> None:
        self._dataset = dataset

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> ds.Scanner:  # noqa: ANN401 - those of pyarrow
        """Return a scanner of the part. Its rows have the schema of the dataset, whatever `schema` is."""
        del schema
        return self._dataset.scanner(**options)


class Scannable(ds.Dataset):
    """A dataset for engines that ask for some columns of the rows that meet an expression: DuckDB, Polars, DataFusion.

    Its scans can be repeated, but one scanner can be read once.

    Args:
        schema: the schema of all rows.

    Attributes:
        failed: the error that ended the last scan, of which engines make an error of their own; None without one.
    """

    def __init__(self, schema: pa.Schema) -> None:
        # Arrow's own class has no constructor: no method that it inherits may reach its C++ object.
        self._schema_of_rows = schema
        self.failed: Exception | None = None
        # An engine reads in threads of its own, which do not have the collector of notes.
        self._context = copy_context()

    @property
    def schema(self) -> pa.Schema:
        """The schema of all rows."""
        return self._schema_of_rows

    @abstractmethod
    def rows(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """Yield these columns of the rows that meet an expression; None: of all rows."""

    def scanner(  # type: ignore[override]
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: object,
    ) -> ds.Scanner:
        """Return a scanner of some columns, or of expressions by name, of the rows that meet an expression."""
        needed, schema = self._needed(columns)
        batches = pa.RecordBatchReader.from_batches(schema, self._scan(needed, filter))
        chosen: Any = columns if columns is None or isinstance(columns, dict) else list(columns)
        return ds.Scanner.from_batches(batches, columns=chosen)

    def to_batches(  # type: ignore[override]
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **options: Any,  # noqa: ANN401 - those of pyarrow
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a scan. None are read in advance, so that a reader of a few rows may stop."""
        if columns is None or not isinstance(columns, dict):
            needed, _ = self._needed(columns)
            return (batch.select(list(columns)) if columns == [] else batch for batch in self._scan(needed, filter))
        found: Iterator[pa.RecordBatch] = self.scanner(columns, filter, **options).to_batches()
        return found

    def to_table(  # type: ignore[override]
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **options: Any,  # noqa: ANN401 - those of pyarrow
    ) -> pa.Table:
        """Return the rows of a scan as one table in memory."""
        if columns is None or not isinstance(columns, dict):
            needed, schema = self._needed(columns)
            table = pa.Table.from_batches(self._scan(needed, filter), schema)
            return table if columns is None else table.select(list(columns))
        return self.scanner(columns, filter, **options).to_table()

    def count_rows(  # type: ignore[override]
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: object,
    ) -> int:
        """Return the number of rows that meet an expression."""
        return sum(batch.num_rows for batch in self._scan(self.schema.names[:1], filter))

    def head(  # type: ignore[override]
        self,
        num_rows: int,
        columns: Columns = None,
        **options: Any,  # noqa: ANN401 - those of pyarrow
    ) -> pa.Table:
        """Return the first rows of a scan."""
        found, count = [], 0
        batches = self.to_batches(columns, **options)
        while count < num_rows and (batch := next(batches, None)) is not None:
            found.append(batch.slice(0, num_rows - count))
            count += found[-1].num_rows
        if hasattr(batches, "close"):
            batches.close()
        return (
            pa.Table.from_batches(found) if found else self.scanner(columns, **options).projected_schema.empty_table()
        )

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002 - pyarrow's name
        """Yield the parts that an engine may scan at the same time."""
        yield from (Fragment(part) for part in self.parts(filter))

    def parts(self, filter: pc.Expression | None) -> Iterator[Scannable]:  # noqa: A002, ARG002
        """Yield datasets that have all rows which meet an expression between them."""
        yield self

    def _scan(self, columns: Sequence[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """Yield rows as `rows` does, in the context in which this dataset was made."""
        context = self._context.copy()
        self.failed = None
        rows = context.run(self.rows, columns, filter)
        try:
            while (batch := context.run(next, rows, None)) is not None:
                yield batch
        except Exception as error:
            self.failed = error
            raise
        finally:
            if isinstance(rows, Generator):
                context.run(rows.close)

    def _needed(self, columns: Columns) -> tuple[list[str], pa.Schema]:
        """Return the columns to read, and their schema."""
        names = self.schema.names
        # An expression does not say which columns it needs.
        is_all = columns is None or isinstance(columns, dict)
        needed = names if is_all else list(columns or ()) or names[:1]
        return needed, pa.schema([self.schema.field(name) for name in needed])

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("this dataset has no files of its own: use scanner, to_batches, to_table or head")

    # What Arrow's class does with its own files.
    filter = replace_schema = sort_by = join = join_asof = take = __reduce__ = _refuse
    partition_expression = property(_refuse)
