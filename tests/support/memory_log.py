"""A log in memory: `_native.Appender`, and dictionaries where files would be. And requests to append to it."""

import math

from brokerless import _native
from support.log_files import batch

T = 1_700_000_000_000
KINDS = ("log", "index", "timeindex", "txnindex")
DEFAULTS = {
    "segment_bytes": 1 << 30,
    "segment_ms": 604_800_000,
    "segment_jitter_ms": 0,
    "segment_index_bytes": 10 << 20,
    "index_interval_bytes": 4096,
    "max_message_bytes": (1 << 20) + 12,
    "max_decompressed_message_bytes": (1 << 31) - 9,
    "compression_type": "producer",
    "compression_gzip_level": -1,
    "compression_lz4_level": 9,
    "compression_zstd_level": 3,
    "message_timestamp_type": "CreateTime",
    "message_timestamp_before_max_ms": (1 << 63) - 1,
    "message_timestamp_after_max_ms": 3_600_000,
    "cleanup_policy": "delete",
    "max_compaction_lag_ms": (1 << 63) - 1,
    "producer_id_expiration_ms": 86_400_000,
    "message_format": 2,
}


class MemoryLog:
    """An appender and what it said to write, done at once."""

    def __init__(self, *, log_end_offset=0, now=T, **config):
        self.config = DEFAULTS | config
        self.now = now
        self.segments = {log_end_offset: {kind: bytearray() for kind in KINDS}}
        self.snapshots = {}
        self.epochs = _native.LeaderEpochs()
        self.log_start_offset = 0
        self.resume(_native.Producers(), log_end_offset)

    def resume(self, producers, log_end_offset):
        """Make a new appender of what is there, as a load does."""
        base = max(self.segments)
        files = self.segments[base]
        first = next(iter(self.batches(base)), None)
        segment = _native.SegmentState(
            base,
            created_ms=self.now,
            size=len(files["log"]),
            first_timestamp=first and first["max_timestamp"],
            index=files["index"],
            timeindex=files["timeindex"],
            txnindex=files["txnindex"],
        )
        self.appender = _native.Appender(
            segment=segment,
            producers=producers,
            leader_epochs=self.epochs,
            log_start_offset=self.log_start_offset,
            log_end_offset=log_end_offset,
            **self.config,
        )

    def append(self, data, *, origin="client", leader_epoch=0):
        """Append one request and write what it says."""
        return self.write(self.appender.append(data, origin=origin, leader_epoch=leader_epoch, now=self.now))

    def append_each(self, data, *, origin="client", leader_epoch=0, is_encoded_here=False):
        """Append requests and write what they say."""
        appended = self.appender.append_each(
            data, origin=origin, leader_epoch=leader_epoch, now=self.now, is_encoded_here=is_encoded_here
        )
        return self.write(appended)

    def roll(self):
        """Begin a new segment."""
        return self.write(self.appender.roll(self.now))

    def write(self, appended):
        """Do what it says."""
        for write in appended.writes:
            if write.is_new:
                self.segments[max(self.segments)]["timeindex"] += write.final_time_entry
                self.segments[write.base_offset] = {kind: bytearray() for kind in KINDS}
                if write.snapshot is not None:
                    self.snapshots[write.base_offset] = write.snapshot
            for kind in KINDS:
                self.segments[write.base_offset][kind] += getattr(write, kind)
        return appended

    def close(self):
        """Leave what a clean shutdown leaves."""
        closing = self.appender.close()
        self.segments[max(self.segments)]["timeindex"] += closing.final_time_entry
        if closing.snapshot is not None:
            self.snapshots[self.appender.log_end_offset] = closing.snapshot
        self.epochs = self.appender.leader_epochs
        self.log_start_offset = self.appender.log_start_offset

    def reload(self):
        """Close and open again."""
        self.close()
        end = self.appender.log_end_offset
        self._load(end)

    def _load(self, end):
        """Go on from the snapshot at the end: of each producer it holds the last batch."""
        content = self.snapshots.get(end, _native.Producers().to_snapshot())
        expiration = {"producer_id_expiration_ms": self.config["producer_id_expiration_ms"]}
        self.resume(_native.Producers.from_snapshot(content, now=self.now, **expiration), end)

    def recover(self):
        """Open again without snapshots and indexes, which are made anew of the logs."""
        end, producers = self.appender.log_end_offset, _native.Producers()
        epochs, self.log_start_offset = _native.LeaderEpochs(), self.appender.log_start_offset
        for base, files in sorted(self.segments.items()):
            recovery = recovered(files["log"], base, producers, epochs, self.config)
            assert (recovery.ended, recovery.error, recovery.valid_bytes) == ("whole", None, len(files["log"]))
            for kind in KINDS[1:]:
                files[kind] = bytearray(getattr(recovery, kind))
        self.epochs = epochs
        self.snapshots[end] = producers.to_snapshot()
        self._load(end)

    def truncate(self, offset):
        """Drop what is at or behind the offset."""
        self.close()
        for base in [base for base in self.segments if base > offset]:
            del self.segments[base]
        producers = _native.Producers()
        last = max(self.segments)
        cut = next((b["position"] for b in self.batches(last) if b["last_offset"] >= offset), math.inf)
        if cut < math.inf:
            del self.segments[last]["log"][cut:]
        for _, files in sorted(self.segments.items()):
            replay = _native.ProducerReplay(producers, 0)
            replay.feed(files["log"], 0, len(files["log"]))
            assert replay.ended == "whole"
        files = self.segments[last]
        for kind, index in (
            ("index", _native.OffsetIndex),
            ("timeindex", _native.TimeIndex),
            ("txnindex", _native.TransactionIndex),
        ):
            del files[kind][index(files[kind], last).length_below(offset) :]
        self.epochs.truncate_from_end(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.resume(producers, offset)

    def batches(self, base):
        """Return the headers of a segment's batches."""
        return _native.scan(self.segments[base]["log"])[0].to_pylist()

    def move_log_start(self, offset):
        """Move the log start offset, as DeleteRecords does."""
        found = [b["base_offset"] for base in self.segments for b in self.batches(base) if b["last_offset"] >= offset]
        self.appender.set_log_start_offset(offset, min(found, default=offset), max(self.snapshots, default=None))

    @property
    def bytes(self):
        """All of the log."""
        return b"".join(bytes(files["log"]) for _, files in sorted(self.segments.items()))


def recovered(data, base_offset, producers=None, epochs=None, config=DEFAULTS, window=None):
    """Recover a segment, fed in windows."""
    recovery = _native.SegmentRecovery(
        base_offset,
        producers=producers or _native.Producers(),
        epochs=epochs or _native.LeaderEpochs(),
        index_interval_bytes=config["index_interval_bytes"],
        segment_index_bytes=config["segment_index_bytes"],
    )
    position, size = 0, window or len(data) or 1
    while recovery.ended is None:
        taken = recovery.feed(data[position : position + size], position, len(data))
        position += taken
        if not taken:
            size *= 2
    return recovery


def from_kafka(config):
    """Turn a case's configuration into config."""
    return {key.replace(".", "_"): value for key, value in config.items()}


def state(log):
    """Return the offsets of a log, in Kafka's words."""
    appender = log.appender
    unstable = appender.first_unstable_offset
    return {
        "logEndOffset": appender.log_end_offset,
        "highWatermark": appender.high_watermark,
        "lastStableOffset": appender.last_stable_offset,
        "firstUnstableOffset": -1 if unstable is None else unstable,
    }


def everything(log):
    """All that a refused append must leave alone."""
    appender = log.appender
    return (
        state(log),
        appender.leader_epochs.entries(),
        appender.producers.to_snapshot(),
        (appender.segment_base_offset, appender.segment_size, appender.max_timestamp),
    )


def requests():
    """Requests of several producers, as one broker could get them."""
    yield batch(0, [b"plain"] * 3)
    for sequence in range(0, 12, 2):
        yield batch(0, [b"a" * 50] * 2, producer_id=7, base_sequence=sequence, timestamp=T + sequence)
        yield batch(0, [b"t"], producer_id=8, base_sequence=sequence // 2, transactional=True)
        if sequence % 4 == 2:
            yield batch(0, [b"again"] * 3)


def with_byte(data, at, value):
    return data[:at] + bytes([value]) + data[at + 1 :]
