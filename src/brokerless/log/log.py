"""`Log`: one topic-partition at rest, read with a consumer's semantics."""

from __future__ import annotations

import contextlib
from functools import cached_property, partial
from typing import TYPE_CHECKING

from brokerless.arguments import to_ms
from brokerless.errors import BrokerlessError
from brokerless.io import storage
from brokerless.log import offsets_for_times
from brokerless.log.frames import pandas_frame, polars_frame
from brokerless.log.log_reader import LogReader
from brokerless.log.matches import Matches
from brokerless.log.offset_range import bounds, check_word, stable_end, visible_end
from brokerless.log.partition_files import PartitionFiles
from brokerless.log.registry import COLUMNS, partitions_beside, schemas_of
from brokerless.log.search import Search
from brokerless.log.segment import NO_END
from brokerless.log.split import Split, make_splits
from brokerless.notes import collected, note
from brokerless.values.decoding import Decoding
from brokerless.wording import counted

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from brokerless.arguments import Time
    from brokerless.layout.checkpoints import LeaderEpoch
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.dataset import LogDataset
    from brokerless.log.defect import Defect
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.offsets_for_times import OffsetAndTimestamp
    from brokerless.log.read_options import ReadOptions
    from brokerless.log.reader import Reader
    from brokerless.log.search import Headers, Texts
    from brokerless.log.segment import Segment
    from brokerless.log.split import OnCorrupt
    from brokerless.schemas.store import SchemaStore

_TARGET_BYTES = 128 << 20


