"""A log directory around its logs: names, ids, checkpoints, and the cluster's metadata against its partitions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from brokerless.checking.finding import Finding
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.io import storage
from brokerless.layout import checkpoints, commit_journal, file_names
from brokerless.log_dir.start_faults import conflicting_ids, damaged_quorum_files, missing_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.layout.checkpoints import MetaProperties
    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.state.cluster import ClusterState

# The topic of the coordinators of transactions (Topic.TRANSACTION_STATE_TOPIC_NAME).
_COORDINATORS = "__transaction_state"


def check_directory(root: LogDirFiles) -> Iterator[Finding]:
    """Check the names and small files of one log directory."""
    path = root.path
    yield from _check_names(path)
    for name in checkpoints.OFFSET_CHECKPOINTS:
        file = f"{path}/{name}"
        if storage.exists(file):
            try:
                checkpoints.parse_offset_checkpoint(storage.read_all(file))
            except CorruptRecordError as error:
                yield Finding(code="checkpoint-damaged", path=file, message=str(error.args[0]))
    for message in damaged_quorum_files(path):
        yield Finding(code="quorum-damaged", path=path, message=message)
    if message := missing_ids(path):
        yield Finding(code="ids-missing", path=path, message=message)


def _check_names(path: str) -> Iterator[Finding]:
    for name in storage.list_subdirectories(path):
        # A broker does not see names that are not UTF-8.
        if name in (file_names.REMOTE_INDEXES, commit_journal.NAME) or not file_names.is_utf8(name):
            continue
        try:
            parsed = file_names.parse_directory_name(name)
        except ValueError as error:
            yield Finding(code="name-unknown", path=f"{path}/{name}", message=str(error))
            continue
        if parsed.leftover:
            yield Finding(
                code="leftover",
                topic=parsed.topic,
                partition=parsed.partition,
                path=f"{path}/{name}",
                message=f"a partition's directory in the state {parsed.leftover!r}",
            )


def check_ids(paths: Iterable[str]) -> Iterator[Finding]:
    """Check whether the ids of each broker's directories go together."""
    by_node: dict[int | None, dict[str, MetaProperties]] = {}
    for path in paths:
        file = f"{path}/{checkpoints.META_PROPERTIES}"
        if storage.exists(file):
            meta = checkpoints.parse_meta_properties(storage.read_all(file))
            by_node.setdefault(meta.node_id, {})[path] = meta
    for metas in by_node.values():
        for message in conflicting_ids(metas):
            yield Finding(code="ids-conflict", path=next(iter(metas)), message=message)


def known_cluster(paths: Sequence[str]) -> ClusterState | ValueError | BrokerlessError:
    """Return the metadata of the cluster, or why they are not known."""
    from brokerless.state.cluster import cluster  # noqa: PLC0415 - Arrow is slow to import

    try:
        return cluster(*paths)
    except (ValueError, BrokerlessError) as error:
        return error


def check_cluster(
    paths: Sequence[str], directories: LogDirs, state: ClusterState | ValueError | BrokerlessError
) -> Iterator[Finding]:
    """Check partitions against the cluster's metadata, and their open transactions against the coordinators.

    Args:
        paths: the log directories.
        directories: the same directories.
        state: the metadata, from `known_cluster`.
    """
    if isinstance(state, BrokerlessError):
        path, position = getattr(state, "path", None) or paths[0], getattr(state, "position", None)
        yield Finding(code="metadata-damaged", path=path, position=position, message=str(state.args[0]))
    elif not isinstance(state, ValueError):
        yield from _placed(directories, state)
    if any(log.topic == _COORDINATORS for log in directories.logs(all_replicas=True)):
        from brokerless.state.transactions import transactions  # noqa: PLC0415 - Arrow is slow to import

        with suppress(BrokerlessError, ValueError):
            yield from hanging(transactions(*paths), lambda topic, partition: directories.log(topic, partition).path)


def hanging(table: pa.Table, path_of: Callable[[str, int], str]) -> Iterator[Finding]:
    """Yield the transactions that no coordinator will end.

    Args:
        table: the transactions, as `transactions` returns them.
        path_of: gives the directory of a partition.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - Arrow is slow to import

    found: Any = table.filter(table["is_hanging"])["open"].combine_chunks()
    opened = pc.list_flatten(found)
    names = ("topic", "partition", "producer_epoch", "first_offset", "is_hanging")
    ids = table.filter(table["is_hanging"])["producer_id"].take(pc.list_parent_indices(found)).to_pylist()
    columns = (pc.struct_field(opened, name).to_pylist() for name in names)
    for producer, topic, partition, epoch, offset, is_hanging in zip(ids, *columns, strict=True):
        if is_hanging:
            yield Finding(
                code="transaction-hanging",
                topic=topic,
                partition=partition,
                path=path_of(topic, partition),
                start_offset=offset,
                message=f"producer {producer} with epoch {epoch} has a transaction open from offset {offset} on",
            )


def _placed(directories: LogDirs, state: ClusterState) -> Iterator[Finding]:
    """Yield partitions that the metadata do not have, and those that they place here and that are not here."""
    ids = {row["topic"]: row["topic_id"] for row in state.rows("topics")}
    logs = [log for log in directories.logs(all_replicas=True) if log.topic not in (None, file_names.METADATA_TOPIC)]
    for log in logs:

        def finding(code: str, message: str, log: Log = log) -> Finding:
            return Finding(code=code, topic=log.topic, partition=log.partition, path=log.path, message=message)

        expected = ids.get(str(log.topic))
        if expected is None:
            yield finding("partition-stray", f"the metadata at offset {state.offset} have no topic {log.topic!r}")
            continue
        with suppress(CorruptRecordError):
            if log.topic_id not in (None, expected):
                message = f"partition.metadata has topic id {log.topic_id}, the metadata have {expected}"
                yield finding("topic-id-differs", message)
    here = {root.directory_id: root for root in directories.roots if root.directory_id is not None}
    there = {(log.topic, log.partition, log.root.path) for log in logs}
    for row in state.rows("partitions"):
        for directory in row.get("directories") or ():
            root = here.get(directory)
            if root is not None and (row["topic"], row["partition"], root.path) not in there:
                yield Finding(
                    code="partition-missing",
                    topic=row["topic"],
                    partition=row["partition"],
                    path=root.path,
                    message=f"the metadata at offset {state.offset} place it on node {root.node_id}, in this directory",
                )
