"""Changes to the small files, the names, the metadata and the coordinators' records of a log directory.

`test_verdicts.py` asks a broker, `check` and `recover` for their verdict on each.
"""

import json
import shutil
import struct
from functools import partial
from pathlib import Path

import brokerless as bl
from brokerless import _native
from brokerless.layout import checkpoints
from brokerless.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE, config_record, metadata_record, topic_record
from support import damage
from support.log_files import batch

CHECKPOINTS = checkpoints.OFFSET_CHECKPOINTS
META = checkpoints.META_PROPERTIES
SEGMENT = f"{0:020}"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER_ID = "AAECAwQFBgcICQoLDA0ODw"


def write(data, name, content):
    (data / name).write_bytes(content.encode() if isinstance(content, str) else content)


def rewritten(data, name, *replaced, without=None):
    """Replace or remove lines of a file of properties."""
    kept = [line for line in (data / name).read_text().splitlines() if not line.startswith(f"{without}=")]
    names = [line.partition("=")[0] for line in replaced]
    kept = [line for line in kept if line.partition("=")[0] not in names]
    write(data, name, "".join(f"{line}\n" for line in [*kept, *replaced]))


def zeros(data, name):
    write(data, name, bytes((data / name).stat().st_size or 100))


def cut(data, name):
    content = (data / name).read_bytes()
    write(data, name, content[: len(content) * 2 // 3])


def copied(data, source, name):
    """Make a copy of a file or of a directory in a log directory."""
    (shutil.copytree if (data / source).is_dir() else shutil.copy)(data / source, data / name)


def appended(data, topic, records):
    """Append a batch to a log that was shut down cleanly, and keep what Kafka knows of its end right."""
    log = bl.Log(data / topic)
    epoch = log.leader_epochs[-1].epoch if log.leader_epochs else 0
    end = log.log_end_offset
    keys, values = zip(*(one if isinstance(one, tuple) else (None, one) for one in records), strict=True)
    content = batch(end, values, keys=keys, leader_epoch=epoch, step=0)
    with open(log.segments[-1].path, "ab") as file:
        file.write(content)
    if topic == "__cluster_metadata-0":
        return
    name, _, partition = topic.rpartition("-")
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        known = checkpoints.parse_offset_checkpoint((data / checkpoint).read_bytes())
        known[name, int(partition)] = end + len(records)
        write(data, checkpoint, checkpoints.format_offset_checkpoint(known))
    for snapshot in (data / topic).glob("*.snapshot"):
        if int(snapshot.name.partition(".")[0]) == end:
            snapshot.rename(snapshot.with_name(f"{end + len(records):020}.snapshot"))


def records(topic, *found):
    return partial(appended, topic=topic, records=list(found))


def metadata(*found):
    return records("__cluster_metadata-0", *found)


def snapshot_of(data):
    """Return a path for a snapshot of the metadata at the end of their log."""
    log = bl.Log(data / "__cluster_metadata-0")
    return data / "__cluster_metadata-0" / f"{log.log_end_offset:020}-{log.leader_epochs[-1].epoch:010}.checkpoint"


CHANGES = {}

# The ids of a directory.
CHANGES |= {
    "meta: empty": partial(write, name=META, content=""),
    "meta: cut": partial(cut, name=META),
    "meta: zeros": partial(zeros, name=META),
    "meta: gone": lambda data: (data / META).unlink(),
    "meta: garbage": partial(write, name=META, content="\x00\xff\x17no properties"),
    "meta: a bad escape": partial(write, name=META, content="version=1\ncluster.id=\\u00zz\nnode.id=1\n"),
    "meta: no version": partial(rewritten, name=META, without="version"),
    "meta: version 0": lambda data: rewritten(data, META, "version=0"),
    "meta: version 2": lambda data: rewritten(data, META, "version=2"),
    "meta: version x": lambda data: rewritten(data, META, "version=x"),
    "meta: no node.id": partial(rewritten, name=META, without="node.id"),
    "meta: node.id x": lambda data: rewritten(data, META, "node.id=x"),
    "meta: node.id empty": lambda data: rewritten(data, META, "node.id="),
    "meta: node.id -1": lambda data: rewritten(data, META, "node.id=-1"),
    "meta: node.id 7": lambda data: rewritten(data, META, "node.id=7"),
    "meta: broker.id beside node.id": lambda data: rewritten(data, META, "broker.id=1"),
    "meta: no cluster.id": partial(rewritten, name=META, without="cluster.id"),
    "meta: cluster.id empty": lambda data: rewritten(data, META, "cluster.id="),
    "meta: cluster.id other": lambda data: rewritten(data, META, "cluster.id=abc"),
    "meta: no directory.id": partial(rewritten, name=META, without="directory.id"),
    "meta: directory.id bad": lambda data: rewritten(data, META, "directory.id=zzz"),
    "meta: directory.id empty": lambda data: rewritten(data, META, "directory.id="),
    "meta: directory.id reserved": lambda data: rewritten(data, META, f"directory.id={ZERO_ID}"),
    "meta: directory.id other": lambda data: rewritten(data, META, f"directory.id={OTHER_ID}"),
    "meta: version 0, broker.id": lambda data: rewritten(data, META, "version=0", "broker.id=1", without="node.id"),
    "meta: version 0, broker.id alone": partial(write, name=META, content="version=0\nbroker.id=1\n"),
    "meta: no UTF-8": lambda data: write(data, META, (data / META).read_bytes() + b"#\xff\xfe\n"),
    "meta: unknown property": lambda data: rewritten(data, META, "x=1"),
    "meta: a directory": lambda data: ((data / META).unlink(), (data / META).mkdir()),
}

# The checkpoints of offsets: topic, partition, offset.
for name in CHECKPOINTS:
    CHANGES |= {
        f"{name}: malformed": partial(write, name=name, content="x\n"),
        f"{name}: empty": partial(write, name=name, content=""),
        f"{name}: zeros": partial(zeros, name=name),
        f"{name}: gone": lambda data, name=name: (data / name).unlink(missing_ok=True),
        f"{name}: too few entries": partial(write, name=name, content="0\n2\nt 0 5\n"),
        f"{name}: a negative offset": partial(write, name=name, content="0\n1\nt 0 -5\n"),
        f"{name}: no number": partial(write, name=name, content="0\n1\nt 0 x\n"),
        f"{name}: too large": partial(write, name=name, content="0\n1\nt 0 9999999999999999999\n"),
        f"{name}: partition x": partial(write, name=name, content="0\n1\nt x 5\n"),
        f"{name}: a negative count": partial(write, name=name, content="0\n-1\n"),
        f"{name}: a count x": partial(write, name=name, content="0\nx\n"),
        f"{name}: no UTF-8": partial(write, name=name, content=b"0\n1\n\xff\xfe 0 5\n"),
    }
POINTS = "recovery-point-offset-checkpoint"
CHANGES |= {
    f"points: {what}": partial(write, name=POINTS, content=content)
    for what, content in {
        "version 1": "1\n1\nt 0 5\n",
        "one line": "0\n",
        "a negative count": "0\n-1\n",
        "too many entries": "0\n1\nt 0 5\nt 1 5\n",
        "a line too short": "0\n1\nt 0\n",
        "a line too long": "0\n1\nt 0 5 5\n",
        "an empty line": "0\n1\nt 0 5\n\n",
        "no last line end": "0\n1\nt 0 5",
        "an offset too large": "0\n1\nt 0 9999999999999999999\n",
        "a negative partition": "0\n1\nt -1 5\n",
        "an unknown topic": "0\n1\nnone 0 5\n",
        "a topic of other letters": "0\n1\n\u00e9\u00e9 0 5\n",
        "no UTF-8": b"0\n1\n\xff\xfe 0 5\n",
        "beyond the end": "0\n1\nt 0 5000\n",
    }.items()
}

# The leader epochs of a log, and its topic's id.
CHANGES |= {
    f"epochs: {what}": partial(write, name="t-0/leader-epoch-checkpoint", content=content)
    for what, content in {
        "malformed": "x\n",
        "empty": "",
        "zeros": bytes(40),
        "version 1": "1\n1\n0 0\n",
        "a negative epoch": "0\n1\n-1 0\n",
        "a negative offset": "0\n1\n0 -5\n",
        "falling epochs": "0\n2\n3 0\n2 7\n",
        "falling offsets": "0\n2\n0 7\n1 0\n",
        "too few entries": "0\n2\n0 0\n",
        "beyond the end": "0\n2\n0 0\n1 5000\n",
        "a letter": "0\n1\n0 x\n",
        "no UTF-8": b"0\n1\n\xff 0\n",
        "a negative count": "0\n-1\n",
        "a count x": "0\nx\n",
        "one line": "0\n",
        "an empty line": "0\n1\n0 0\n\n",
    }.items()
} | {
    f"topic id: {what}": partial(write, name="t-0/partition.metadata", content=content)
    for what, content in {
        "empty": "",
        "malformed": "x",
        "zeros": bytes(50),
        "version -1": f"version: -1\ntopic_id: {OTHER_ID}",
        "version 7 and another id": f"version: 7\ntopic_id: {OTHER_ID}",
        "another id": f"version: 0\ntopic_id: {OTHER_ID}",
        "the zero id": f"version: 0\ntopic_id: {ZERO_ID}",
        "too short": "version: 0\ntopic_id: AAAA",
        "no id": "version: 0\n",
        "no UTF-8": b"version: 0\ntopic_id: \xff\xfe",
        "version x": f"version: x\ntopic_id: {OTHER_ID}",
        "one id with more": f"version: 0\ntopic_id: {OTHER_ID}\nx: y\n",
        "the metadata's id": "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    }.items()
}
CHANGES["topic id: gone"] = lambda data: (data / "t-0/partition.metadata").unlink()

# The marker of a clean shutdown, the files of formatting, and the small files beside the metadata log.
QUORUM = "__cluster_metadata-0/quorum-state"
CHANGES |= {
    "marker: empty": partial(write, name=".kafka_cleanshutdown", content=""),
    "marker: zeros": partial(zeros, name=".kafka_cleanshutdown"),
    "marker: gone": lambda data: (data / ".kafka_cleanshutdown").unlink(),
    "marker: malformed": partial(write, name=".kafka_cleanshutdown", content="{x"),
    "bootstrap: garbage": partial(write, name="bootstrap.checkpoint", content="x" * 300),
    "bootstrap: empty": partial(write, name="bootstrap.checkpoint", content=""),
    "bootstrap: gone": lambda data: (data / "bootstrap.checkpoint").unlink(missing_ok=True),
    "quorum: malformed": partial(write, name=QUORUM, content="x"),
    "quorum: empty": partial(write, name=QUORUM, content=""),
    "quorum: zeros": partial(zeros, name=QUORUM),
    "quorum: gone": lambda data: (data / QUORUM).unlink(),
    "quorum: cut": partial(cut, name=QUORUM),
    "quorum: version 9": lambda data: damage_text(data, QUORUM, '"data_version":', '"data_version":9,"x":'),
    "quorum: other leader": lambda data: damage_text(data, QUORUM, '"leaderId":1', '"leaderId":7'),
    "quorum: id gone": lambda data: (data / "__cluster_metadata-0/partition.metadata").unlink(),
    "quorum: id malformed": partial(write, name="__cluster_metadata-0/partition.metadata", content="x"),
    "quorum: id other": partial(
        write, name="__cluster_metadata-0/partition.metadata", content=f"version: 0\ntopic_id: {OTHER_ID}"
    ),
    "quorum: epochs malformed": partial(write, name="__cluster_metadata-0/leader-epoch-checkpoint", content="x\n"),
    "quorum: epochs gone": lambda data: (data / "__cluster_metadata-0/leader-epoch-checkpoint").unlink(),
}


def of_quorum(data, change):
    """Change the fields of the state of the quorum."""
    state = json.loads((data / QUORUM).read_text())
    change(state)
    write(data, QUORUM, json.dumps(state, separators=(",", ":")))


def damage_text(data, name, old, new):
    text = (data / name).read_text()
    assert old in text, text
    write(data, name, text.replace(old, new))


# Something else in the place of a file or of a partition's directory.


def in_place_of(path, make=None):
    """Put what `make` makes, or a file, in the place of a file or a directory."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    (make or (lambda path: path.write_text("x")))(path)


def dangling(path):
    path.symlink_to("nowhere")


def loop(path):
    path.symlink_to(path.name)


SUBSTITUTES = {"a directory": Path.mkdir, "a dangling link": dangling, "a link loop": loop}
SUBSTITUTED = (
    ".lock",
    ".kafka_cleanshutdown",
    "bootstrap.checkpoint",
    *CHECKPOINTS,
    "meta.properties",
    QUORUM,
    "t-0/partition.metadata",
    "t-0/leader-epoch-checkpoint",
    *(f"t-0/{SEGMENT}.{kind}" for kind in ("log", "index", "timeindex", "txnindex")),
    "t-0/leader-epoch-checkpoint.tmp",
    f"{POINTS}.tmp",
    "__cluster_metadata-0/partition.metadata",
    "__cluster_metadata-0/leader-epoch-checkpoint",
)
CHANGES |= {
    f"{what} in place of {name}": lambda data, name=name, make=make: in_place_of(data / name, make)
    for name in SUBSTITUTED
    for what, make in SUBSTITUTES.items()
    # A broker makes an empty log behind such a link: what it lacks are records.
    if (what, name) != ("a dangling link", f"t-0/{SEGMENT}.log")
} | {
    f"{what} in place of {name}": lambda data, name=name, make=make: in_place_of(data / name, make)
    for name in ("t-0", "none-0", "__cluster_metadata-0")
    for what, make in {"a file": None, "a dangling link": dangling, "a link loop": loop}.items()
}


def of_formatted(change):
    """Change the snapshot that formatting wrote, in a directory that has no newer one."""

    def changed(data):
        path = data / f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint"
        for newer in path.parent.glob("*.checkpoint"):
            if newer != path:
                newer.unlink()
        if not path.exists():
            path.write_bytes(_native.kraft_snapshot([], 0))
        change(path)

    return changed


def flipped_in_each_batch(path, number, position):
    """Flip a bit in a batch, at a position in it; in a snapshot of fewer batches, in the last one."""
    starts = _native.scan(path.read_bytes())[0]["position"].to_pylist()
    damage.flip_bit(path, starts[min(number, len(starts) - 1)] + position)


CHANGES |= {
    "formatted: as it is": of_formatted(lambda path: None),
    "formatted: empty": of_formatted(lambda path: path.write_bytes(b"")),
    "formatted: gone": of_formatted(Path.unlink),
    "formatted: cut": of_formatted(lambda path: damage.cut(path, path.stat().st_size * 2 // 3)),
    "formatted: zeros": of_formatted(lambda path: path.write_bytes(bytes(path.stat().st_size))),
    "formatted: garbage": of_formatted(lambda path: path.write_bytes(b"x" * 300)),
} | {
    f"formatted: a flipped bit at {position} of batch {number}": of_formatted(
        partial(flipped_in_each_batch, number=number, position=position)
    )
    for number in range(3)
    # The base offset, the length, the leader epoch, the magic, the checksum, the attributes, a count, a record.
    for position in (7, 11, 15, 16, 20, 22, 60, 66)
}
CHANGES |= {
    "epochs: digits of other scripts": partial(
        write, name="t-0/leader-epoch-checkpoint", content="0\n\u0661\n\u0660 \u0660\n"
    ),
    "points: digits of other scripts": partial(write, name=POINTS, content="0\n1\nt \u0660 \u0665\n"),
    "txnindex: an entry of another version": lambda data: (data / f"t-0/{SEGMENT}.txnindex").write_bytes(
        struct.pack(">hqqqq", 7, 1, 0, 1, 1)
    ),
    "txnindex: an entry of version 256": lambda data: (data / f"t-0/{SEGMENT}.txnindex").write_bytes(
        struct.pack(">hqqqq", 256, 1, 0, 1, 1)
    ),
    "quorum: no votedDirectoryId": partial(of_quorum, change=lambda state: state.pop("votedDirectoryId", None)),
    "quorum: a bad votedDirectoryId": partial(of_quorum, change=lambda state: state.update(votedDirectoryId="zzz")),
    "quorum: version 1, no votedDirectoryId": partial(
        of_quorum, change=lambda state: (state.pop("votedDirectoryId", None), state.update(data_version=1))
    ),
    "quorum: version 0": partial(of_quorum, change=lambda state: state.update(data_version=0)),
    "quorum: an unknown field": partial(of_quorum, change=lambda state: state.update(x=1)),
    "directory: empty, t-0-future": lambda data: (data / f"t-0.{'0' * 32}-future").mkdir(),
    "directory: t-0-future of another topic id": lambda data: (
        copied(data, "t-0", f"t-0.{'0' * 32}-future"),
        write(data, f"t-0.{'0' * 32}-future/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}"),
    ),
}

# Files in a partition's directory.
CHANGES |= {
    f"file: {name}": partial(copied, source=f"t-0/{SEGMENT}.log", name=f"t-0/{name}")
    for name in (
        "backup.log",
        f"{SEGMENT} (1).log",
        "0.log",
        f"._{SEGMENT}.log",
        "99999999999999999999.log",
        "x.index",
        "x.timeindex",
        "x.txnindex",
        "x.snapshot",
        "x.log.swap",
        "x.index.swap",
        "x.swap",
        "x.log.cleaned",
        "x.cleaned",
        "x.log.deleted",
        "x.deleted",
        "x.snapshot.deleted",
        "x.txt",
        "-5.log",
        "+5.log",
        f"{SEGMENT}.log.bak",
        f"{SEGMENT}.kafka",
        "-1.snapshot",
        "99999999999999999999.snapshot",
        "99999999999999999999.index",
        f"{SEGMENT}.log.swap.swap",
        ".log",
    )
} | {
    f"folder: {name}": lambda data, name=name: (data / "t-0" / name).mkdir()
    for name in ("x", "x.log", "x.index", "x.snapshot", f"{SEGMENT[:-1]}9.log", "x.swap", "x.deleted")
}

# Directories in the log directory.
CHANGES |= {
    f"directory: {name}": partial(copied, source="t-0", name=name)
    for name in (
        "lost+found",
        "t",
        "t-",
        "-0",
        "t-x",
        "t-0.bak",
        "t-00",
        "t-+0",
        "t--1",
        "t-9",
        "none-0",
        "a b-0",
        "\u00e9-0",
        "t-99999999999",
        ".snapshot",
        f"t-0.{'0' * 32}-delete",
        f"t-0.{'0' * 32}-future",
        f"t-0.{'0' * 32}-stray",
        f"t-1.{'0' * 32}-future",
        "t-0-delete",
        "t-0.x-delete",
        "-delete",
        "t-delete",
        "t.x-delete",
        "__cluster_metadata-1",
        "remote-log-index-cache",
    )
} | {
    "directory: empty, lost+found": lambda data: (data / "lost+found").mkdir(),
    "directory: empty, t-0.bak": lambda data: (data / "t-0.bak").mkdir(),
    "directory: empty, new-0": lambda data: (data / "new-0").mkdir(),
    "directory: t-0 gone": lambda data: shutil.rmtree(data / "t-0"),
    "directory: a file x": partial(write, name="x", content="x"),
    "directory: a file new-0": partial(write, name="new-0", content="x"),
    "directory: a file t-0": lambda data: in_place_of(data / "t-0"),
}

# Records of the metadata that a controller, or a broker, may refuse. What a later release may have written is no fault:
# unknown types, versions and features are left out.
CHANGES |= {
    f"metadata: {what}": metadata(*found)
    for what, found in {
        "a fence with a wrong epoch": [metadata_record("FenceBrokerRecord", id=1, epoch=999999)],
        "a fence of an unknown broker": [metadata_record("FenceBrokerRecord", id=77, epoch=1)],
        "an unfence with a wrong epoch": [metadata_record("UnfenceBrokerRecord", id=1, epoch=999999)],
        "a registration with an unknown broker": [
            metadata_record("BrokerRegistrationChangeRecord", brokerId=77, brokerEpoch=3)
        ],
        "a registration with a wrong epoch": [
            metadata_record("BrokerRegistrationChangeRecord", brokerId=1, brokerEpoch=999999)
        ],
        "an unregistration of an unknown broker": [
            metadata_record("UnregisterBrokerRecord", brokerId=77, brokerEpoch=1)
        ],
        "an unregistration with a wrong epoch": [
            metadata_record("UnregisterBrokerRecord", brokerId=1, brokerEpoch=999999)
        ],
        "a second topic of a name": [topic_record("t", OTHER_ID)],
        "a removal of an unknown topic": [metadata_record("RemoveTopicRecord", topicId=OTHER_ID)],
        "a change of an unknown topic": [
            metadata_record("PartitionChangeRecord", partitionId=0, topicId=OTHER_ID, isr=[1])
        ],
        "a partition of an unknown topic": [
            metadata_record(
                "PartitionRecord",
                partitionId=0,
                topicId=OTHER_ID,
                replicas=[1],
                isr=[1],
                removingReplicas=[],
                addingReplicas=[],
                leader=1,
                leaderEpoch=0,
                partitionEpoch=0,
            )
        ],
        "a topic without partitions": [topic_record("new", OTHER_ID)],
        "a topic of a bad name": [topic_record("a b", OTHER_ID)],
        "an unknown setting": [config_record(TOPIC_RESOURCE, "t", "no.such.setting", "x")],
        "an invalid setting": [config_record(TOPIC_RESOURCE, "t", "retention.ms", "x")],
        "an invalid setting of a broker": [config_record(BROKER_RESOURCE, "1", "log.retention.ms", "x")],
        "a setting of an unknown topic": [config_record(TOPIC_RESOURCE, "none", "retention.ms", "5")],
        "a setting of an unknown type": [config_record(77, "t", "retention.ms", "5")],
        "producer ids that fall": [metadata_record("ProducerIdsRecord", brokerId=1, brokerEpoch=1, nextProducerId=0)],
        "a removed user": [metadata_record("RemoveUserScramCredentialRecord", name="x", mechanism=1)],
        "a removed access right": [metadata_record("RemoveAccessControlEntryRecord", id=OTHER_ID)],
        "a removed token": [metadata_record("RemoveDelegationTokenRecord", tokenId="x")],
        "an access right twice": [
            metadata_record(
                "AccessControlEntryRecord",
                id=OTHER_ID,
                resourceType=2,
                resourceName="t",
                patternType=3,
                principal="User:a",
                host="*",
                operation=3,
                permissionType=3,
            )
        ]
        * 2,
        "an access right of an unknown type": [
            metadata_record(
                "AccessControlEntryRecord",
                id=OTHER_ID,
                resourceType=77,
                resourceName="t",
                patternType=3,
                principal="User:a",
                host="*",
                operation=3,
                permissionType=3,
            )
        ],
        "an end without a beginning": [metadata_record("EndTransactionRecord")],
        "an abort without a beginning": [metadata_record("AbortTransactionRecord", reason="x")],
        "two beginnings": [metadata_record("BeginTransactionRecord", name="a")] * 2,
        "an open transaction": [metadata_record("BeginTransactionRecord", name="a")],
        "an unknown frame": [b"\x07\x02\x00\x00\x00"],
        "an empty record": [b""],
        "garbage": [b"\xff" * 20],
        "a record cut": [topic_record("new", OTHER_ID)[:-5]],
        "a record with more bytes": [topic_record("new", OTHER_ID) + b"xyz"],
        "no value": [None],
        "a NoOp": [metadata_record("NoOpRecord")],
        "a quota of an unknown type": [
            metadata_record(
                "ClientQuotaRecord", entity=[{"entityType": "x", "entityName": "y"}], key="z", value=1.0, remove=False
            )
        ],
    }.items()
}


def newest_snapshot(data):
    return max((data / "__cluster_metadata-0").glob("*.checkpoint"))


def flipped(data):
    """Flip a bit in the middle of the newest snapshot of the metadata."""
    path = newest_snapshot(data)
    damage.flip_bit(path, path.stat().st_size // 2)


FORMATTED = f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint"
CHANGES |= {
    "snapshot: a flipped bit": flipped,
    "snapshot: cut": lambda data: damage.cut(newest_snapshot(data), -20),
    "snapshot: empty": lambda data: newest_snapshot(data).write_bytes(b""),
    "snapshot: zeros": lambda data: newest_snapshot(data).write_bytes(bytes(newest_snapshot(data).stat().st_size)),
    "snapshot: gone": lambda data: newest_snapshot(data).unlink(),
    "snapshot: of another name": lambda data: newest_snapshot(data).rename(data / "__cluster_metadata-0/x.checkpoint"),
    "snapshot: a copy beyond the end": lambda data: shutil.copy(
        newest_snapshot(data), data / "__cluster_metadata-0" / f"{5000:020}-{1:010}.checkpoint"
    ),
    "snapshot: part of one": lambda data: shutil.copy(
        newest_snapshot(data), data / "__cluster_metadata-0" / f"{5000:020}-{1:010}.checkpoint.part"
    ),
    "snapshot: garbage before it": lambda data: write(
        data, f"__cluster_metadata-0/{3:020}-{1:010}.checkpoint", "x" * 100
    ),
    "snapshot: an unfinished one": lambda data: write(
        data, f"__cluster_metadata-0/{99:020d}-{1:010d}-7234234234234234.checkpoint.part", ""
    ),
    "formatted: garbage": partial(write, name=FORMATTED, content="x" * 300),
    "formatted: empty": partial(write, name=FORMATTED, content=""),
    # Kafka 3.9 writes none.
    "formatted: cut": lambda data: (data / FORMATTED).exists() and cut(data, FORMATTED),
    "formatted: gone": lambda data: (data / FORMATTED).unlink(missing_ok=True),
    "metadata log: a flipped bit": lambda data: damage.flip_bit(
        data / f"__cluster_metadata-0/{SEGMENT}.log", (data / f"__cluster_metadata-0/{SEGMENT}.log").stat().st_size - 30
    ),
    "metadata log: empty": lambda data: write(data, f"__cluster_metadata-0/{SEGMENT}.log", ""),
    "metadata log: gone": lambda data: shutil.rmtree(data / "__cluster_metadata-0"),
    "metadata log: without files": lambda data: (
        shutil.rmtree(data / "__cluster_metadata-0"),
        (data / "__cluster_metadata-0").mkdir(),
    ),
    "deleted: damaged epochs": lambda data: (
        shutil.copytree(data / "t-0", data / f"t-0.{'0' * 32}-delete"),
        write(data, f"t-0.{'0' * 32}-delete/leader-epoch-checkpoint", "x\n"),
    ),
    "deleted: a misnamed file": lambda data: (
        shutil.copytree(data / "t-0", data / f"t-0.{'0' * 32}-delete"),
        write(data, f"t-0.{'0' * 32}-delete/x.log", "x"),
    ),
    "stray: damaged id": lambda data: (
        shutil.copytree(data / "t-0", data / f"t-0.{'0' * 32}-stray"),
        write(data, f"t-0.{'0' * 32}-stray/partition.metadata", "x"),
    ),
}
STRINGS = struct.pack(">h", 1) + b"g" + struct.pack(">h", 1) + b"t"
COMMIT_KEY = struct.pack(">h", 1) + STRINGS + struct.pack(">i", 0)
COMMIT = struct.pack(">hqi", 3, 5, -1) + struct.pack(">h", 0) + struct.pack(">q", 1_700_000_000_000)
GROUP_KEY = struct.pack(">hh", 2, 1) + b"g"
COORDINATORS = {
    "a commit": (COMMIT_KEY, COMMIT),
    "a key cut": (COMMIT_KEY[:-3], COMMIT),
    "a key with more": (COMMIT_KEY + b"x", COMMIT),
    "a key of one byte": (b"\0", COMMIT),
    "an empty key": (b"", COMMIT),
    "no key": (None, COMMIT),
    "a key of an unknown version": (struct.pack(">h", 99) + b"x", b"x"),
    "a key of a negative version": (struct.pack(">h", -1) + b"x", b"x"),
    "a value cut": (COMMIT_KEY, COMMIT[:-3]),
    "a value with more": (COMMIT_KEY, COMMIT + b"x"),
    "an empty value": (COMMIT_KEY, b""),
    "a value of one byte": (COMMIT_KEY, b"x"),
    "a value of an unknown version": (COMMIT_KEY, struct.pack(">h", 99) + COMMIT[2:]),
    "a value of a negative version": (COMMIT_KEY, struct.pack(">h", -1) + COMMIT[2:]),
    "a group cut": (GROUP_KEY, struct.pack(">hh", 3, 8) + b"cons"),
    "a group of an unknown version": (GROUP_KEY, struct.pack(">h", 99)),
}
# The group of the commit is in this partition of two.
CHANGES |= {f"groups: {what}": records("__consumer_offsets-1", record) for what, record in COORDINATORS.items()}

# Changes to the two directories of a broker. The metadata are in the first.


def blank(data):
    """Leave an empty directory, as a disk that was replaced and not formatted."""
    shutil.rmtree(data)
    data.mkdir()


def holder(disks, partition="t-0"):
    """Return the directory that has a partition, and the other one."""
    return sorted(disks, key=lambda disk: not (disk / partition).exists())


def doubled(*disks, name="t-0"):
    here, there = holder(disks)
    shutil.copytree(here / "t-0", there / name)


TWO_DISKS = {
    "nothing": lambda *_: None,
    "a partition in both": doubled,
    "a partition in both, by another name": partial(doubled, name="t-00"),
    "a partition and its future": partial(doubled, name=f"t-0.{'0' * 32}-future"),
    "a partition and a stray one": partial(doubled, name=f"t-0.{'0' * 32}-stray"),
    "a file in a partition's place": lambda *disks: in_place_of(holder(disks)[0] / "t-0"),
    "a partition moved by hand": lambda *disks: shutil.move(holder(disks)[0] / "t-0", holder(disks)[1] / "t-0"),
    "one directory.id": lambda one, other: shutil.copy(one / META, other / META),
    "another node.id": lambda one, other: rewritten(other, META, "node.id=7"),
    "another cluster.id": lambda one, other: rewritten(other, META, "cluster.id=abc"),
    "the second: another directory.id": lambda one, other: rewritten(other, META, f"directory.id={OTHER_ID}"),
    "the second: a metadata log": lambda one, other: shutil.copytree(
        one / "__cluster_metadata-0", other / "__cluster_metadata-0"
    ),
    "the first: blank": lambda one, _: blank(one),
    "the second: blank": lambda _, other: blank(other),
    "the second: a file in place of the metadata log": lambda _, other: in_place_of(other / "__cluster_metadata-0"),
    "both: node.id 7": lambda *disks: [rewritten(disk, META, "node.id=7") for disk in disks],
    "both: a checkpoint": lambda *disks: [write(disk, POINTS, "x\n") for disk in disks],
    "both: no cluster.id": lambda *disks: [rewritten(disk, META, without="cluster.id") for disk in disks],
}
# What is in each log directory, or in that of one partition.
IN_ANY = (
    *(name for name in CHANGES if name.startswith("meta: ")),
    *(f"{name}: malformed" for name in CHECKPOINTS),
    "bootstrap: garbage",
    "directory: empty, lost+found",
    "directory: empty, new-0",
    *(f"{what} in place of {name}" for name in (".lock", POINTS, "meta.properties") for what in SUBSTITUTES),
)
OF_PARTITION = (
    *(name for name in CHANGES if name.startswith(("epochs: ", "topic id: "))),
    "file: backup.log",
    "file: x.swap",
    "folder: 00000000000000000009.log",
    f"a directory in place of t-0/{SEGMENT}.log",
    f"a directory in place of t-0/{SEGMENT}.index",
    f"a link loop in place of t-0/{SEGMENT}.timeindex",
    "a directory in place of t-0/leader-epoch-checkpoint",
    "a directory in place of t-0/leader-epoch-checkpoint.tmp",
    "a dangling link in place of t-0/leader-epoch-checkpoint",
    "a directory in place of t-0/partition.metadata",
)
TWO_DISKS |= {f"the first: {name}": lambda one, _, name=name: CHANGES[name](one) for name in IN_ANY}
TWO_DISKS |= {f"the second: {name}": lambda _, other, name=name: CHANGES[name](other) for name in IN_ANY}
TWO_DISKS |= {f"one: {name}": lambda *disks, name=name: CHANGES[name](holder(disks)[0]) for name in OF_PARTITION}
