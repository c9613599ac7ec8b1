"""A verb of few lines, to test what all of them go through: it drops whole batches.

And what their tests share: a pool that repeats calls, logs to work on, the headers that came of it.
"""

import contextlib
from dataclasses import dataclass

from brokerless import _native
from brokerless.append.operation import Outcome, Replacement
from brokerless.append.writer import LogWriter
from brokerless.io import disk, storage
from brokerless.io.processes import Processes
from brokerless.layout import checkpoints, file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.metadata.bootstrap import Topic, bootstrap
from support.log_files import NOW


@dataclass(frozen=True)
class DropBatches:
    """Drop the batches with these base offsets, but for the log's last one.

    Attributes:
        base_offsets: of the batches.
        groups: how many segments, from the oldest on, become one each; all others stay.
        parts: into how many new segments each is cut.
    """

    base_offsets: tuple[int, ...]
    groups: tuple[int, ...] = (1,)
    parts: int = 1

    @property
    def decided_by(self):
        return ()

    def needs_roll(self, state):
        return False

    def plan(self, state):
        segments = list(state.segments)
        groups = []
        for count in self.groups:
            groups.append([(segment.base_offset, segment.path) for segment in segments[:count]])
            del segments[:count]
        return state.directory, groups, state.log_end_offset

    def work(self, plan, *, dry_run, progress, output=None):
        directory, groups, end_offset = plan
        replacements, kept, dropped = [], 0, 0
        for group in groups:
            batches = []
            for _, path in group:
                content = storage.read_all(path)
                progress(len(content))
                for header in _native.scan(content)[0].to_pylist():
                    if header["base_offset"] in self.base_offsets and header["last_offset"] + 1 != end_offset:
                        dropped += 1
                    else:
                        at = header["position"]
                        batches.append((header["base_offset"], content[at : at + header["size"]]))
            kept += len(batches)
            size = max(1, -(-len(batches) // self.parts))
            pieces = [batches[at : at + size] for at in range(0, len(batches), size)] or [[]]
            bases = [group[0][0], *(piece[0][0] for piece in pieces[1:])]
            if not dry_run:
                for base, piece in zip(bases, pieces, strict=True):
                    write_cleaned(output or directory, base, b"".join(batch for _, batch in piece))
                replacements.append(Replacement(tuple(bases), tuple(base for base, _ in group)))
        outputs = () if output is None else (output,) * len(replacements)
        return Outcome(report={"kept": kept, "dropped": dropped}, replacements=tuple(replacements), outputs=outputs)


def write_cleaned(directory, base_offset, batches):
    """Write a new segment, indexed as a recovery would, durably."""
    recovery = _native.SegmentRecovery(
        base_offset,
        producers=_native.Producers(),
        epochs=_native.LeaderEpochs([]),
        index_interval_bytes=0,
        segment_index_bytes=1 << 20,
    )
    recovery.feed(batches, 0, len(batches))
    contents = {file_names.LOG: batches, file_names.INDEX: recovery.index, file_names.TIMEINDEX: recovery.timeindex}
    if recovery.txnindex:
        contents[file_names.TXNINDEX] = recovery.txnindex
    for kind, content in contents.items():
        with disk.create(f"{directory}/{file_names.segment_file(base_offset, kind, '.cleaned')}") as file:
            file.append(content)
            file.sync()


class Repeating(Processes):
    """A pool as of a cluster that is not to be relied on: each call is made twice, once given up halfway.

    What the first attempt wrote stays until it is removed; it may come to its end as well (`fails=False`).
    """

    may_retry = True

    def __init__(self, *, fails=True):
        super().__init__(1, lambda _name, _read: None)
        self._fails = fails

    def submit(self, name, call):
        def give_up(_read):
            if self._fails:
                raise ConnectionError("the machine is gone")

        with contextlib.suppress(ConnectionError):
            call(progress=give_up)
        return super().submit(name, call)


def change_settings(directory, topic, **settings):
    """Change a topic's settings in a log directory that no broker has started on."""
    described = bootstrap(str(directory), 1)
    known = described.topics[topic]
    configs = TopicConfig.from_configs(known.configs).with_keywords(settings).to_configs()
    described.topics[topic] = Topic(known.topic_id, configs, known.leader_epochs)
    with open(f"{directory}/{checkpoints.BOOTSTRAP}", "wb") as file:
        file.write(described.format(timestamp=NOW))


def written(directory, *batches, **settings):
    """Write a log, and return its directory."""
    directory.mkdir()
    with LogWriter.open(str(directory), config=TopicConfig(**settings), is_clean=True, now=lambda: NOW) as log:
        for content in batches:
            log.append_as_follower(content)
    return directory


def headers(path):
    """Return the headers of a log's batches, checksums looked at."""
    return [
        b for log in sorted(path.glob("*.log")) for b in _native.scan(log.read_bytes(), check_crcs=True)[0].to_pylist()
    ]
