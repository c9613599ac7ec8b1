"""The start of a broker after a clean shutdown: it verifies no checksum, and truncates nothing.

To find the end of a log, it reads the headers of the batches from the last index entry on
(`LogSegment.readNextOffset`). So it keeps a batch whose records are damaged, and only a fetch of this batch fails.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.io.clock import now_ms
from brokerless.layout.topic_config import TopicConfig
from brokerless.notes import collected
from brokerless.recovery.loader import load

if TYPE_CHECKING:
    from brokerless.log.log import Log
    from brokerless.recovery.load_result import Loaded


def clean_start(log: Log) -> Loaded | None:
    """Return a log as a broker loads it after a clean shutdown; None if it was not shut down so, or cannot be read.

    Raises:
        CorruptRecordError: a broker does not start on the log.
    """
    if log.files.is_file or not log.root.is_clean:
        return None
    with collected(), suppress(UnsupportedFormatError, OSError):
        return load(
            log.path,
            TopicConfig(),
            is_clean=True,
            recovery_point=log.recovery_point or 0,
            log_start_offset=log.root.log_start_offsets.get((log.topic or "", log.partition or 0)),
            now=now_ms(),
        )
    return None


def kept_damage(log: Log) -> Loaded | None:
    """Return a log as a broker loads it if it ends in damage that a broker keeps; else None."""
    with suppress(CorruptRecordError):
        return clean_start(log) if _ends_in_damage(log) else None
    return None


def broker_end(log: Log) -> int | None:
    """Return the log end offset of a broker that starts on the directory; None if it starts on no log like this."""
    if not _ends_in_damage(log):
        return log.log_end_offset
    loaded = kept_damage(log)
    return None if loaded is None else loaded.log_end_offset


def _ends_in_damage(log: Log) -> bool:
    """Return whether a log that was shut down cleanly is damaged after its last index entry."""
    return log.root.is_clean and log.files.extent.damage is not None
