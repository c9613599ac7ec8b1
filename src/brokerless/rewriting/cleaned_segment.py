"""The files of a new segment that will replace others, under the names that Kafka's cleaner gives them.

Opening a log deletes files with these names, so a crash before they are renamed changes nothing. A thread writes the
files while the next batches are built.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from brokerless import _native
from brokerless.io import disk
from brokerless.io.runner import Threads
from brokerless.layout import file_names

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from brokerless.layout.topic_config import TopicConfig

# How many bytes of batches wait: one write of some megabytes costs less than many of some kilobytes.
MAX_PENDING = 4 << 20


class CleanedSegment:
    """The `.cleaned` files of one new segment. They replace files of these names from a crash or an earlier attempt.

    Args:
        directory: the directory for the files.
        base_offset: the segment's base offset.
        config: the topic's settings.

    Attributes:
        output: the target to which rewriters push batches.

    >>> from brokerless.io import disk, storage
    >>> from brokerless.layout.topic_config import TopicConfig
    >>> disk.make_directory(NEW)
    >>> segment = CleanedSegment(NEW, 42, TopicConfig())
    >>> segment.finish()
    >>> sorted(storage.list_directory(NEW))[0]
    '00000000000000000042.index.cleaned'
    """

    def __init__(self, directory: str, base_offset: int, config: TopicConfig) -> None:
        self.base_offset = base_offset
        self.output = _native.SegmentOutput(
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
        )
        names = [file_names.segment_file(base_offset, kind, file_names.CLEANED) for kind in file_names.SEGMENT_KINDS]
        self._paths = [f"{directory}/{name}" for name in names]
        self._files: list[disk.Output] = []
        self._sizes = [0] * len(names)
        self._thread = Threads(1)
        self._writing: Future[None] | None = None
        try:
            for path in self._paths:
                with contextlib.suppress(FileNotFoundError):
                    disk.remove(path)
                self._files.append(disk.create(path))
        except BaseException:
            self._close()
            raise

    def write(self, *, at_least: int = MAX_PENDING) -> None:
        """Write the pushed batches if they have `at_least` bytes or more. A later call raises errors of this write."""
        if self.output.pending_bytes >= at_least:
            self._wait()
            self._writing = self._thread.start(self._put, self.output.take())

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _put(self, contents: tuple[Buffer, ...]) -> None:
        for number, (file, content) in enumerate(zip(self._files, contents, strict=True)):
            size = memoryview(content).nbytes
            if size:
                file.write_at(self._sizes[number], content)
                self._sizes[number] += size

    def finish(self, modified_ns: int | None = None) -> None:
        """Complete the indexes and make the files durable. Remove a transaction index without entries.

        Args:
            modified_ns: the modification time of the last replaced segment, which the `.log` gets, in ns since the
                epoch. Retention uses it for segments without timestamps.
        """
        try:
            self.output.finish()
            self._wait()
            self._put(self.output.take())
            if modified_ns is not None:
                self._files[0].set_modified(modified_ns)
            for file in self._files:
                file.sync()
        finally:
            self._close()
        if not self._sizes[-1]:
            disk.remove(self._paths[-1])

    def abandon(self) -> None:
        """Close and remove the files."""
        self._close()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                disk.remove(path)

    def _close(self) -> None:
        self._thread.close()
        for file in self._files:
            file.close()
