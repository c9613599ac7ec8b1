"""The kinds of findings: what each means, its effect on a broker and on a reader, and its cure.

This table is the only home of these texts: the command, the guide `docs/findings.md` and Python show them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
"""The severity of a finding.

- error: records are lost, read wrongly or not served, or a broker does not start.
- warning: a broker or a reader works, but slower, or on files that contradict each other.
- note: the state after a crash, a deletion or a move, which a broker puts in order when it starts.
"""

Subject = Literal["batch", "records", "index", "state", "other"]
"""The part of a log directory that a fault is of.

- batch: bytes that are no sound batch.
- records: records that are not in the directory.
- index: an index, which can be made again from the batches.
- state: leader epochs or a snapshot of producers, which can be made again from the batches.
"""

Level = Literal["quick", "default", "deep"]
"""The depth of a check.

It reads names, small files and batch headers; all batches, with checksums; all records, too.
"""
LEVELS: tuple[Level, ...] = ("quick", "default", "deep")


class Code(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: how bad it is.
        title: the fault in a few words.
        broker: its effect on a broker that starts on the directory, or runs on it.
        reader: its effect on a consumer, and on a read by brokerless.
        cure: the remedy.
        subject: the kind of thing that has the fault.
        loses_records: whether readers lose the offsets of such a finding.
        is_cured: whether `brokerless repair` cures it.
        stops_broker: whether a broker does not start on the directory, or on the log.
        is_unserved: whether a broker that starts does not serve the log, or any log.
        level: the quickest level of a check that finds it.
    """

    severity: Severity
    title: str
    broker: str
    reader: str
    cure: str
    subject: Subject = "other"
    loses_records: bool = False
    is_cured: bool = False
    stops_broker: bool = False
    is_unserved: bool = False
    level: Level = "default"


_REPLICA = "Copy the partition's directory from another replica, while its broker is stopped"
_RECOVERS = (
    "`brokerless repair` keeps every sound batch on both sides, and takes the rest from another replica (--from); "
    "`brokerless recover` truncates there as a broker does"
)
_SKIP = '`brokerless read --on-corrupt skip`, or `on_corrupt="skip"`, reads everything around it'
_CUT_HERE = (
    "After an unclean shutdown it truncates the log here, and everything after it is gone. After a clean one it "
    "starts, and a fetch of this batch fails."
)
_ENDS_HERE = "A consumer stops at this offset with an error. A read returns the rows before it, and raises an error."
_WRITTEN_SO = "the producer or a tool wrote it so: find the producer by its id"
_REBUILD = "`brokerless repair` makes the file again; so does a broker that starts, if the file is removed"
_SLOW = "Reads of brokerless check each entry against the log, and take longer."

