"""Faults that keep a broker from starting on log directories: in ids, and in files beside the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError, located
from brokerless.io import storage
from brokerless.layout import checkpoints, file_names
from brokerless.metadata.directory import has_topic_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from brokerless.metadata.topic_settings import Cluster

METADATA = f"{file_names.METADATA_TOPIC}-0"
# Uuid.METADATA_TOPIC_ID
_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def obstacles(cluster: Cluster, topics: Iterable[str] = ()) -> Iterator[str]:
    """Yield a sentence for each reason why a broker may not start on a log directory or serve it.

    Args:
        cluster: the cluster of the log directory.
        topics: the topics whose settings matter.
    """
    if missing := missing_ids(cluster.path):
        yield missing
    yield from damaged_quorum_files(cluster.path)
    if missing := cluster.missing_settings(topics):
        yield missing


def missing_ids(path: str) -> str:
    """Describe what a KRaft broker does if a log directory lacks its ids; "": it has them, or may not be a KRaft one.

    Without the file, only a metadata log or topic ids show that a directory belongs to a KRaft broker.
    """
    if storage.exists(f"{path}/{checkpoints.META_PROPERTIES}"):
        return ""
    if not (storage.exists(f"{path}/{METADATA}") or has_topic_ids(path)):
        return ""
    return (
        f"no {checkpoints.META_PROPERTIES} in {path}: a KRaft broker does not start without it, unless another of its "
        "log.dirs has one; put it back"
    )


def damaged_quorum_files(path: str) -> Iterator[str]:
    """Yield a sentence for each damaged small file of the metadata log that stops its controller or broker."""
    for name, check, cure in (
        (
            checkpoints.QUORUM_STATE,
            checkpoints.check_quorum_state,
            "the only controller of a cluster starts without it",
        ),
        (checkpoints.PARTITION_METADATA, _check_metadata_id, "a broker recreates it"),
    ):
        file = f"{path}/{METADATA}/{name}"
        if storage.exists(file):
            try:
                with located(file):
                    check(storage.read_all(file))
            except CorruptRecordError as error:
                yield f"a broker does not start: {error}; put back a copy, or remove the file: {cure}"


def conflicting_ids(found: Mapping[str, checkpoints.MetaProperties]) -> Iterator[str]:
    """Yield a sentence for each id that keeps one broker from starting on all of these log directories.

    As `MetaPropertiesEnsemble.verify`: all directories share the cluster and node id; each has its own directory id.

    Args:
        found: the ids of each directory, by path.
    """
    for name, ids in (
        ("cluster.id", {path: meta.cluster_id for path, meta in found.items()}),
        ("node.id", {path: meta.node_id for path, meta in found.items()}),
    ):
        first: dict[str | int, str] = {}
        for path, value in ids.items():
            if value is not None:
                first.setdefault(value, path)
        if len(first) > 1:
            both = ", ".join(f"{value} in {path}" for value, path in first.items())
            yield f"a broker does not start on directories with different {name}: {both}; name those of one broker"
    seen: dict[str, str] = {}
    for path, meta in found.items():
        if meta.directory_id is not None and seen.setdefault(meta.directory_id, path) != path:
            yield (
                f"a broker does not start on two directories with the same directory.id: {meta.directory_id} in "
                f"{seen[meta.directory_id]}, {path}; one may be a copy of the other: remove it"
            )


def _check_metadata_id(content: bytes) -> None:
    stored = checkpoints.parse_partition_metadata(content).topic_id
    if stored != _METADATA_ID:
        raise CorruptRecordError(f"not the metadata log's id: stored {stored}, expected {_METADATA_ID}")
