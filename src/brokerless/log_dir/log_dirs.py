"""`LogDirs`: the log directories of one broker or several, read as one set of topics."""

from __future__ import annotations

import os
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from brokerless.arguments import check_partition, check_paths, listed_few, some_or_all, unknown_partition
from brokerless.io import storage
from brokerless.layout import commit_journal, file_names
from brokerless.layout.file_names import InactivePartition, chosen_topics, is_chosen
from brokerless.layout.log_dir_files import LogDirFiles, hint_at_log_dirs, partitions_in
from brokerless.log.frames import pandas_frame, polars_frame
from brokerless.log.log import Log
from brokerless.log.log_reader import LogReader
from brokerless.log.matches import Matches
from brokerless.log.registry import COLUMNS, partitions_beside, schemas_of
from brokerless.log.search import Search
from brokerless.log_dir.key_partitions import likely_first
from brokerless.metadata.directory import has_metadata_log
from brokerless.notes import note
from brokerless.schemas.schema import SCHEMAS_TOPIC
from brokerless.values.decoding import Decoding
from brokerless.values.forms import Forms
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from brokerless.arguments import Time
    from brokerless.log.dataset import LogDataset
    from brokerless.log.offset_range import EndOffset, IsolationLevel, StartOffset
    from brokerless.log.read_options import ReadOptions
    from brokerless.log.reader import Reader
    from brokerless.log.search import Headers, Texts
    from brokerless.log.split import OnCorrupt
    from brokerless.schemas.store import SchemaStore

_Forms = TypeVar("_Forms", bound=Forms)


# The attempts at a complete listing, if partitions disappear during each listing.
_LOOKS = 3
_GIVEN_UP = "a broker renamed -stray (to read them, give their paths)"


