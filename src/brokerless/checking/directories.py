"""The check of a log directory without its logs: names, ids, checkpoints, and partitions against the metadata."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from brokerless.checking.finding import Finding
from brokerless.errors import BrokerlessError, CorruptRecordError
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.layout.log_dir_files import LogDirFiles, different_shutdowns
from brokerless.log_dir.start_faults import (
    absent_partitions,
    conflicting_ids,
    doubled_partitions,
    foreign_ids,
    missing_ids,
    names_taken_from_checkpoints,
    overlooked_checkpoints,
    partition_faults,
    start_faults,
    taken_names,
)
from brokerless.metadata.directory import CutSnapshotError, has_metadata_log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from brokerless.layout.checkpoints import MetaProperties
    from brokerless.log_dir.log_dirs import LogDirs
    from brokerless.log_dir.start_faults import Fault
    from brokerless.state.cluster import ClusterState

# The topic of the coordinators of transactions (Topic.TRANSACTION_STATE_TOPIC_NAME).
_COORDINATORS = "__transaction_state"


class UnreadableError(CorruptRecordError):
    """The error for metadata that are not known because a file cannot be read."""


def check_directory(root: LogDirFiles, beside: Collection[str]) -> Iterator[Finding]:
    """Check the names and small files of one log directory. `beside` are its broker's other log directories."""
    yield from map(_of_fault, (*start_faults(root.path, beside), *missing_ids(root.path, beside)))
    yield from map(_of_fault, names_taken_from_checkpoints(root))
    for file, message in overlooked_checkpoints(root.path):
        code = "watermarks-damaged" if file.endswith(checkpoints.HIGH_WATERMARKS) else "checkpoint-reset"
        yield Finding(code=code, path=file, message=message)
    for name in storage.list_subdirectories(root.path):
        with suppress(ValueError):
            parsed = file_names.parse_directory_name(name)
            if parsed.leftover:
                yield Finding(
                    code="stray" if parsed.leftover == "stray" else "leftover",
                    topic=parsed.topic,
                    partition=parsed.partition,
                    path=f"{root.path}/{name}",
                    message=f"a partition's directory in the state {parsed.leftover!r}",
                )
            # A broker also loads directories that it is about to delete. A replica that is being moved here is checked
            # as a log.
            if parsed.leftover in ("delete", "stray"):
                yield from map(_of_fault, partition_faults(f"{root.path}/{name}"))


def check_blank(paths: Iterable[str], beside: Collection[str]) -> Iterator[Finding]:
    """Check directories of new disks, which have no files, against the broker's other directories."""
    for path in paths:
        yield from map(_of_fault, missing_ids(path, beside))


def _of_fault(fault: Fault) -> Finding:
    return Finding(code=fault.code, path=fault.path, message=fault.finding)


def check_ids(paths: Iterable[str]) -> Iterator[Finding]:
    """Check whether the ids of each broker's directories are consistent."""
    by_node: dict[int | None, dict[str, MetaProperties]] = {}
    for path in paths:
        file = f"{path}/{checkpoints.META_PROPERTIES}"
        # Damage is another finding.
        with suppress(CorruptRecordError, OSError):
            meta = checkpoints.parse_meta_properties(storage.read_all(file))
            by_node.setdefault(meta.node_id, {})[path] = meta
    for metas in by_node.values():
        yield from map(_of_fault, conflicting_ids(metas))
    for path, message in different_shutdowns(map(LogDirFiles, {path for metas in by_node.values() for path in metas})):
        yield Finding(code="shutdowns-differ", path=f"{path}/{checkpoints.CLEAN_SHUTDOWN}", message=message)


def check_doubled(roots: Iterable[LogDirFiles]) -> Iterator[Finding]:
    """Check whether a broker has two replicas of a partition, in one of its directories or in two."""
    by_node: dict[int | str, list[str]] = {}
    # If one directory is a copy of another, every partition is in both. `check_ids` reports that by the directory.id.
    for root in {root.directory_id or root.path: root for root in roots}.values():
        node = root.path if root.node_id is None else root.node_id
        names = storage.list_subdirectories(root.path)
        by_node.setdefault(node, []).extend(f"{root.path}/{name}" for name in names)
    for directories in by_node.values():
        yield from map(_of_fault, doubled_partitions(directories))


def known_cluster(paths: Sequence[str]) -> ClusterState | ValueError | BrokerlessError:
    """Return the metadata of the cluster, or the error that explains why they are not known."""
    from brokerless.state.cluster import cluster  # noqa: PLC0415 - Arrow is slow to import

    try:
        return cluster(*paths)
    except (ValueError, BrokerlessError) as error:
        return error
    except FileNotFoundError:
        raise
    except OSError as error:
        return UnreadableError(f"it cannot be read: {error.strerror or error}", path=error.filename)