class Log:
    """A partition directory, or one of its `.log` files, open for reading.

    The parent of a partition directory is treated as the broker's log directory. Its checkpoints give the log start
    offset and the high watermark. A `.log` file is read as part of its partition. Outside a partition directory, its
    topic and partition are None.

    A log caches directory listings and small files. Create a new one to see later changes.

    Args:
        path: the partition directory or the `.log` file.
        root: the log directory that holds the partition. Logs that share this object share its cached files. None: the
            parent directory.

    Attributes:
        path: the path as given.
        topic: the topic; None if the directory name has none.
        partition: the partition number; None if the directory name has none.
        root: the log directory that holds the partition directory.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: the directory is not a partition directory, or the file is not a `.log` file.

    >>> log = Log(SAMPLE)
    >>> log.name, log.log_start_offset, log.log_end_offset
    ('headers-0', 0, 120)
    """

    def __init__(self, path: str | os.PathLike[str], *, root: LogDirFiles | None = None) -> None:
        # For brokerless's own modules. `Log` has a property for each of its facts that users need.
        self.files = files = PartitionFiles(path, root=root)
        self.path, self.root = files.path, files.root
        self.topic, self.partition = files.topic, files.partition

    def __repr__(self) -> str:
        # A directory's name is foreign data: `repr`, here without its quotes, escapes characters that control a
        # terminal.
        return f"<{' '.join(['Log', repr(self.name)[1:-1], *self._summary()])}>"

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415 - slow to import at every start of the command

        rows = "".join(f"<li>{html.escape(fact)}</li>" for fact in self._summary())
        return f"<b>{html.escape(self.name)}</b><ul>{rows}<li><code>{html.escape(self.path)}</code></li></ul>"

    def _summary(self) -> list[str]:
        """Return the offsets, segments and bytes; an empty list if the log cannot be read."""
        # From a second `Log`: a log gives each note once, at its first look-up, and a display must not use the notes
        # up.
        with contextlib.suppress(OSError, BrokerlessError, ValueError), collected() as notes:
            log = Log(self.path, root=self.root)
            start, end = log.log_start_offset, log.log_end_offset
            count = len(log.segments)
            size = sum(segment.size for segment in log.segments)
            facts = [f"offsets [{start}, {end})", f"{counted(count, 'segment')}", f"{size:,} bytes"]
            return [*facts, "with warnings"] if notes else facts
        return []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.read())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read().__arrow_c_stream__(requested_schema)

    def to_table(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
        decode: Decoding | Mapping[str, object] | str | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> pa.Table:
        """Read rows into one table in memory. The arguments are those of `read`.

        With `on_corrupt="skip"`, a warning names each lost range.

        Raises:
            CorruptRecordError: the log is damaged, and `on_corrupt` is "raise".

        >>> Log(SAMPLE).to_table(columns=["offset", "key"], limit=3).to_pydict()["offset"]
        [0, 1, 2]
        """
        reader = self.read(
            start_offset,
            end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            on_corrupt=on_corrupt,
            verify_transactions=verify_transactions,
            columns=columns,
            check_crcs=check_crcs,
            limit=limit,
            decode=decode,
            filter=filter,
        )
        return reader.read_all()

    @property
    def name(self) -> str:
        """`topic-partition`, as Kafka writes it; the path if the topic is not known."""
        return self.files.name

    @property
    def topic_id(self) -> str | None:
        """The topic id from partition.metadata (22 characters of URL-safe base64); None if the file is absent."""
        return self.files.topic_id

    @property
    def leader_epochs(self) -> list[LeaderEpoch]:
        """The entries of the leader-epoch-checkpoint; empty if the file is absent. Logs of magic 0 and 1 have none."""
        return self.files.leader_epochs

    @property
    def segments(self) -> list[Segment]:
        """The segments that a read covers, in offset order."""
        return self.files.segments

    @property
    def snapshots(self) -> list[int]:
        """The offsets of the producer snapshots that Kafka would keep, ascending."""
        return self.files.snapshots

    @property
    def log_start_offset(self) -> int:
        """The lowest offset of the log: the checkpointed one, or the first segment's base offset.

        This offset may lie inside a batch. It is below the local segments if older segments were moved to remote
        storage.
        """
        return self.files.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The lowest offset that can be read from this directory."""
        return self.files.local_log_start_offset

    @property
    def missing_offsets(self) -> tuple[int, int] | None:
        """The range [start, end) that belongs to the log but not to this directory: in remote storage, or deleted."""
        return self.files.missing_offsets

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch; if the end of the log is damaged, after the last batch before the damage."""
        return self.files.log_end_offset

    @property
    def high_watermark(self) -> int | None:
        """The last checkpointed high watermark, or None. This offset may lie outside the log's current offsets."""
        return self.files.high_watermark

    @property
    def recovery_point(self) -> int | None:
        """The last checkpointed recovery point (the first offset that may not have been flushed), or None."""
        return self.files.recovery_point

    @cached_property
    def last_stable_offset(self) -> int:
        """The end of a `read_committed` read, if all records are replicated.

        This end is the first offset of the earliest open transaction or, without one, the log end offset.
        """
        return stable_end(self.files, "latest")

    def plan(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        target_bytes: int | None = _TARGET_BYTES,
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
    ) -> list[Split]:
        """Divide a read into splits, which can be read anywhere and in any order: see `read_split`.

        Planning reads file names, small files and the batch headers at the end of the active segment. To look up times
        and transactions, it also reads the batch headers that no index covers. It reads records only to look up a time,
        and at most the records of one batch.

        Args:
            start_offset: the first offset to read. The default, "earliest", is the lowest offset in this directory:
                a note names the offsets in remote storage. "latest" is the end of the visible log. A negative number
                counts from there: -10 is ten offsets before the end, or "earliest" in a shorter log.
            end_offset: the offset to stop before. "latest" is the log end offset, "high-watermark" the checkpointed
                high watermark. The default is "high-watermark" while a live broker holds the directory's lock and
                has checkpointed one, because records above it may still be truncated. Otherwise it is "latest".
            start_timestamp: start at the first record with this time or a later time, found as a broker finds it; at
                the log end if no record is that late. In ms since 1970, a datetime or ISO 8601 text (UTC by default).
                The read includes damage directly before that record, because the damage may hide records of that time.
            end_timestamp: stop before the first record with this time or a later time; at the log end if no record is
                that late. If offsets are given too, the read covers only what both ranges include.
            isolation_level: "read_uncommitted", or "read_committed" to skip aborted transactions and stop at the
                last stable offset.
            target_bytes: the approximate number of file bytes in a split; None: whole files.
            on_corrupt: "raise", or "skip" to leave out damaged batches and report them in `Reader.lost`. With "skip",
                splits are whole files, and each file is read twice: first to find all sound batches.
            verify_transactions: walk the markers from the first segment and ignore the producer snapshots.

        Raises:
            OffsetOutOfRangeError: `start_offset` is below the lowest local offset or above the log end offset.
            CorruptRecordError: damage or missing records may hide the first record of a requested time. With "skip",
                no error is raised, and `Reader.lost` reports them if they lie directly before the first record found.
            ValueError: an unknown word, a negative time, `target_bytes` below 1, or "high-watermark" without a
                checkpointed high watermark.

        >>> [(split.start_offset, split.position) for split in Log(SAMPLE).plan(120)]
        [(120, 44630)]
        """
        check_word("on_corrupt", on_corrupt, ("raise", "skip"))
        if target_bytes is not None and target_bytes < 1:
            raise ValueError(f"target_bytes {target_bytes}: expected 1 or more")
        # The read itself meets the bytes that the disk cannot read.
        return storage.despite_disk_errors(
            partial(
                self._plan,
                start_offset,
                end_offset,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation_level=isolation_level,
                target_bytes=target_bytes,
                on_corrupt=on_corrupt,
                verify_transactions=verify_transactions,
            )
        )

    def _plan(
        self,
        start_offset: StartOffset | None,
        end_offset: EndOffset | None,
        *,
        start_timestamp: Time | None,
        end_timestamp: Time | None,
        isolation_level: IsolationLevel,
        target_bytes: int | None,
        on_corrupt: OnCorrupt,
        verify_transactions: bool,
    ) -> list[Split]:
        found = bounds(
            self.files,
            start_offset,
            end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            verify_transactions=verify_transactions,
            skips=on_corrupt == "skip",
        )
        # The missing records may include some of the time that was looked up.
        is_from_end = not isinstance(start_offset, str) and start_offset is not None and start_offset < 0
        is_open_start = start_offset in (None, "earliest") or start_timestamp is not None or is_from_end
        if is_open_start and found.start_offset == self.local_log_start_offset and self.files.missing_in_words:
            note(self.files.missing_in_words)
        expected = self.files.expected_end if found.is_to_end else None
        if expected is not None and not expected.is_certain:
            note(str(expected))
        splits = make_splits(
            found.stretches(self.files),
            topic=self.topic,
            partition=self.partition,
            start_offset=found.start_offset,
            aborted=found.aborted,
            target_bytes=target_bytes,
            on_corrupt=on_corrupt,
        )
        # The look-up of a time checks for missing records on its own.
        is_from_start = start_offset in (None, "earliest") and start_timestamp is None
        first = self.files.lost_before
        is_met = first is not None and (is_from_start or found.start_offset <= first.start_offset)
        missing = [first] if first is not None and is_met and first.start_offset < found.limit else []
        # A read reaches a transaction in doubt after the rows before it: it fails there or, with "skip", reports it.
        doubtful = [
            doubt.damage._replace(start_offset=doubt.first_offset, reason=doubt.reason)
            for doubt in sorted(found.doubts, key=lambda doubt: doubt.first_offset)
        ]

        def absent(missing: Defect, start: int) -> Split:
            return Split(
                path=missing.path,
                topic=self.topic,
                partition=self.partition,
                base_offset=start,
                position=0,
                end_position=0,
                start_offset=start,
                end_offset=found.limit if on_corrupt == "skip" else NO_END,
                on_corrupt=on_corrupt,
                missing=(missing,),
            )

        before = [absent(records, records.start_offset) for records in missing]
        return [*before, *splits, *(absent(records, found.start_offset) for records in doubtful)]

    def read(
        self,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        *,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        verify_transactions: bool = False,
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
        decode: Decoding | Mapping[str, object] | str | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> Reader:
        """Read rows in offset order.

        Args:
            start_offset: see `plan`.
            end_offset: see `plan`.
            start_timestamp: see `plan`.
            end_timestamp: see `plan`.
            isolation_level: see `plan`.
            on_corrupt: see `plan`.
            verify_transactions: see `plan`.
            columns: see `read_split`.
            check_crcs: see `read_split`.
            limit: stop after this many rows.
            decode: decode keys and values, as `{"value": "registry", "key": "utf8"}`: see `Decoding`. The columns
                `key` and `value` then have the decoded form. More columns are there for each of them:
                `valueBytes`, the bytes of a value that is not decoded; `decodeError`, why it does not decode; with
                "registry" also `valueFraming`, `valueSchemaId`, `valueSubject` and `valueVersion`; and for keys
                `keyBytes`, `keyDecodeError` and so on. The first two are among the default columns.
            filter: a pyarrow expression that the rows must meet, also on columns that are not returned. Bounds of
                offsets and times leave out segments and parts of them. Keys and values that are equal to some, begin
                with or contain some are found without making rows of the others. What is left out is not read, so
                damage there is not met.

        Returns:
            An iterator of `pyarrow.RecordBatch`, each of about 65,536 rows or 2 MB.

        Raises:
            CorruptRecordError: raised at the damage, after all rows before it were returned.
            RecordDeserializationError: a key or value does not decode, and `decode` is to raise an error.
            ValueError: "registry" is named, and there is no topic `_schemas` beside the log.

        >>> log = Log(SAMPLE)
        >>> sum(rows.num_rows for rows in log.read(start_offset=100, columns=["offset", "value"]))
        20
        """
        options: ReadOptions = {
            "start_offset": start_offset,
            "end_offset": end_offset,
            "start_timestamp": start_timestamp,
            "end_timestamp": end_timestamp,
            "isolation_level": isolation_level,
            "on_corrupt": on_corrupt,
            "columns": columns,
            "check_crcs": check_crcs,
            "limit": limit,
            "decode": self._with_schemas(decode),
            "filter": filter,
        }
        return LogReader([self], options, plans_now=True, verify_transactions=verify_transactions)

    def dataset(self, **options: Unpack[ReadOptions]) -> LogDataset:
        """Return the rows for an engine that reads datasets; see `LogDirs.dataset`.

        >>> Log(SAMPLE).dataset(columns=["offset", "key"]).count_rows()
        120
        """
        from brokerless.log.dataset import LogDataset  # noqa: PLC0415 - slow to import at every start of the command

        options["decode"] = self._with_schemas(options.get("decode"))
        return LogDataset([self], options)

    def to_polars(self, **options: Unpack[ReadOptions]) -> pl.DataFrame:
        """Read rows into a data frame of polars. The options are those of `read`.

        >>> Log(SAMPLE).to_polars(columns=["offset"], limit=3).height
        3
        """
        return polars_frame(self.to_table(**options))

    def to_pandas(self, **options: Unpack[ReadOptions]) -> pd.DataFrame:
        """Read rows into a data frame of pandas. The options are those of `read`.

        >>> len(Log(SAMPLE).to_pandas(columns=["offset"], limit=3))
        3
        """
        return pandas_frame(self.to_table(**options))

    def __array__(self, *_: object, **__: object) -> None:
        # pandas would make a table of the batches, as objects.
        raise TypeError("a Log is no array: log.to_pandas() returns a data frame")

    def find(
        self,
        *,
        any: Texts | None = None,  # noqa: A002 - the option's name
        key: Texts | None = None,
        value: Texts | None = None,
        headers: Headers | None = None,
        exact: bool = False,
        regex: bool = False,
        ignore_case: bool = False,
        null_value: bool = False,
        invert: bool = False,
        producer_ids: Iterable[int] = (),
        around: int = 0,
        **options: Unpack[ReadOptions],
    ) -> Matches:
        """Find records: those that meet all of these conditions, in offset order.

        A batch whose bytes do not contain the text is left out after its checksum, without a look at its records.

        Args:
            any: a text that the key, the value, or the name or the value of a header contains. Here and below, text or
                bytes, or several, of which one suffices, even thousands.
            key: a text that the key contains.
            value: a text that the value contains.
            headers: the names of headers that the record has; or a dict of names, each with a text that the header's
                value contains, or None.
            exact: a text is the whole field, not a part of it.
            regex: the texts are regular expressions, in the syntax of Rust's `regex`.
            ignore_case: upper and lower case are the same.
            null_value: the value is null.
            invert: find the records that do not meet all conditions.
            producer_ids: search only the batches of these producers.
            around: the number of records before and after each match that are returned, too. The rows then have the
                column `match`.
            options: as of `read`: offsets, times, `isolation_level`, `on_corrupt`, `columns`, `check_crcs`, `limit` (of
                matches) and `decode`.

        Raises:
            ValueError: nothing is sought, a pattern does not compile, or as `read` raises it.
            CorruptRecordError: raised at the damage, after all matches before it were returned.

        >>> Log(SAMPLE).find(key="k1", exact=True, limit=2, columns=["offset"]).read_all().to_pydict()
        {'offset': [1, 2]}
        """
        search = Search.of(
            any=any,
            key=key,
            value=value,
            headers=headers,
            exact=exact,
            regex=regex,
            ignore_case=ignore_case,
            null_value=null_value,
            invert=invert,
            producer_ids=producer_ids,
        )
        options["decode"] = self._with_schemas(options.get("decode"))
        return Matches([self], search, options, around=around)

    def _with_schemas(self, decode: Decoding | Mapping[str, object] | str | None) -> Decoding | None:
        """Return a decoding with its schemas: if it has none, those in the topic `_schemas` of the log directory."""
        if decode is None:
            return None
        return Decoding.of(decode).with_schemas(self._schemas)

    def _schemas(self) -> SchemaStore:
        logs = [Log(path) for path in partitions_beside([self.root])]
        return schemas_of({log.path: log.read(on_corrupt="skip", columns=COLUMNS) for log in logs})

    def scan(self, *, check_crcs: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the headers of all batches as Arrow, segment after segment, one row for each batch.

        The columns are `position size base_offset last_offset batch_length partition_leader_epoch magic crc attributes
        compression timestamp_type is_transactional is_control delete_horizon_ms last_offset_delta base_timestamp
        max_timestamp producer_id producer_epoch base_sequence last_sequence records_count`. The values equal what
        Kafka's accessors return: for a batch of v0 or v1, producer_id is -1 and records_count is null.

        Batches below the log start offset are included. `position` is the byte position in the segment's file. To scan
        one segment, call `scan` on an element of `segments`.

        Args:
            check_crcs: verify checksums and add the result as a column `is_valid`.

        Raises:
            CorruptRecordError: the framing is broken, or the last batch of an older segment is cut.

        >>> headers = next(Log(SAMPLE).scan())
        >>> headers["base_offset"][0].as_py(), headers["compression"][0].as_py()
        (0, 'none')
        """
        for segment in self.segments:
            yield from segment.scan(check_crcs=check_crcs)

    def offsets_for_times(
        self, timestamp: Time, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> OffsetAndTimestamp:
        """Return the offset for a time, as a broker does (ListOffsets). Remote segments are not searched.

        Args:
            timestamp: ms since 1970, a datetime or ISO 8601 text; or one of Kafka's numbers: -1 latest, -2 earliest,
                -3 largest timestamp, -4 earliest local, -5 latest in remote storage (answered as the offset before the
                first local one), -6 earliest pending upload (none if the log has no remote segments).
            isolation_level: with "read_committed", only offsets below the last stable offset are returned.

        Returns:
            `(offset, timestamp, leader_epoch)`. The offset is -1 if there is no answer. The timestamp is -1 except
            for times and for -3. The epoch of "latest" is the last one known, or 0 if the log has none (magic 0 and 1).

        Raises:
            CorruptRecordError: damage or missing records may hide the answer, because they are directly before it or,
                without an answer, at the log's end.
            ValueError: another negative number, or -6 for a log with remote segments.

        >>> Log(SAMPLE).offsets_for_times(-1).offset
        120
        """
        check_word("isolation_level", isolation_level, ("read_uncommitted", "read_committed"))
        end = stable_end(self.files) if isolation_level == "read_committed" else visible_end(self.files)
        return offsets_for_times.answer(self.files, to_ms("timestamp", timestamp), end)