CODES: dict[str, Code] = {
    "batch-crc": Code(
        "error",
        "a batch has a wrong checksum",
        _CUT_HERE,
        _ENDS_HERE,
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-framing": Code(
        "error",
        "no batch begins where one should",
        _CUT_HERE,
        _ENDS_HERE,
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
        level="quick",
    ),
    "batch-zeros": Code(
        "error",
        "zeros lie where a batch should begin",
        _CUT_HERE,
        _ENDS_HERE,
        f"look for lost writes of the disk or the file system. {_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-cut": Code(
        "error",
        "the end of an older segment cuts a batch off",
        "It starts. A fetch that reaches this place fails.",
        _ENDS_HERE,
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-payload": Code(
        "error",
        "the records of a batch cannot be decompressed, although its checksum is right",
        "It serves the batch: it decompresses none. Compaction of the log fails.",
        _ENDS_HERE,
        f"{_WRITTEN_SO}. {_SKIP}. {_REPLICA}, if it has another batch",
        subject="batch",
        loses_records=True,
        is_cured=True,
        level="deep",
    ),
    "batch-records": Code(
        "error",
        "the records of a batch break the format, although its checksum is right",
        "It serves the batch. Compaction of the log fails.",
        _ENDS_HERE,
        f"{_WRITTEN_SO}. {_SKIP}. {_REPLICA}, if it has another batch",
        subject="batch",
        loses_records=True,
        is_cured=True,
        level="deep",
    ),
    "batch-order": Code(
        "error",
        "the offsets of a batch go back, or lie outside its segment",
        "After an unclean shutdown it truncates the log here. After a clean one it serves the batch as it is.",
        "A consumer gets offsets in a wrong order, or none. A read raises an error, and can skip as few batches as "
        "possible.",
        f"{_REPLICA}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-unsupported": Code(
        "warning",
        "a batch has a form that brokerless does not read",
        "Kafka reads it, if it is of a release that knows the form.",
        "A consumer reads it. A read by brokerless raises an error there.",
        "use a newer brokerless, or read it with Kafka",
        loses_records=True,
    ),
    "batch-timestamp": Code(
        "warning",
        "the largest timestamp in a batch's header is not that of its records",
        "It deletes and finds the batch by the header's timestamp: too early, or too late.",
        "A search by time may miss the batch.",
        "`brokerless convert --output` writes the records into new batches",
        level="deep",
    ),
    "record-order": Code(
        "warning",
        "the offsets of records in a batch do not rise",
        "It serves the batch as it is.",
        "A consumer and a read return the records in this order.",
        _WRITTEN_SO,
        level="deep",
    ),
    "tail-torn": Code(
        "note",
        "the log ends with bytes that are no whole batch: what a crash leaves",
        "It truncates them when it starts, after an unclean shutdown.",
        "A consumer does not get them. A read returns everything before them, and raises an error.",
        "`brokerless recover` truncates them as a broker does",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "tail-zeros": Code(
        "error",
        "zeros follow the last batch, although the log was closed",
        'It does not start: "Found record size 0". With fewer than 17 bytes it starts, and writes after them.',
        "A consumer does not get that far. A read returns everything before them.",
        "`brokerless repair` and `brokerless recover` cut them off",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "segment-missing": Code(
        "error",
        "a segment's `.log` is missing, but its indexes are there",
        "It starts, deletes the indexes, and serves the log without these records.",
        "A consumer skips these offsets without an error. A read raises an error there.",
        f"put the file back before a broker starts. {_REPLICA}",
        subject="records",
        loses_records=True,
        is_cured=True,
    ),
    "segment-cut": Code(
        "error",
        "an older segment ends before the last entry of its index",
        "It starts, and serves the log without these records.",
        "A consumer skips these offsets without an error. A read raises an error there.",
        f"put the whole file back. {_REPLICA}",
        subject="records",
        loses_records=True,
        is_cured=True,
    ),
    "offset-overflow": Code(
        "warning",
        "a segment spans more offsets than its indexes can hold",
        "It serves the log, and looks for the offsets above in wrong places. After an unclean shutdown it splits the "
        "segment (KAFKA-6264).",
        "None.",
        "`brokerless repair` and `brokerless recover` split the segment, as a broker does",
        is_cured=True,
    ),
    "offset-overlap": Code(
        "warning",
        "a sound batch begins below the end of the batch before it, and ends above it",
        "It serves the batch as it is. A replica that has to fetch it stops: the batch does not begin where the "
        "replica ends (KAFKA-3919).",
        "Java's consumer, and a read, get its records above the end of the batch before. Other clients may get those "
        "below a second time. The verbs that rewrite a log refuse it.",
        "`brokerless repair` and `brokerless rescue` make the batch anew, with the records that Java's consumer gets",
        is_cured=True,
    ),
    "records-missing": Code(
        "error",
        "the log ends before the offset at which it was closed",
        "It starts, serves the log without these records, and gives their offsets to new ones.",
        "A consumer does not get these records. A read raises an error at the end.",
        f"put back what was removed or cut, before a broker starts. {_REPLICA}",
        subject="records",
        loses_records=True,
        is_cured=True,
    ),
    "offset-gap": Code(
        "warning",
        "offsets are missing between two batches of a log that is not compacted",
        "It serves the log as it is.",
        "A consumer and a read skip these offsets without an error.",
        f"compare it with another replica, or with the producer's own count. {_REPLICA}, if it has them",
        subject="records",
        is_cured=True,
    ),
    "epoch-order": Code(
        "error",
        "the leader epoch of a batch is below that of a batch before it",
        "A follower that asks for the end of an epoch may truncate at a wrong offset.",
        "A consumer and a read return the batch.",
        "a tool or a bad copy put batches of two histories together: compare it with another replica",
        is_cured=True,
    ),
    "epochs-damaged": Code(
        "error",
        "the file of leader epochs cannot be read",
        "It does not start, or takes the log directory offline. Without the file it continues with the epochs of the "
        "batches.",
        "None.",
        _REBUILD,
        subject="state",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "epochs-differ": Code(
        "warning",
        "the file of leader epochs contradicts the batches",
        "As a leader it gives followers wrong ends of epochs: they may truncate too much or too little.",
        "None.",
        _REBUILD,
        subject="state",
        is_cured=True,
    ),
    "offset-index": Code(
        "error",
        "an offset index contradicts its log",
        "It finds wrong places: a fetch may fail or miss records. If the last entry of the newest index leads beyond "
        "the log, it starts with the end of the segment before, and gives the offsets after it to new records.",
        _SLOW,
        _REBUILD,
        subject="index",
        is_cured=True,
    ),
    "offset-index-missing": Code(
        "note",
        "a segment has no offset index, or an empty one",
        "It rebuilds a missing file when it starts, and keeps an empty one.",
        "Reads take longer.",
        "none is needed: a broker rebuilds a missing file when it starts, and so does `brokerless recover`; "
        "`brokerless repair` makes either again",
        subject="index",
        is_cured=True,
    ),
    "time-index": Code(
        "warning",
        "a time index contradicts its log",
        "Searches by time return wrong offsets, and retention by time deletes too early or too late.",
        _SLOW,
        _REBUILD,
        subject="index",
        is_cured=True,
    ),
    "time-index-missing": Code(
        "note",
        "a segment has no time index",
        "It rebuilds the file when it starts.",
        "Searches by time take longer.",
        "none is needed: a broker rebuilds it when it starts, and so does `brokerless recover`",
        subject="index",
        is_cured=True,
    ),
    "transaction-index": Code(
        "error",
        "a transaction index contradicts the markers in its log",
        "A fetch with read_committed gives the consumer wrong aborted transactions.",
        "A consumer with read_committed gets aborted records, or misses committed ones. Reads of brokerless use the "
        "markers.",
        _REBUILD,
        subject="index",
        is_cured=True,
    ),
    "index-unflushed": Code(
        "note",
        "an index contradicts its log after a crash, where it may not have been flushed",
        "It makes the index anew when it starts, as of all segments from the recovery point on "
        "(`LogLoader.recoverLog`).",
        "Reads of brokerless check each entry against the log, and use the markers.",
        "none is needed: a broker makes the file anew when it starts, and so does `brokerless recover`",
        subject="index",
        is_cured=True,
    ),
    "transaction-version": Code(
        "error",
        "a transaction index has an entry of another version",
        "It does not start (`TransactionIndex.sanityCheck`). Releases up to 4.1 read only the first byte of the "
        "version, and start if it is 0.",
        "None. Reads of brokerless use the markers.",
        _REBUILD,
        subject="index",
        is_cured=True,
        stops_broker=True,
    ),
    "snapshot-damaged": Code(
        "warning",
        "a producer snapshot cannot be read",
        "It skips the file, and reads the log from the snapshot before it.",
        "None.",
        "remove the file",
        subject="state",
        is_cured=True,
    ),
    "snapshot-differs": Code(
        "warning",
        "a producer snapshot contradicts the batches before it",
        "It accepts or refuses batches of these producers wrongly: duplicates, or out-of-order errors.",
        "None.",
        "remove the file: a broker reads the log from the snapshot before it",
        subject="state",
        is_cured=True,
    ),
    "snapshot-incomplete": Code(
        "error",
        "a producer snapshot lacks an open transaction, or a log that was shut down cleanly has no snapshot",
        "It does not know of the producers: consumers with read_committed get the records of open transactions, and "
        "duplicates are accepted.",
        "Reads of brokerless with read_committed may give records of open transactions, too.",
        "`brokerless repair` makes the snapshot again",
        subject="state",
        is_cured=True,
    ),
    "sequence-gap": Code(
        "warning",
        "the sequence numbers of a producer skip some, in a log that is not compacted",
        "It serves the log as it is.",
        "Records of the producer may be missing without an error.",
        f"compare it with another replica. {_REPLICA}, if it has them",
    ),
    "transaction-overdue": Code(
        "warning",
        "a transaction is open for longer than its producer's timeout, or than 15 minutes if that is not known",
        "Its coordinator ends it if it knows it. If not, it hangs: the last stable offset stays, and compaction stops.",
        "A consumer with read_committed waits at its first offset.",
        "`brokerless transactions --hanging` with the directories of all brokers shows whether it hangs. Where the "
        "transaction.max.timeout.ms of a broker is above its default of 15 minutes, it may not. If it does, "
        "start the cluster, and run `kafka-transactions.sh abort` with the topic, the partition and the start offset",
    ),
    "timestamp-unlikely": Code(
        "warning",
        "the largest timestamp of a segment is in the future, or of 1970",
        "It judges the segment's age by it. With a time in the future, retention by time never deletes the segment, "
        "nor those after it; with one of 1970, such as 0 or a time in seconds, it deletes the segment at once.",
        "Searches by time find other records.",
        "find the producer that sets such times. `brokerless retain --before-offset` deletes the segment; "
        "message.timestamp.after.max.ms and message.timestamp.before.max.ms refuse such records (Kafka 3.6)",
    ),
    "transaction-hanging": Code(
        "error",
        "a transaction is open in a partition, and its coordinator will never end it",
        "It never raises the last stable offset past it, and compaction stops there.",
        "A consumer with read_committed waits at its first offset.",
        "start the cluster, and run `kafka-transactions.sh abort` with the topic, the partition and the start offset",
        level="quick",
    ),
    "state-record": Code(
        "error",
        "a record of a coordinator cannot be decoded",
        "It starts. Its coordinator loads nothing of this partition: the groups, or transactional ids, in it are not "
        "available. Before 3.4.1 that is so for a record of an unknown type, too.",
        "`brokerless groups` and `brokerless transactions` leave the record out.",
        "`brokerless erase --in-place --bytes hex --key` with the key of the record, on each replica. A record without "
        f"a key has no such cure. {_REPLICA}, if it does not have the record",
        is_unserved=True,
        level="deep",
    ),
    "checkpoint-damaged": Code(
        "error",
        "a checkpoint file cannot be read",
        "It does not start, or takes the log directory offline. Without the file it recovers all logs, or forgets "
        "high watermarks and log starts.",
        "Records before the log start may be there again.",
        "`brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "checkpoint-reset": Code(
        "warning",
        "a checkpoint of recovery points, log starts or cleaned offsets has a number that is none",
        "It starts as if the file was empty: it recovers all logs, or forgets log starts. Without the cleaned offsets, "
        "its cleaner stops.",
        "Records before the log start may be there again.",
        "`brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        level="quick",
    ),
    "watermarks-damaged": Code(
        "error",
        "the checkpoint of high watermarks has a number that is none",
        "It starts, and serves none of the directory's partitions.",
        "None.",
        "`brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        is_unserved=True,
        level="quick",
    ),
    "checkpoint-ahead": Code(
        "warning",
        "a checkpoint has an offset beyond the end of its log",
        "It sets the offset to the end of the log.",
        "None.",
        "none is needed after a crash. Otherwise look for the missing end of the log in another replica",
        is_cured=True,
        level="quick",
    ),
    "log-start-ahead": Code(
        "error",
        "the log start offset is beyond the end of the log",
        "It deletes all segments when it starts.",
        "A consumer and a read return nothing.",
        "`brokerless repair`, before a broker starts: records that were deleted stay deleted. If the entry in "
        "log-start-offset-checkpoint is wrong, correct it",
        is_cured=True,
        level="quick",
    ),
    "topic-id-damaged": Code(
        "error",
        "a partition.metadata cannot be read",
        "It does not start, or takes the log directory offline.",
        "None.",
        "`brokerless repair` writes the file with the topic's id from the metadata, or from another partition",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "topic-id-missing": Code(
        "error",
        "a partition has no partition.metadata, in a cluster without ZooKeeper",
        "It takes the partition for one that was never written to: it renames the directory `-stray`, and reads it "
        "no more.",
        "None.",
        "`brokerless repair` writes the file with the topic's id from the metadata, or from another partition",
        is_cured=True,
        is_unserved=True,
        level="quick",
    ),
    "topic-id-differs": Code(
        "error",
        "the topic id of a partition is not that of its topic",
        "It renames the directory `-stray`, and reads it no more: the topic was deleted and created again.",
        "A read returns the old topic's records.",
        "copy the directory first, if its records are wanted. Then let the broker remove it",
        is_unserved=True,
        level="quick",
    ),
    "partition-stray": Code(
        "error",
        "the cluster's metadata do not have the topic of a partition",
        "It renames the directory `-stray`, and reads it no more.",
        "A read returns its records.",
        "copy the directory first, if its records are wanted. Put back the metadata log, if it is an old one",
        is_unserved=True,
        level="quick",
    ),
    "directory-id-differs": Code(
        "error",
        "the id of a log directory is not the one by which the metadata name it",
        "It starts, and its partitions have no leader: for the controller, the directory that they are in is lost.",
        "None.",
        "write the right directory.id into meta.properties before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "partition-lost": Code(
        "error",
        "the only replica of a partition, or the last one in sync, is in none of its broker's directories",
        "It makes an empty log, and leads with it: other replicas delete their records.",
        "A read does not know of the partition.",
        "put back the directory before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "metadata-missing": Code(
        "warning",
        "no path has the metadata of the cluster",
        "It starts. Unless another of its log.dirs has them, or another controller, it renames all partitions "
        "`-stray`, and serves none.",
        "None.",
        "name the broker's other log directories too. Else put back the metadata log before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "directory-absent": Code(
        "note",
        "a broker registered more log directories than are given",
        "Without them, the other directories and their partitions are served.",
        "A read does not know of their partitions.",
        "name the broker's other log directories too; their partitions are not checked",
        level="quick",
    ),
    "partition-missing": Code(
        "warning",
        "the cluster's metadata place a partition on this broker, and no directory has it",
        "It makes an empty log. It fetches the records from the leader, unless it becomes the leader itself.",
        "A read does not know of the partition.",
        "name the broker's other log directories too. Else put back the directory before a broker starts",
        level="quick",
    ),
    "stray": Code(
        "warning",
        "a broker gave up a partition's directory: its metadata did not have the topic",
        "It loads the log, keeps the directory, and serves nothing of it. Before 3.7 it stops there.",
        "A read skips it, unless its path is given.",
        "if the topic was deleted, remove the directory. If the metadata were lost, `brokerless rescue` makes the "
        "partition again",
        level="quick",
    ),
    "leftover": Code(
        "note",
        "files or directories are left of a deletion, a compaction or a move",
        "It finishes or removes them when it starts.",
        "Reads skip them.",
        "none is needed",
        is_cured=True,
        level="quick",
    ),
    "name-unknown": Code(
        "error",
        "a directory has a name that is no partition's",
        "It does not start.",
        "Reads skip it.",
        "move the directory out",
        stops_broker=True,
        level="quick",
    ),
    "name-taken": Code(
        "error",
        "a file has the name of a partition's directory, and the metadata place the partition there",
        "It cannot make the directory, and takes the log directory offline; without another one it does not start.",
        "Reads skip it.",
        "move the file out. Then see `partition-lost`",
        stops_broker=True,
        level="quick",
    ),
    "file-obstructed": Code(
        "error",
        "a directory, or a link that leads in a loop, is in the place of a file",
        "It cannot open the file, and takes the log directory offline; without another one it does not start.",
        "A read takes the file for missing.",
        "move it out, and put the file back. `brokerless repair` makes indexes again",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "partition-twice": Code(
        "error",
        "a broker has a partition in two directories",
        "It does not start: which of them is the partition, it does not know.",
        "Reads refuse the partition.",
        "move out the directory that has less, or is older: `brokerless ls` shows how far each of them goes",
        stops_broker=True,
        level="quick",
    ),
    "file-unknown": Code(
        "error",
        "the name of a file ends as those of Kafka's files do, and does not begin with an offset",
        "It does not start: it takes the beginning of the name for an offset. Before 3.0 it passes over a `.swap`.",
        "Reads skip it.",
        "move the file out, or let `brokerless repair` do that",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "file-unpadded": Code(
        "error",
        "the offset in the name of a segment has not 20 digits",
        "It opens an empty segment of this offset beside it. A consumer that reaches the empty one misses the records "
        "behind it.",
        "Reads skip it.",
        "write the offset with 20 digits, if the segment is of this log; else move the file out",
        is_unserved=True,
        level="quick",
    ),
    "file-foreign": Code(
        "note",
        "a file or a directory is none of Kafka's",
        "It ignores the file.",
        "Reads skip it.",
        "none is needed; look where it comes from",
        level="quick",
    ),
    "shutdowns-differ": Code(
        "warning",
        "the log directories of a broker are of different shutdowns",
        "It starts, and reports to its controller that it was shut down uncleanly.",
        "Partitions in the older directory may lack records.",
        "put back the directories of one moment, if one of them is a snapshot; a replica fetches what it lacks",
        level="quick",
    ),
    "ids-missing": Code(
        "error",
        "meta.properties is missing",
        "A broker with KRaft does not start. One with ZooKeeper writes the file again.",
        "None.",
        "put the file back, or `kafka-storage.sh format --ignore-formatted` with the same cluster id and node id",
        stops_broker=True,
        level="quick",
    ),
    "ids-damaged": Code(
        "error",
        "meta.properties cannot be read",
        "It does not start, or takes the log directory offline.",
        "None.",
        "write the file again with version, cluster.id, node.id and directory.id: other disks of the broker have the "
        "same but for the last, of which `brokerless cluster brokers --json` lists all",
        stops_broker=True,
        level="quick",
    ),
    "ids-conflict": Code(
        "error",
        "directories of one broker have ids that do not go together",
        "It does not start.",
        "Reads refuse directories of different clusters.",
        "name the directories of one broker; remove a copy of a directory",
        stops_broker=True,
        level="quick",
    ),
    "quorum-damaged": Code(
        "error",
        "a small file of the metadata log cannot be read",
        "It does not start.",
        "None.",
        "put back a copy. The only controller of a cluster starts without quorum-state",
        stops_broker=True,
        level="quick",
    ),
    "metadata-damaged": Code(
        "error",
        "a snapshot of the cluster's metadata cannot be read, or a record in them contradicts those before it",
        "It does not start.",
        "`brokerless cluster` shows the metadata as of an earlier offset.",
        "copy the metadata log from another controller. Without one, `brokerless rescue` makes a new cluster",
        stops_broker=True,
        level="quick",
    ),
    "metadata-cut": Code(
        "error",
        "a snapshot of the cluster's metadata is cut",
        "It starts with what is left of it: topics, settings and access rights after the cut are gone, and the "
        "partitions of these topics are renamed `-stray`.",
        "`brokerless cluster` shows the metadata as of an earlier offset.",
        "copy the metadata log from another controller. Without one, remove the snapshot, if there is an older one and "
        "the log from there on",
        level="quick",
    ),
}
