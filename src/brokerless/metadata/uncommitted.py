"""`Uncommitted`: notes about rows that other brokers may not have."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.layout import file_names
from brokerless.metadata.directory import metadata_among
from brokerless.metadata.topic_settings import Cluster

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log
    from brokerless.log.split import Split

    Path = str | os.PathLike[str]


class Uncommitted:
    """Notes about rows that may not be committed, because other brokers may not have them.

    In a replicated partition, only rows below the high watermark are certainly committed. A leader that becomes a
    follower truncates rows above it. By default, a running broker's logs are read up to the high watermark.

    Args:
        logs: the logs to read.
        paths: the paths that the caller named. The metadata log in one path may describe the logs in another path.
        metadata: the directory of the cluster's metadata log; None: look in the log directory, then in `paths`.

    Raises:
        ValueError: `metadata` has no metadata log, or has the log of another cluster.
    """

    def __init__(self, logs: Iterable[Log], paths: Iterable[str] = (), metadata: Path | None = None) -> None:
        roots = {log.root.path: log.root for log in logs}
        # Include the log directories of named partitions.
        self._paths, self._metadata = (*paths, *roots), metadata
        self._clusters: dict[str, Cluster] = {}
        self._are_lost: set[str] = set()
        for root in roots.values() if metadata is not None else ():
            self._cluster(root)

    def of(self, log: Log, splits: Iterable[Split]) -> Iterator[str]:
        """Yield notes about rows of a read that may not be committed; only one note per log directory without metadata.

        Args:
            log: the log to read.
            splits: the splits of the log, in order.
        """
        present = [split for split in splits if not split.is_absent]
        if log.topic is None or log.partition is None or not present:
            return
        watermark = log.high_watermark
        first = max(watermark or 0, present[0].start_offset, log.log_start_offset)
        end = min(max(split.end_offset for split in present), log.log_end_offset)
        if first >= end:
            return
        # Ignore errors: other verbs need sound metadata, but for a read, metadata only add information.
        with suppress(CorruptRecordError, UnsupportedFormatError):
            cluster = self._cluster(log.root)
            replicas = cluster.replicas((log.topic, log.partition))
            if replicas is not None and len(replicas) > 1:
                where = "no high watermark is" if watermark is None else f"the high watermark {watermark} was"
                cure = "" if watermark is None else ". To leave them out, set the end offset to high-watermark"
                yield (
                    f"it is not known whether offsets {first} to {end - 1} of {log.name} were committed, because the "
                    f"partition has {len(replicas)} replicas, and {where} checkpointed{cure}"
                )
            elif replicas is None and cluster.has_lost_metadata and log.root.path not in self._are_lost:
                self._are_lost.add(log.root.path)
                yield (
                    f"it is not known whether offsets {first} to {end - 1} of {log.name}, and offsets of other logs "
                    f"above a high watermark in {log.root.path}, were committed: other brokers may have replicas, but "
                    f"the metadata log ({file_names.METADATA_TOPIC}-0), which names them, is missing. Name its "
                    "directory, too"
                )

    def _cluster(self, root: LogDirFiles) -> Cluster:
        if root.path not in self._clusters:
            metadata = self._metadata or metadata_among(self._paths, root.path)
            self._clusters[root.path] = Cluster.of(root.path, root.node_id, metadata=metadata)
        return self._clusters[root.path]
