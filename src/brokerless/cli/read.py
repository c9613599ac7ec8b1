"""`brokerless read`: records as JSON lines, or as an Arrow or Parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import long_from, metadata, paths
from brokerless.cli.rows import (
    columns_of,
    decoding_of,
    end,
    form_of,
    range_options,
    row_options,
    say_notes,
    unread_end,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from brokerless.cli.options import Progress
    from brokerless.log.defect import Defect
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.split import OnCorrupt
    from brokerless.values.decoding import Decoding


@click.command(short_help="Print records as JSON lines, or write a file.", epilog=exit_line())
@paths
@range_options
@click.option("--limit", type=long_from(0), help="Stop after this many records.")
@row_options("Write keys, values and header values in this form.")
@metadata
def read(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    start_offset: StartOffset | None,
    end_offset: EndOffset | None,
    start_timestamp: int | None,
    end_timestamp: int | None,
    isolation_level: IsolationLevel,
    limit: int | None,
    columns: list[str] | None,
    on_corrupt: OnCorrupt,
    decode: Decoding | None,
    no_check_crcs: bool,
    bytes_as: str | None,
    form: str | None,
    is_json: bool,
    output: str | None,
    metadata: str | None,
) -> None:
    """Print records as JSON lines, or write them to an Arrow or Parquet file.

    In a log directory, Kafka's internal topics are skipped unless --topic selects them. If a log is damaged, the output
    ends with the last record before the damage. With --output, an existing file then stays unchanged.

    \b
    brokerless read orders-0 --start-offset 1000 --limit 10
    brokerless read data --topic orders --isolation-level read_committed
    brokerless read data --topic orders --start-timestamp 2024-05-01 --end-timestamp 2024-05-02
    brokerless read data --topic 'orders*' --start-timestamp -1h
    brokerless read orders-0 --columns offset,key,compression,position
    brokerless read data --topic orders --output orders.parquet
    brokerless read data --topic orders --decode value=registry,key=utf8
    """
    import pyarrow as pa

    from brokerless.log.reader import Reader
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.metadata.uncommitted import Uncommitted
    from brokerless.values.row_decoder import RowDecoder

    form = form_of(output, form, is_json=is_json)
    log_dirs = LogDirs(*paths)
    logs = log_dirs.readable(topics or None, partitions or None)
    decoding = decoding_of(decode, log_dirs, form)
    shown = columns_of(columns, decoding)
    decoder = None if decoding is None else RowDecoder(decoding, shown, {log.topic for log in logs})
    schema = Reader([], shown, decode=decoder).schema
    uncommitted = Uncommitted(logs, paths, metadata)

    def rows_of_all(progress: Progress) -> Iterator[tuple[pa.RecordBatch, list[Defect]]]:
        """Yield batches of rows, each with all losses so far, and an empty batch at the end."""
        done = 0
        lost: list[Defect] = []
        for log in logs:
            if done == limit:
                break
            splits = log.plan(
                start_offset=start_offset,
                end_offset=end_offset,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation_level=isolation_level,
                target_bytes=None,
                on_corrupt=on_corrupt,
            )
            say_notes(uncommitted.of(log, splits))
            if end_offset is None:
                say_notes(unread_end(log))
            left = None if limit is None else limit - done
            reader = Reader(splits, shown, check_crcs=not no_check_crcs, limit=left, decode=decoder)
            for rows in reader:
                done += rows.num_rows
                progress(f"{done:,} records, now in {log.name}")
                yield rows, [*lost, *reader.lost]
            lost += reader.lost
        yield pa.RecordBatch.from_pylist([], schema=schema), lost

    written, lost = write_rows(rows_of_all, schema, form=form, output=output, bytes_as=bytes_as)
    say_notes([] if decoder is None else decoder.notes())
    end(lost, output, written)
