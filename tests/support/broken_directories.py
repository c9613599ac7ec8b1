"""Log directories with one fault each: one for each kind of finding."""

import os
import shutil
import struct

import brokerless as bl
from brokerless import _native
from brokerless.layout import checkpoints
from support import damage
from support.log_files import NOW, batch, marker, write_segment, write_snapshot
from support.reference_decoder import crc32c

VALUE = b"v" * 200
SIZE = len(batch(0, [VALUE]))


def healthy(path):
    """Make a log directory with a topic of two segments, with indexes of several entries each."""
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("t", index_interval_bytes=500, retention_ms=-1)
        log = log_dir.log("t", 0)
        for at in range(40):
            if at == 20:
                log.roll()
            log.append(batch(0, [VALUE], timestamp=NOW + at))
    return path


def first(data, extension="log"):
    return data / "t-0" / f"00000000000000000000.{extension}"


def obstructed(data):
    first(data, "timeindex").unlink()
    first(data, "timeindex").mkdir()


def last(data, extension="log"):
    return data / "t-0" / f"00000000000000000020.{extension}"


def with_header(content, at, form, value):
    """Change a field of a batch, and its checksum."""
    changed = bytearray(content)
    struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def replaced(data, batches, epochs="0 0"):
    """Put another log in the place of the topic's."""
    metadata = (data / "t-0/partition.metadata").read_bytes()
    shutil.rmtree(data / "t-0")
    write_segment(data / "t-0", 0, batches)
    (data / "t-0/partition.metadata").write_bytes(metadata)
    lines = epochs.split(", ")
    (data / "t-0/leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    producers = _native.Producers()
    content = b"".join(batches)
    _native.ProducerReplay(producers, 0).feed(content, 0, len(content))
    end = bl.Log(data / "t-0").files.extent.next_offset
    (data / f"t-0/{end:020d}.snapshot").write_bytes(producers.to_snapshot())
    without_ends(data)


def without_ends(data):
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink()


def unclean(data):
    os.unlink(data / ".kafka_cleanshutdown")


def torn(data):
    unclean(data)
    without_ends(data)
    damage.cut(last(data), -10)
    (data / "t-0/00000000000000000040.snapshot").unlink()


def payload(data):
    content = bytearray(batch(5, [VALUE], timestamp=NOW + 5))
    damage.overwrite(first(data), SIZE * 5, with_header(content, 21, ">h", 4))


def records(data):
    content = bytearray(batch(5, [VALUE], timestamp=NOW + 5))
    content[61] = 2
    damage.overwrite(first(data), SIZE * 5, with_header(content, 57, ">i", 1))


def gap(data):
    replaced(data, [batch(at, [VALUE], timestamp=NOW + at) for at in (0, 1, 4, 5)])


def overflow(data):
    """Cleaned batches with half as many offsets each as an index can hold."""
    span = 1 << 30
    replaced(data, [batch(at * span, [VALUE] * 2, deltas=[0, span - 1], step=0) for at in range(2)])
    with first(data).open("ab") as log:
        log.writelines(batch(at * span, [VALUE] * 2, deltas=[0, span - 1], step=0) for at in range(2, 5))


def overlap(data):
    """A batch that begins amid the one before it (KAFKA-3919)."""
    replaced(data, [batch(at, [b"%d" % of for of in range(at, at + 10)], step=0) for at in (0, 5, 15)])


def epoch_order(data):
    batches = [batch(at, [VALUE], leader_epoch=epoch) for at, epoch in enumerate((0, 3, 2, 3))]
    replaced(data, batches, "0 0, 3 1")


def sequences(data):
    replaced(data, [batch(at, [VALUE], producer_id=7, base_sequence=at if at < 3 else at + 1) for at in range(6)])


def offset_index(data):
    content = first(data, "index").read_bytes()
    assert len(content) >= 32
    damage.overwrite(first(data, "index"), 12, struct.pack(">i", struct.unpack_from(">i", content, 12)[0] + 1))


def time_index(data):
    damage.overwrite(first(data, "timeindex"), 12, struct.pack(">q", NOW + 1))


def transactional(data, *, entries):
    opened = batch(0, [VALUE], producer_id=7, base_sequence=0, transactional=True)
    replaced(data, [opened, marker(1, 7, commit=False)])
    content = b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)
    first(data, "txnindex").write_bytes(content)


def unflushed(data):
    """As after a power failure: the index is not what a broker wrote, and no recovery point is behind it."""
    BROKEN["offset-index"](data)
    (data / checkpoints.RECOVERY_POINTS).unlink(missing_ok=True)
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()


def transaction_version(data):
    transactional(data, entries=[(7, 0, 1, 0)])
    damage.overwrite(first(data, "txnindex"), 0, b"\0\7")


def hanging(data):
    replaced(data, [batch(0, [VALUE], producer_id=7, base_sequence=0, transactional=True)])
    (data / "bootstrap.checkpoint").unlink()
    stray(data, "__transaction_state-0")


def overdue(data):
    """A transaction that was open for a month when the last record was written."""
    begun = batch(0, [VALUE], producer_id=7, base_sequence=0, transactional=True, timestamp=NOW)
    replaced(data, [begun, batch(1, [VALUE], timestamp=NOW + 30 * 86_400_000)])


def microseconds(data):
    replaced(data, [batch(0, [VALUE], timestamp=NOW * 1000)])


