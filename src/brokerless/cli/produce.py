"""`brokerless produce`: rows from a file or stdin into a topic of a log directory."""

from __future__ import annotations

import contextlib
import os
import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import (
    LocalPath,
    Progress,
    batch_size_option,
    broker_settings,
    bytes_option,
    compression_option,
    encode_options,
    format_of,
    int_from,
    known_release,
)
from brokerless.errors import BrokerlessError
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from brokerless.values.encoding import Encoding

_ROW = re.compile(r"(^|; the first is )row (\d+)(?=: )")


@click.command(short_help="Write records into a topic.", epilog=exit_line())
@click.argument("path", type=LocalPath(file_okay=False))
@click.option("--topic", required=True, help="The topic to write to, created if it does not exist.")
@click.option("--partitions", type=int_from(1), help="Partitions of a new topic.  [default: 1]")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A config of a new topic, such as retention.ms=-1. Repeatable.",
)
@click.option("--topic-id", help="The id of a new topic, as its cluster assigned it (22 characters).")
@click.option(
    "--input",
    "source",
    default="-",
    type=LocalPath(dir_okay=False, allow_dash=True),
    help="The file of rows; - for stdin.  [default: -]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "arrow", "parquet"]),
    help="Format of the input.  [default: by the extension of FILE, else json]",
)
@bytes_option(
    'Form of keys, values and header values in JSON lines. With utf8, {"base64": ...} also stands for any bytes.'
)
@encode_options
@compression_option
@click.option("--compression-level", type=int_from(-(1 << 31)), help="Level of the codec.  [default: Kafka's]")
@batch_size_option
@click.option("--magic", type=click.IntRange(0, 2), default=2, show_default=True, help="Message format.")
@click.option("--idempotent", is_flag=True, help="Give the batches a producer id and sequence numbers.")
@click.option("--transactional-id", help="Write all of the input in one transaction.")
@click.option(
    "--keep-offsets", is_flag=True, help="Keep the offsets, gaps, leader epochs and timestamp types of the rows."
)
@click.option("--sole-replica", is_flag=True, help="Do not warn about replicas, because no other broker has one.")
@click.option(
    "--release",
    type=known_release,
    metavar="RELEASE",
    help="The oldest Kafka release that can serve a new directory.  [default: 4.0]",
)
@broker_settings
def produce(
    path: str,
    topic: str,
    partitions: int | None,
    configs: tuple[str, ...],
    topic_id: str | None,
    source: str,
    form: str | None,
    bytes_as: str,
    encode: Encoding | None,
    compression: str,
    compression_level: int | None,
    batch_size: int,
    magic: int,
    idempotent: bool,
    transactional_id: str | None,
    keep_offsets: bool,
    sole_replica: bool,
    release: str | None,
    broker_config: str | None,
    metadata: str | None,
) -> None:
    """Write records into a topic of the log directory PATH, which no broker may use.

    The input has the form of `brokerless read`: JSON lines, Arrow or Parquet. A row may have key, value, headers,
    timestamp (ms), partition, and with --keep-offsets also offset, leaderEpoch and timestampType. If a row has no
    partition, its key selects one, as in Kafka's producer. A row's topic is ignored. A line of JSON with all of these,
    and JSON as the text of its value:

    \b
    {"key":"k","value":"{\\"paid\\":true}","headers":[["trace","7"]],"timestamp":1700000000000,"partition":0}

    A broker that takes over the directory deletes records older than retention.ms: 7 days, unless --config says
    otherwise.

    With --keep-offsets, a read of the copy gives the same JSON lines, with one exception: messages of format 0 have no
    timestamps, and get CreateTime with -1 in other formats. Transaction markers, producer state and codecs are not
    copied. To keep records of aborted transactions out of the copy, read with --isolation-level read_committed.

    With --encode, the input has the form of `brokerless read --decode`: values of a schema, or of a serializer. What
    was not decoded keeps its bytes.

    \b
    brokerless produce data --topic orders --partitions 4 --compression zstd --input orders.parquet
    brokerless read old/orders-0 | brokerless produce new --topic orders --keep-offsets
    brokerless produce data --topic orders --encode value=registry,key=utf8 --input orders.jsonl
    brokerless produce data --topic orders --encode value=avro --register order.avsc --input orders.jsonl
    """
    from brokerless.cli.input import open_rows
    from brokerless.produce.producer import Producer, row_encoder

    settings = _settings(configs, path, topic)
    # Read the first rows before anything is created, so that unreadable input changes nothing.
    encoder = None if encode is None else row_encoder(encode, path, topic)
    batches = open_rows(source, format_of(source, form), bytes_as, [] if encoder is None else encoder.parts)
    first = list(islice(batches, 1))
    if encoder is not None and first:
        with _placed(first[0].place):
            encoder.batch(first[0].rows)
    if keep_offsets and magic == 2 and first and _has_no_epochs(first[0].rows):
        terminal.say(
            "note: the first records have no leader epoch, so they get leader epoch 0. To keep the leader epochs of "
            "the old log, name leaderEpoch in --columns when you read it",
            err=True,
        )
    producer = Producer(
        path,
        topic,
        partitions=partitions,
        topic_id=topic_id,
        compression=compression,
        compression_level=compression_level,
        batch_size=batch_size,
        idempotent=idempotent,
        transactional_id=transactional_id,
        keep_offsets=keep_offsets,
        magic=magic,
        sole_replica=sole_replica,
        broker_config=broker_config,
        metadata=metadata,
        release=release,
        encode=encoder,
        **settings,
    )
    try:
        with producer, Progress(prints=False) as progress:
            sent = 0
            if transactional_id is not None:
                producer.begin()
            for rows, place in chain(first, batches):
                with _placed(place):
                    producer.send(rows)
                sent += rows.num_rows
                progress(f"{sent:,} records")
            if transactional_id is not None:
                producer.commit()
    except BaseException:
        if producer.records:
            terminal.say(
                f"{producer.records:,} records were written to {topic} in {path} before the error below, and are not "
                "removed. If you produce the same input again, they are written a second time. With "
                "--transactional-id, readers with read_committed see all records or none",
                err=True,
            )
        raise
    terminal.say(f"{counted(producer.records, 'record')} written to {topic} in {path}", err=True)


@contextlib.contextmanager
def _placed(place: Callable[[int], str]) -> Iterator[None]:
    """Name the place of a refused row in the input, where an error has its index in the rows that were sent."""
    try:
        yield
    except (BrokerlessError, ValueError) as error:
        if error.args and isinstance(error.args[0], str):
            named = _ROW.sub(lambda found: f"{found[1]}{place(int(found[2]))}", error.args[0])
            error.args = (named, *error.args[1:])
        raise


def _has_no_epochs(rows: pa.RecordBatch) -> bool:
    if not rows.num_rows:
        return False
    return "leaderEpoch" not in rows.schema.names or rows["leaderEpoch"].null_count == rows.num_rows


def _settings(configs: tuple[str, ...], path: str, topic: str) -> dict[str, Any]:
    from brokerless.layout.topic_config import TopicConfig
    from brokerless.log_dir.log_dirs import LogDirs

    given = {}
    for config in configs:
        name, equals, value = config.partition("=")
        if not equals:
            raise click.UsageError(f"--config {config}: NAME=VALUE is expected, such as retention.ms=-1")
        given[name.strip()] = value
    if given and os.path.isdir(path) and os.listdir(path) and topic in LogDirs(path).topics():
        raise click.UsageError(
            f"--config is only for new topics, but {topic} exists: change its configs in its cluster"
        )
    return TopicConfig.named(given)
