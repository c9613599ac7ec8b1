"""The topic names by topic id."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from brokerless.errors import BrokerlessError
from brokerless.metadata.log import cluster_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.layout.log_dir_files import LogDirFiles
    from brokerless.log.log import Log


class _LogDirs(Protocol):
    @property
    def roots(self) -> Sequence[LogDirFiles]: ...

    def logs(self, topics: Iterable[str] = ..., *, all_replicas: bool = ...) -> Iterable[Log]: ...


class TopicNames:
    """The topic names by topic id, from metadata logs or, without these, from the partitions' own files.

    The files are read at the first lookup.

    Args:
        directories: the log directories.
    """

    def __init__(self, directories: _LogDirs) -> None:
        self._directories = directories

    def of(self, topic_id: str) -> str:
        """Return the name of a topic; its id if the name is not known."""
        return self._in_metadata.get(topic_id) or self._in_partitions.get(topic_id) or topic_id

    @cached_property
    def _in_metadata(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for root in self._directories.roots:
            with suppress(BrokerlessError, OSError):
                image = cluster_image(root.path)
                names.update({} if image is None else image.topic_names)
        return names

    @cached_property
    def _in_partitions(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for log in self._directories.logs(all_replicas=True):
            with suppress(BrokerlessError, OSError):
                if log.topic is not None and log.topic_id is not None:
                    names[log.topic_id] = log.topic
        return names