def check_cluster(
    paths: Sequence[str], directories: LogDirs, state: ClusterState | ValueError | BrokerlessError
) -> Iterator[Finding]:
    """Compare partitions with the cluster's metadata, and their open transactions with the coordinators' state.

    Args:
        paths: the log directories.
        directories: the contents of these log directories.
        state: the metadata, from `known_cluster`.
    """
    # `state` is the newest metadata of all nodes. But each node reads its own copy when it starts, so check all copies.
    own = [root.path for root in directories.roots if has_metadata_log(root.path)]
    states = [state, *(known_cluster([path]) for path in own if len(directories.roots) > 1)]
    yield from dict.fromkeys(found for one in states for found in _damage(one, paths))
    if not isinstance(state, ValueError | BrokerlessError):
        yield from _placed(directories, state)
    elif not isinstance(state, BrokerlessError):
        for root in directories.roots:
            left = directories.leftovers()
            given_up = any(one.kind == "stray" and os.path.dirname(one.path) == root.path for one in left)
            if root.is_kraft and (given_up or any(log.root is root for log in directories.logs(all_replicas=True))):
                yield Finding(code="metadata-missing", path=root.path, message=str(state))
    if any(log.topic == _COORDINATORS for log in directories.logs(all_replicas=True)):
        from brokerless.state.transactions import transactions  # noqa: PLC0415 - Arrow is slow to import

        # Files that cannot be read are findings of other logs.
        with suppress(BrokerlessError, ValueError, OSError):
            found = storage.despite_disk_errors(transactions, *paths)
            yield from hanging(found, lambda topic, partition: directories.log(topic, partition).path)


def hanging(table: pa.Table, path_of: Callable[[str, int], str]) -> Iterator[Finding]:
    """Yield the transactions that no coordinator will end.

    Args:
        table: the transactions, as `transactions` returns them.
        path_of: returns the directory of a partition.
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
                message=f"a transaction of producer {producer}, epoch {epoch}, is open from offset {offset} on",
            )


def _damage(state: ClusterState | ValueError | BrokerlessError, paths: Sequence[str]) -> Iterator[Finding]:
    """Yield the faults of metadata that keep a controller from starting."""
    if isinstance(state, BrokerlessError):
        path, position = getattr(state, "path", None) or paths[0], getattr(state, "position", None)
        path = storage.as_given(path, *paths)
        # The metadata that a new cluster starts with are checked with the small files of their directory.
        if not path.endswith(checkpoints.BOOTSTRAP):
            code = "metadata-cut" if isinstance(state, CutSnapshotError) else "metadata-damaged"
            code = "file-unreadable" if isinstance(state, UnreadableError) else code
            yield Finding(code=code, path=path, position=position, message=str(state.args[0]))
    elif not isinstance(state, ValueError) and state.refusal is not None:
        yield Finding(code="metadata-damaged", path=state.path, message=state.refusal)


def _placed(directories: LogDirs, state: ClusterState) -> Iterator[Finding]:
    """Yield partitions that a broker will not serve, and absent partitions that the metadata place here."""
    logs = [log for log in directories.logs(all_replicas=True) if log.topic not in (None, file_names.METADATA_TOPIC)]
    clusters = {root.path: state.of_directory(root, directories.roots) for root in directories.roots}
    for log in logs:
        # Damaged and unreadable files are other findings.
        with suppress(CorruptRecordError, OSError):
            unserved = clusters[log.root.path].unserved((log.topic or "", log.partition or 0), log.topic_id)
            # A missing id is found without the metadata.
            if unserved is not None and unserved.code != "topic-id-missing":
                yield Finding(
                    code=unserved.code, topic=log.topic, partition=log.partition, path=log.path, message=unserved.why
                )
    for path, topic in sorted({(log.root.path, str(log.topic)) for log in logs}):
        try:
            clusters[path].config_of(topic)
        except ValueError as error:
            yield Finding(code="metadata-damaged", topic=topic, path=state.path, message=str(error))
    for cluster in clusters.values():
        yield from map(_of_fault, (*foreign_ids(cluster), *taken_names(cluster)))
    yield from _absent_directories(directories, state)
    for one in absent_partitions(state.rows, directories.roots):
        code = "partition-lost" if one.is_lost else "partition-missing"
        message = f"{one.why}; {one.cure}" if one.strays else one.why
        yield Finding(code=code, topic=one.topic, partition=one.partition, path=one.path, message=message)


def _absent_directories(directories: LogDirs, state: ClusterState) -> Iterator[Finding]:
    """Yield a finding for each broker that registered more log directories than are given."""
    for row in state.rows("brokers"):
        known = set(row["log_dirs"] or ())
        mine = [root for root in directories.roots if root.node_id == row["broker_id"]]
        absent = sorted(known - {root.directory_id for root in mine})
        if mine and len(mine) < len(known):
            message = (
                f"node {row['broker_id']} registered {len(known)} log directories, but the paths include only "
                f"{len(mine)} of them"
            )
            yield Finding(
                code="directory-absent",
                path=mine[0].path,
                message=f"{message}; the ids of the others: {', '.join(absent)}",
            )