def stray(data, name="other-0"):
    write_segment(data / name, 0, [])
    (data / name / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZg")


def snapshot(data):
    os.unlink(data / "t-0/00000000000000000020.snapshot")
    write_snapshot(data / "t-0", 20, [(7, 3)])


def no_snapshots(data):
    with bl.open_log_dir(data) as log_dir:
        log_dir.log("t", 0).append(batch(0, [VALUE], producer_id=7, base_sequence=0))
    for path in (data / "t-0").glob("*.snapshot"):
        path.unlink()


def checkpoint(data, name, offset):
    (data / name).write_text(f"0\n1\nt 0 {offset}\n")


def ahead(data):
    unclean(data)
    checkpoint(data, "replication-offset-checkpoint", 50)


def record_order(data):
    replaced(data, [batch(0, [VALUE, VALUE], deltas=[1, 0], last_offset_delta=1)])


def quorum(data):
    (data / "__cluster_metadata-0").mkdir()
    (data / "__cluster_metadata-0/quorum-state").write_text("x")


def other_id(data):
    (data / "t-0/partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZg")


def state_record(data):
    """A commit that ends before its timestamp."""
    (data / "bootstrap.checkpoint").unlink()
    stray(data, "__consumer_offsets-0")
    key = b"\0\1\0\1g\0\1t" + bytes(4)
    write_segment(data / "__consumer_offsets-0", 0, [batch(0, [struct.pack(">hqi", 3, 5, -1)], keys=[key])])
    (data / "__consumer_offsets-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


BROKEN = {
    "batch-crc": lambda data: damage.flip_bit(first(data), SIZE * 5 + 100),
    "batch-framing": lambda data: damage.overwrite(first(data), SIZE * 5 + 8, struct.pack(">i", -1)),
    "batch-zeros": lambda data: damage.overwrite(first(data), SIZE * 5, bytes(SIZE)),
    "batch-unloadable": lambda data: damage.overwrite(last(data), -SIZE + 8, struct.pack(">i", -1)),
    "batch-cut": lambda data: damage.cut(first(data), -10),
    "batch-payload": payload,
    "batch-records": records,
    "batch-order": lambda data: damage.overwrite(first(data), SIZE * 5, struct.pack(">q", 3)),
    "batch-magic": lambda data: damage.overwrite(first(data), SIZE * 5 + 16, b"\x09"),
    # A codec that no release has.
    "batch-unsupported": lambda data: damage.overwrite(
        first(data), SIZE * 5, with_header(batch(5, [VALUE], timestamp=NOW + 5), 21, ">h", 7)
    ),
    "batch-timestamp": lambda data: damage.overwrite(
        first(data), SIZE * 5, with_header(batch(5, [VALUE], timestamp=NOW + 5), 35, ">q", NOW + 6)
    ),
    "tail-torn": torn,
    "tail-zeros": lambda data: damage.append(last(data), bytes(100)),
    "segment-missing": lambda data: os.unlink(first(data)),
    "records-missing": lambda data: damage.cut(last(data), -3 * SIZE),
    "offset-overflow": overflow,
    "offset-overlap": overlap,
    "offset-gap": gap,
    "epoch-order": epoch_order,
    "epochs-damaged": lambda data: (data / "t-0/leader-epoch-checkpoint").write_text("0\n1\nx\n"),
    "epochs-differ": lambda data: (data / "t-0/leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 7\n"),
    "offset-index": offset_index,
    "offset-index-missing": lambda data: os.unlink(first(data, "index")),
    "time-index": time_index,
    "time-index-missing": lambda data: os.unlink(first(data, "timeindex")),
    "transaction-index": lambda data: transactional(data, entries=[(8, 0, 1, 0)]),
    "index-unflushed": unflushed,
    "transaction-version": transaction_version,
    "snapshot-damaged": lambda data: damage.cut(next((data / "t-0").glob("*.snapshot")), -1),
    "snapshot-differs": snapshot,
    "snapshot-incomplete": no_snapshots,
    "sequence-gap": sequences,
    "transaction-hanging": hanging,
    "state-record": state_record,
    "transaction-overdue": overdue,
    "timestamp-unlikely": microseconds,
    "checkpoint-damaged": lambda data: (data / "cleaner-offset-checkpoint").write_text("0\n1\nx\n"),
    "checkpoint-reset": lambda data: checkpoint(data, "log-start-offset-checkpoint", "x"),
    "watermarks-damaged": lambda data: checkpoint(data, "replication-offset-checkpoint", "x"),
    "checkpoint-ahead": ahead,
    "log-start-ahead": lambda data: checkpoint(data, "log-start-offset-checkpoint", 50),
    "topic-id-damaged": lambda data: (data / "t-0/partition.metadata").write_text("version: 0\n"),
    "topic-id-differs": other_id,
    "topic-id-missing": lambda data: (data / "t-0/partition.metadata").unlink(),
    "partition-stray": stray,
    "file-obstructed": obstructed,
    "stray": lambda data: (data / f"t-1.{'0' * 32}-stray").mkdir(),
    "leftover": lambda data: (data / f"t-1.{'0' * 32}-delete").mkdir(),
    "name-unknown": lambda data: (data / "lost+found").mkdir(),
    "partition-twice": lambda data: shutil.copytree(data / "t-0", data / "t-00"),
    "file-unknown": lambda data: (data / "t-0/backup.log").write_text("x"),
    "file-unpadded": lambda data: (data / "t-0/7.log").write_text("x"),
    "file-foreign": lambda data: (data / "t-0/notes.txt").write_text("x"),
    "record-order": record_order,
    "segment-cut": lambda data: damage.cut(first(data), SIZE * 15),
    "quorum-damaged": quorum,
    "metadata-damaged": lambda data: damage.cut(data / "bootstrap.checkpoint", 100),
    "ids-missing": lambda data: (data / "meta.properties").unlink(),
    "ids-damaged": lambda data: (data / "meta.properties").write_text("version=1\nnode.id=x\n"),
}
"""By the code of its finding, a function that breaks a healthy directory."""