class LogDirs:
    """Kafka logs for reading: log directories (roots), partition directories, or single `.log` files.

    Roots of different brokers (`node.id`) may hold replicas of the same partition. Only one replica is read: the
    replica with the highest last leader epoch. If several have this epoch, the one with the highest log end offset is
    read.

    Args:
        paths: one or more paths.

    Attributes:
        roots: the log directories, in the order of the paths.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is neither a log directory, a partition directory nor a `.log` file; or two roots belong to
            different clusters.

    >>> LogDirs(SAMPLE_DIR).topics()
    ['__transaction_state', 'codec-mixed', 'headers', 'multi-partition', 'txn-commit-abort']
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        check_paths("LogDirs", paths)
        if not paths:
            raise ValueError("no path: a log directory, a partition directory or a .log file is needed")
        self._paths = [os.fspath(path) for path in paths]
        for _ in range(_LOOKS):
            self.roots: list[LogDirFiles] = []
            self._logs: list[Log] = []
            self._leftovers: list[InactivePartition] = []
            self._seen: set[str] = set()
            are_complete = [self._add(path) for path in self._paths]
            if all(are_complete):
                break
        self._check()

    def __repr__(self) -> str:
        return f"LogDirs({', '.join(map(repr, self._paths))})"

    def _repr_html_(self) -> str:
        import html  # noqa: PLC0415 - slow to import at every start of the command

        partitions = Counter(replicas[0].topic for replicas in self._by_partition)
        rows = "".join(f"<tr><td>{html.escape(topic)}</td><td>{partitions[topic]}</td></tr>" for topic in self.topics())
        return f"<b>{html.escape(repr(self))}</b><table><tr><th>topic</th><th>partitions</th></tr>{rows}</table>"

    def __iter__(self) -> Iterator[Log]:
        return iter(self.logs())

    def __len__(self) -> int:
        return len(self._by_partition)

    @property
    def given_roots(self) -> list[LogDirFiles]:
        """The log directories among the paths, without the parents of single partitions."""
        given = {storage.absolute(path) for path in self._paths}
        return [root for root in self.roots if storage.absolute(root.path) in given]

    def in_words(self) -> str:
        """Return the paths as text, with the log directories that hold single partitions."""
        paths = ", ".join(self._paths)
        around = [root.path for root in self.roots if root not in self.given_roots and root.is_there]
        are = "is the log directory" if len(around) == 1 else "are the log directories"
        return f"{paths}; {listed_few(around)} {are} around" if around else paths

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted. Internal topics (`__consumer_offsets`) are included."""
        return sorted({log.topic for log in self._logs if log.topic is not None})

    def logs(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        *,
        all_replicas: bool = False,
    ) -> list[Log]:
        """Return one log per partition, sorted by topic and partition.

        Args:
            topics: the topics to return, by name or glob (`orders-*`); None: all. A glob chooses internal topics only
                if it begins with `_`.
            partitions: the partition numbers to return; None: all.
            all_replicas: return every replica of a partition, in the order of the paths, without comparing them.

        Raises:
            ValueError: a topic or partition does not exist, or a list is empty; or, without `all_replicas`, one broker
                has two directories of a partition.
            TypeError: `topics` is a string, or a partition is not a number.

        >>> [(log.name, log.log_end_offset) for log in LogDirs(SAMPLE_DIR).logs(["headers"])]
        [('headers-0', 120)]
        """
        named, numbers = some_or_all("topics", topics), some_or_all("partitions", partitions)
        # Compare the replicas of the chosen partitions only: comparing opens files, and damage elsewhere must not
        # matter.
        chosen = self._by_partition
        if named is not None:
            wanted = set(topics_in(self, named))
            chosen = [replicas for replicas in chosen if replicas[0].topic in wanted]
        if numbers is not None:
            for number in numbers:
                check_partition(number)
            known = {replicas[0].partition for replicas in chosen if replicas[0].partition is not None}
            for number in sorted(set(numbers) - known):
                raise unknown_partition(number, known)
            chosen = [replicas for replicas in chosen if replicas[0].partition in numbers]
        if all_replicas:
            return [log for replicas in chosen for log in replicas]
        for replicas in chosen:
            _refuse_doubled(replicas)
        return [sorted_replicas(replicas)[0] for replicas in chosen]

    def readable(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        *,
        all_replicas: bool = False,
    ) -> list[Log]:
        """Return the logs that a read covers: those of `logs`, without Kafka's internal topics unless they are named.

        An internal topic is named in `topics`, or by the path of its partition directory or file.
        """
        logs = self.logs(topics, partitions, all_replicas=all_replicas)
        if topics is not None:
            return logs
        if strays := self._strays():
            note(f"directories that {_GIVEN_UP} are not read: {listed_few(strays)}")
        named = {storage.absolute(path) for path in self._paths}
        return [log for log in logs if storage.absolute(log.path) in named or not file_names.is_internal(log.topic)]

    def read(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        *,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
        decode: Decoding | Mapping[str, object] | str | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> Reader:
        """Read the rows of several partitions, one after the other. Each partition is planned when its turn comes.

        Args:
            topics: the topics to read; None: all but Kafka's internal ones.
            partitions: the partition numbers to read; None: all.
            start_offset: see `Log.plan`; it applies to each partition.
            end_offset: see `Log.plan`.
            start_timestamp: see `Log.plan`.
            end_timestamp: see `Log.plan`.
            isolation_level: see `Log.plan`.
            on_corrupt: see `Log.plan`.
            columns: the columns to return, in this order; see `read_split`.
            check_crcs: verify checksums.
            limit: stop after this many rows.
            decode: decode keys and values: see `Log.read`. "registry" takes the schemas of the topic `_schemas` in
                these log directories.
            filter: a pyarrow expression that the rows must meet: see `Log.read`. One on `topic` or `partition` leaves
                out logs.

        Raises:
            ValueError: a topic or partition does not exist, or there is no topic `_schemas`.
            OffsetOutOfRangeError: raised when the reader reaches a partition that does not have the offset.
            CorruptRecordError: raised at the damage, after all rows before it were returned.

        >>> LogDirs(SAMPLE_DIR).read(columns=["topic", "offset"], limit=2).read_all().to_pylist()
        [{'topic': 'codec-mixed', 'offset': 0}, {'topic': 'codec-mixed', 'offset': 1}]
        """
        logs = self.readable(topics, partitions)
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
            "decode": self._decoding(decode),
            "filter": filter,
        }
        return LogReader(logs, options)

    def _decoding(self, decode: Decoding | Mapping[str, object] | str | None) -> Decoding | None:
        return None if decode is None else self.with_schemas(Decoding.of(decode))

    def dataset(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        **options: Unpack[ReadOptions],
    ) -> LogDataset:
        """Return rows as a `pyarrow.dataset.Dataset`, of which DuckDB, Polars and other engines read what they need.

        Args:
            topics: the topics, by name or glob; None: all but Kafka's internal ones.
            partitions: the partition numbers; None: all.
            options: as of `read`. `columns` names all columns that there are.

        Raises:
            ValueError: a topic, a partition or a column does not exist, or there is no topic `_schemas`.

        >>> import pyarrow.compute as pc
        >>> rows = LogDirs(SAMPLE_DIR).dataset(["multi-partition"])
        >>> rows.to_table(["offset"], filter=(pc.field("partition") == 2) & (pc.field("offset") < 3)).to_pydict()
        {'offset': [0, 1, 2]}
        """
        from brokerless.log.dataset import LogDataset  # noqa: PLC0415 - slow to import at every start of the command

        logs = self.readable(topics, partitions)
        options["decode"] = self._decoding(options.get("decode"))
        return LogDataset(logs, options)

    def __getitem__(self, topic: str) -> Topic:
        """Return a topic.

        Raises:
            ValueError: it does not exist.

        >>> LogDirs(SAMPLE_DIR)["headers"].to_table(columns=["offset"], limit=2).to_pydict()
        {'offset': [0, 1]}
        """
        if not isinstance(topic, str):
            raise TypeError(f"{topic!r} is not the name of a topic")
        self.logs([topic])
        return Topic(self, topic)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> None:
        # pandas would make a table of the logs, as objects.
        raise TypeError("LogDirs is no array: log_dirs.to_pandas(topics) returns a data frame")

    def to_polars(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        **options: Unpack[ReadOptions],
    ) -> pl.DataFrame:
        """Read rows into a data frame of polars. The arguments are those of `read`.

        >>> LogDirs(SAMPLE_DIR).to_polars(["headers"], columns=["offset"], limit=3).height
        3
        """
        return polars_frame(self.to_table(topics, partitions, **options))

    def to_pandas(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        **options: Unpack[ReadOptions],
    ) -> pd.DataFrame:
        """Read rows into a data frame of pandas. The arguments are those of `read`.

        >>> len(LogDirs(SAMPLE_DIR).to_pandas(["headers"], columns=["offset"], limit=3))
        3
        """
        return pandas_frame(self.to_table(topics, partitions, **options))

    def to_table(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
        *,
        start_offset: StartOffset | None = None,
        end_offset: EndOffset | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        on_corrupt: OnCorrupt = "raise",
        columns: Sequence[str] | None = None,
        check_crcs: bool = True,
        limit: int | None = None,
        decode: Decoding | Mapping[str, object] | str | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    ) -> pa.Table:
        """Read the rows of several partitions into one table in memory. The arguments are those of `read`.

        With `on_corrupt="skip"`, a warning names each lost range.

        Raises:
            ValueError: a topic or partition does not exist, or there is no topic `_schemas`.
            OffsetOutOfRangeError: a partition does not have the offset.
            CorruptRecordError: a log is damaged, and `on_corrupt` is "raise".

        >>> LogDirs(SAMPLE_DIR).to_table(["multi-partition"], columns=["partition", "offset"], limit=2).to_pylist()
        [{'partition': 0, 'offset': 0}, {'partition': 0, 'offset': 1}]
        """
        reader = self.read(
            topics,
            partitions,
            start_offset=start_offset,
            end_offset=end_offset,
            start_timestamp=start_timestamp,
            end_timestamp=end_timestamp,
            isolation_level=isolation_level,
            on_corrupt=on_corrupt,
            columns=columns,
            check_crcs=check_crcs,
            limit=limit,
            decode=decode,
            filter=filter,
        )
        return reader.read_all()

    def find(
        self,
        topics: Iterable[str] | None = None,
        partitions: Iterable[int] | None = None,
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
        """Find records: those that meet all of these conditions, partition after partition.

        With `key` and `exact`, the partitions to which the default partitioner sends these keys come first.

        A batch whose bytes do not contain the text is left out after its checksum, without a look at its records.

        Args:
            topics: the topics to search, by name or glob; None: all but Kafka's internal ones.
            partitions: the partition numbers to search; None: all.
            any: a condition, as all arguments below: see `Log.find`.
            key: see `Log.find`.
            value: see `Log.find`.
            headers: see `Log.find`.
            exact: see `Log.find`.
            regex: see `Log.find`.
            ignore_case: see `Log.find`.
            null_value: see `Log.find`.
            invert: see `Log.find`.
            producer_ids: see `Log.find`.
            around: see `Log.find`.
            options: as of `read`: offsets, times, `isolation_level`, `on_corrupt`, `columns`, `check_crcs`, `limit` (of
                matches) and `decode`.

        Raises:
            ValueError: nothing is sought, a pattern does not compile, or as `read` raises it.
            CorruptRecordError: raised at the damage, after all matches before it were returned.

        >>> rows = LogDirs(SAMPLE_DIR).find(["headers"], key="k1", columns=["partition", "offset"])
        >>> rows.read_all().num_rows, rows.searched
        (32, 120)
        """
        logs = self.readable(topics, partitions)
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
        options["decode"] = self._decoding(options.get("decode"))
        first, notes = likely_first(logs, search.whole_keys)
        matches = Matches(first, search, options, around=around)
        matches.notes += notes
        return matches

    def with_schemas(self, decode: _Forms) -> _Forms:
        """Return a `Decoding` or `Encoding` with its schemas: if it has none, those in the topic `_schemas`.

        Raises:
            ValueError: it needs schemas, and there is no such topic.
        """
        return decode.with_schemas(lambda: self._schemas)

    @cached_property
    def _schemas(self) -> SchemaStore:
        if SCHEMAS_TOPIC in self.topics():
            logs = self.logs([SCHEMAS_TOPIC])
        else:
            logs = LogDirs(*partitions_beside(self.roots)).logs()
        return schemas_of({log.path: log.read(on_corrupt="skip", columns=COLUMNS) for log in logs})

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of one partition.

        Raises:
            ValueError: the partition does not exist.

        >>> LogDirs(SAMPLE_DIR).log("headers", 0).log_start_offset
        0
        """
        return self.logs([topic], [partition])[0]

    def replicas(self, topic: str, partition: int) -> list[Log]:
        """Return all replicas of a partition. Reads use the first one.

        Raises:
            ValueError: the partition does not exist.
        """
        self.log(topic, partition)
        return sorted_replicas([log for log in self._logs if (log.topic, log.partition) == (topic, partition)])

    def leftovers(self) -> list[InactivePartition]:
        """Return the directories of deleted, stray and future partitions, sorted by path. Reads skip them."""
        return sorted(self._leftovers)

    def moving(self, topics: Iterable[str] | None = None) -> list[Log]:
        """Return the replicas that a broker was moving to another disk (`-future`), sorted by path.

        When such a replica has caught up, a broker replaces the current replica with it. Reads skip it.

        Args:
            topics: the topics whose replicas are returned, by name or glob; None: all.
        """
        names = some_or_all("topics", topics)
        return [
            Log(one.path, root=self._root(os.path.dirname(one.path)))
            for one in self.leftovers()
            if one.kind == "future" and (names is None or is_chosen(one.topic, names))
        ]

    def _strays(self) -> list[str]:
        """Return the directories of stray partitions that have no other directory."""
        present = {(log.topic, log.partition) for log in self._logs}
        return [
            one.path for one in self.leftovers() if one.kind == "stray" and (one.topic, one.partition) not in present
        ]

    @cached_property
    def _by_partition(self) -> list[list[Log]]:
        found: dict[tuple[str, int, str], list[Log]] = {}
        for log in self._logs:
            # single files, and directories not named <topic>-<partition>, are not replicas
            alone = "" if log.topic is not None and not log.files.is_file else log.path
            found.setdefault((log.topic or "", log.partition or 0, alone), []).append(log)
        return [found[key] for key in sorted(found)]

    def _add(self, path: str) -> bool:
        """Add the logs at a path. Return False if a listed partition disappeared.

        A running broker deletes topics, and moves partitions to other directories, during the listing.
        """
        names = _names(path)
        if names is None or file_names.is_partition_directory(names) or (not names and _parsed(path)):
            self._add_log(path, None)
            return True
        found, pending = commit_journal.list_consistent(path)
        for name in found:
            if not file_names.is_utf8(name):
                what = "the name is not UTF-8, and a broker does not see it"
                note(f"not read: {path}/{name}: {what}")
        is_root = LogDirFiles.is_root(names)
        chosen = found if is_root else partitions_in(path, found)
        directories = [(found[name], parsed) for name in sorted(chosen) if (parsed := _parsed(name))]
        if not directories and not is_root:
            what = "is not a log directory, a partition directory or a .log file"
            raise ValueError(f"nothing to read: {path!r} {what}{hint_at_log_dirs(path)}")
        root = self._root(path)
        # The list of directories and the checkpoints must show the same state.
        root.journal = pending
        is_complete = True
        for directory, parsed in directories:
            if parsed.leftover:
                self._leftovers.append(InactivePartition(directory, parsed.topic, parsed.partition, parsed.leftover))
                continue
            try:
                self._add_log(directory, root)
            except FileNotFoundError:
                if storage.is_directory(directory):
                    raise
                is_complete = False
        return is_complete

    def _add_log(self, path: str, root: LogDirFiles | None) -> None:
        place = storage.absolute(path if root else commit_journal.active_path(path))
        if place not in self._seen:
            self._seen.add(place)
            log = Log(path, root=root)
            # All partitions of a log directory share one object for it.
            log.root = root or self._root(log.root.path)
            self._logs.append(log)

    def _root(self, path: str) -> LogDirFiles:
        for root in self.roots:
            if storage.absolute(root.path) == storage.absolute(path):
                return root
        self.roots.append(LogDirFiles(path))
        return self.roots[-1]

    def _check(self) -> None:
        if len(self.roots) > 1:
            clusters = {root.cluster_id: root.path for root in self.roots if root.cluster_id}
            if len(clusters) > 1:
                places = ", ".join(f"{cluster} in {path}" for cluster, path in clusters.items())
                raise ValueError(f"different clusters: {places}; read each alone")
        self._drop_formatted()

    def _drop_formatted(self) -> None:
        """Drop metadata logs that a node's formatting created and no controller has used.

        Formatting creates a metadata log where the configuration places it: in metadata.log.dir or, if that is not set,
        in the first of log.dirs. If a disk was formatted with another configuration, it keeps a second, unused metadata
        log.
        """
        by_node: dict[int, list[Log]] = {}
        for log in self._logs:
            node = log.root.node_id if log.topic == file_names.METADATA_TOPIC and not log.files.is_file else None
            if node is not None:
                by_node.setdefault(node, []).append(log)
        for logs in by_node.values():
            started = [log for log in logs if has_metadata_log(log.root.path)]
            # If no controller has started on any of them, only the configuration tells which one will be used.
            kept = started or logs[:1]
            self._logs = [log for log in self._logs if log not in logs or log in kept]


class Topic:
    """A topic of log directories: `LogDirs(path)["orders"]`.

    Attributes:
        name: its name.

    >>> import brokerless as bl
    >>> bl.LogDirs(SAMPLE_DIR)["multi-partition"]
    <Topic multi-partition: 4 partitions>
    """

    def __init__(self, directories: LogDirs, name: str) -> None:
        self._directories, self.name = directories, name

    def __repr__(self) -> str:
        return f"<Topic {self.name}: {counted(len(self.logs), 'partition')}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read().__arrow_c_stream__(requested_schema)

    @property
    def logs(self) -> list[Log]:
        """Its partitions, each as a `Log`, sorted."""
        return self._directories.logs([self.name])

    def read(self, **options: Unpack[ReadOptions]) -> Reader:
        """Read the rows of its partitions, one after the other; see `LogDirs.read`."""
        return self._directories.read([self.name], **options)

    def dataset(self, **options: Unpack[ReadOptions]) -> LogDataset:
        """Return its rows for an engine that reads datasets; see `LogDirs.dataset`."""
        return self._directories.dataset([self.name], **options)

    def to_table(self, **options: Unpack[ReadOptions]) -> pa.Table:
        """Read its rows into one table in memory; the options are those of `LogDirs.read`."""
        return self._directories.to_table([self.name], **options)

    def to_polars(self, **options: Unpack[ReadOptions]) -> pl.DataFrame:
        """Read its rows into a data frame of polars; the options are those of `LogDirs.read`."""
        return self._directories.to_polars([self.name], **options)

    def to_pandas(self, **options: Unpack[ReadOptions]) -> pd.DataFrame:
        """Read its rows into a data frame of pandas; the options are those of `LogDirs.read`."""
        return self._directories.to_pandas([self.name], **options)


def topics_in(directories: LogDirs, names: list[str]) -> list[str]:
    """Return the topics of log directories that names or globs select, sorted.

    Raises:
        ValueError: a name or a glob selects no topic, or only directories that reads skip.
    """
    return chosen_topics(names, directories.topics(), directories.leftovers())


def _names(path: str) -> list[str] | None:
    """Return the names in a directory; None if the path is not a directory, or is just being moved into place."""
    try:
        return storage.list_directory(path) if storage.is_directory(path) else None
    except FileNotFoundError:
        return None


def _parsed(path: str) -> file_names.DirectoryName | None:
    try:
        return file_names.parse_directory_name(os.path.basename(storage.absolute(path)))
    except ValueError:
        return None


def _refuse_doubled(replicas: list[Log]) -> None:
    """Refuse a partition if one broker has two directories for it, because the broker would not start."""
    by_broker: dict[int | str, Log] = {}
    for log in replicas if len(replicas) > 1 else ():
        node = log.root.node_id
        broker = log.root.path if node is None else node
        if by_broker.setdefault(broker, log) is not log:
            raise ValueError(f"{log.name} of node {node} is in two directories: {by_broker[broker].path}, {log.path}")


def sorted_replicas(replicas: list[Log]) -> list[Log]:
    """Sort replicas by last leader epoch, then by log end offset, both descending. The first one is the one to read.

    The leader of the highest epoch may truncate records that other replicas have, so those replicas come later.

    Raises:
        BrokerlessError: damage hides the last leader epoch or the end of one of several replicas.
    """

    def age(log: Log) -> tuple[int, int]:
        return (log.leader_epochs[-1].epoch if log.leader_epochs else -1, log.log_end_offset)

    return sorted(replicas, key=age, reverse=True) if len(replicas) > 1 else replicas
