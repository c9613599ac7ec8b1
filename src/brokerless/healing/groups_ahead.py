"""Groups that committed offsets beyond the end of a repaired or recovered log.

Such a consumer resets its position (`auto.offset.reset`) if it starts before the log reaches its offset again. If it
starts later, it skips the new records with the lost offsets, without an error.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.errors import BrokerlessError
from brokerless.layout import file_names
from brokerless.log_dir.log_dirs import LogDirs
from brokerless.notes import collected
from brokerless.remarks import Remark
from brokerless.state.internal_topic import OFFSETS_TOPIC
from brokerless.state.offset_commits import commits_of
from brokerless.wording import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from brokerless.log.log import Log

# The groups that a sentence names.
_MOST_NAMED = 4


class _Shorter(NamedTuple):
    path: str
    topic: str
    partition: int
    end_offset: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def groups_ahead(directory: str, ends: Mapping[str, int]) -> list[Remark]:
    """Return a doubt for each log that loses its end, if groups committed offsets beyond the new end.

    Args:
        directory: the log directory with the partitions of `__consumer_offsets`. A group whose coordinator is another
            broker has its offsets there.
        ends: the new end offset of each log that loses its end, by the path of its directory.
    """
    shorter: dict[tuple[str, int], _Shorter] = {}
    for path, end in ends.items():
        topic, partition, leftover = file_names.parse_directory_name(os.path.basename(path))
        if not leftover:
            shorter[topic, partition] = _Shorter(path, topic, partition, end)
    topics = pa.array(sorted({topic for topic, _ in shorter}), pa.string())
    offsets_logs = [log for log in LogDirs(directory) if log.topic == OFFSETS_TOPIC] if shorter else []
    ahead: dict[tuple[str, int], dict[str, int]] = {}
    doubts = []
    for log in offsets_logs:
        with collected() as unread:
            try:
                for group, topic, partition, offset in _committed(log, topics):
                    key = (topic, partition)
                    if key in shorter and offset > shorter[key].end_offset:
                        ahead.setdefault(key, {})[group] = offset
            except (BrokerlessError, OSError) as error:
                unread.append(str(error))
        said = "groups that committed offsets beyond the new end of a log may be missing here"
        doubts += [
            Remark("groups-ahead", f"{said}: {why}", topic=log.topic, partition=log.partition, path=log.path)
            for why in unread[:1]
        ]
    return [_doubt(shorter[key], groups) for key, groups in sorted(ahead.items())] + doubts


def _committed(log: Log, topics: pa.Array[Any]) -> Iterator[tuple[str, str, int, int]]:
    for batch in commits_of(log, history=False):
        rows = batch.filter(pc.is_in(batch["topic"], value_set=topics))
        yield from zip(*(rows[name].to_pylist() for name in ("group", "topic", "partition", "offset")), strict=True)


def _reset(log: _Shorter, group: str, offset: int) -> str:
    """Return the command that sets a group's offset."""
    place = f"--topic {_quoted(f'{log.topic}:{log.partition}')}"
    tool = "kafka-consumer-groups.sh --bootstrap-server SERVER"
    return f"{tool} --group {_quoted(group)} {place} --reset-offsets --to-offset {offset} --execute"


def _quoted(name: str) -> str:
    """Return a word of a shell. The shell reads the escapes of invisible characters in $'...'."""
    if name.isprintable():
        return shlex.quote(name)
    backslash, quote = "\\", "'"
    return f"$'{printable(name.replace(backslash, backslash * 2).replace(quote, backslash + quote))}'"


def _doubt(one: _Shorter, groups: Mapping[str, int]) -> Remark:
    end = one.end_offset
    named = [f"{printable(group)} at {offset}" for group, offset in sorted(groups.items())[:_MOST_NAMED]]
    if len(groups) > _MOST_NAMED:
        named.append(f"{len(groups) - _MOST_NAMED} more")
    said = (
        f"{one.name}: {counted(len(groups), 'group')} committed an offset beyond the new end {end}: "
        f"{', '.join(named)}. New records get the offsets from {end} on again. A consumer that starts before they "
        "reach its offset resets it by auto.offset.reset; one that starts later skips them. Set the offset of "
        f"{'the' if len(groups) == 1 else 'each'} group before producers start: "
        f"{'; '.join(f'`{_reset(one, group, end)}`' for group in sorted(groups)[:_MOST_NAMED])}"
    )
    names = tuple(sorted(groups))
    return Remark("groups-ahead", said, topic=one.topic, partition=one.partition, path=one.path, names=names)
