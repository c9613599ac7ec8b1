"""The kinds of findings: what each means, its effect on a broker and on a reader, and its cure.

The texts are only in this table. The command, the guide `docs/findings.md` and the Python API use them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from brokerless.errors import IMAGE_FIRST

Severity = Literal["error", "warning", "note"]
"""The severity of a finding.

- error: records are lost, read wrongly or not served, or a broker does not start.
- warning: a broker or a reader works, but slower, or with files that contradict each other.
- note: the state after a crash, a deletion or a move, which a broker cleans up when it starts.
"""

Subject = Literal["batch", "records", "index", "state", "other"]
"""The part of a log directory that is faulty.

- batch: bytes that are not a sound batch.
- records: records that are not in the directory.
- index: an index, which can be rebuilt from the batches.
- state: leader epochs or a producer snapshot, which can be rebuilt from the batches.
"""

Level = Literal["quick", "default", "deep"]
"""The depth of a check.

- quick: reads names, small files and batch headers.
- default: also reads all batches, and verifies their checksums.
- deep: also reads all records.
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
        loses_records: whether readers lose the records at the offsets of such a finding.
        is_cured: whether `brokerless repair` cures it.
        stops_broker: whether a broker does not start on the directory, or on the log.
        is_unserved: whether a broker that starts does not serve this log, or serves no log at all.
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
    "`brokerless repair` keeps every sound batch before and after the damage, and takes lost batches from another "
    "replica (`--from`); `brokerless recover` truncates the log at the damage, as a broker does"
)
_SKIP = '`brokerless read --on-corrupt skip`, or `on_corrupt="skip"`, reads everything around the damage'
_CUT = "After an unclean shutdown, it truncates the log here, and loses all records from here on. "
_CUT_HERE = f"{_CUT}After a clean shutdown, it starts, and a fetch of this batch fails."
_ENDS_HERE = "A consumer stops at this offset with an error. A read returns the rows before it, and raises an error."
_WRITTEN_SO = "a producer or a tool wrote the batch in this form: find the producer by its id"
_REPAIR_HEADER = "no checksum covers the magic: if the rest of the batch is right, `brokerless repair` writes it again"
_REBUILD = "`brokerless repair` rebuilds the file; a broker rebuilds it when it starts, if you remove the file first"
_SLOW = "Reads check each entry against the log, so they take longer."

CODES: dict[str, Code] = {
    "batch-crc": Code(
        "error",
        "a batch has a wrong checksum",
        f"{_CUT}After a clean shutdown, it starts, and serves the batch as it is, because it verifies no checksum of "
        "what it serves.",
        "Kafka's own consumer verifies checksums (check.crcs=true), and stops at this offset with an error. A consumer "
        "with librdkafka, such as kcat, verifies none by default (check.crcs=false), and may take wrong bytes without "
        "an error. A read returns the rows before it, and raises an error.",
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-framing": Code(
        "error",
        "no batch begins at a position where one is expected",
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
        "zero bytes are at a position where a batch is expected",
        _CUT_HERE,
        _ENDS_HERE,
        f"check whether the disk or the file system loses writes. {_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-unloadable": Code(
        "error",
        "a batch that a broker reads when it starts has an invalid size",
        'It does not start: "Found record size". After a clean shutdown, it truncates nothing, and reads the headers '
        "of the batches from the last index entry on. If there is no producer snapshot of the log end, it reads the "
        "batches since the last snapshot.",
        _ENDS_HERE,
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "disk-unreadable": Code(
        "error",
        "the disk cannot read some bytes of a batch",
        "When it reads these bytes, for a fetch or at its start, it takes the log directory offline, or stops.",
        "A read returns the rows before these bytes, and raises an error. Records in them are lost.",
        f"{IMAGE_FIRST}: ddrescue tries again to read the bytes. {_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
        level="quick",
    ),
    "batch-cut": Code(
        "error",
        "a segment ends in the middle of a batch, although no crash explains it",
        "It starts, and skips the rest of this segment without an error. If this is the newest segment, the log ends "
        "there.",
        "A consumer gets neither the lost records nor an error. A read returns the rows before the damage, and raises "
        "an error.",
        f"{_REPLICA}. {_SKIP}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-payload": Code(
        "error",
        "the records of a batch cannot be decompressed, although its checksum is right",
        "It serves the batch, because it does not decompress batches. Compaction of the log fails.",
        _ENDS_HERE,
        f"{_WRITTEN_SO}. {_SKIP}. {_REPLICA}, if its batch is different",
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
        f"{_WRITTEN_SO}. {_SKIP}. {_REPLICA}, if its batch is different",
        subject="batch",
        loses_records=True,
        is_cured=True,
        level="deep",
    ),
    "batch-order": Code(
        "error",
        "the offsets of a batch go backwards, or lie outside its segment",
        "After an unclean shutdown, it truncates the log here. After a clean shutdown, it serves the batch as it is.",
        "A consumer gets records in the wrong order, or no records. A read raises an error; with `--on-corrupt "
        "skip`, it skips as few batches as possible.",
        f"{_REPLICA}. {_RECOVERS}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-magic": Code(
        "error",
        "a batch has a magic that no Kafka release writes",
        "It loads a log with a magic above 2 as if it were 2, and truncates it at a negative magic after an unclean "
        "shutdown. It serves a batch that it keeps.",
        _ENDS_HERE,
        f"{_REPAIR_HEADER}. {_REPLICA}. {_SKIP}",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "batch-unsupported": Code(
        "warning",
        "a batch has a form that brokerless does not read",
        "It reads the batch, if its Kafka release supports this form.",
        "A consumer gets the batch. A read by brokerless raises an error there.",
        "the finding names the cause. `brokerless convert --compression none` makes a batch readable that decompresses "
        "to too many bytes; a newer brokerless may know a codec that this one does not know. Or read the batch with "
        "Kafka",
        loses_records=True,
        level="deep",
    ),
    "batch-timestamp": Code(
        "warning",
        "the largest timestamp in a batch's header differs from the largest timestamp of its records",
        "Its retention and searches by time use the header's timestamp, so it deletes the batch too early or too late.",
        "A search by time may miss the batch.",
        "`brokerless convert --output` writes the records into new batches",
        level="deep",
    ),
    "record-order": Code(
        "warning",
        "the offsets of the records in a batch do not increase",
        "It serves the batch as it is.",
        "A consumer and a read return the records in this order.",
        _WRITTEN_SO,
        level="deep",
    ),
    "tail-torn": Code(
        "note",
        "the log ends with bytes that are not a whole batch, as after a crash",
        "It truncates these bytes when it starts after an unclean shutdown.",
        "A consumer does not get these bytes. A read returns everything before them, and raises an error.",
        "`brokerless recover` truncates these bytes, as a broker does",
        subject="batch",
        loses_records=True,
        is_cured=True,
    ),
    "tail-zeros": Code(
        "error",
        "zeros follow the last batch, although the log was closed",
        'It does not start: "Found record size 0". With fewer than 17 zeros, it starts and appends after them.',
        "A consumer does not get past the zeros. A read returns everything before them.",
        "`brokerless repair` and `brokerless recover` cut the zeros off",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "segment-missing": Code(
        "error",
        "a segment's `.log` is missing, but its indexes exist",
        "It starts, deletes the indexes, and serves the log without the records of this segment.",
        "A consumer skips the segment's offsets without an error. A read raises an error there.",
        f"put the file back before a broker starts. {_REPLICA}",
        subject="records",
        loses_records=True,
        is_cured=True,
    ),
    "segment-cut": Code(
        "error",
        "an older segment ends before the last entry of its index",
        "It starts, and serves the log without the records after the end of the file.",
        "A consumer skips their offsets without an error. A read raises an error there.",
        f"put the whole file back. {_REPLICA}",
        subject="records",
        loses_records=True,
        is_cured=True,
    ),
    "offset-overflow": Code(
        "warning",
        "a segment spans more offsets than its indexes can hold",
        "It serves the log, but looks for the offsets that the indexes cannot hold at wrong positions. After an "
        "unclean shutdown, it splits the segment (KAFKA-6264).",
        "None.",
        "`brokerless repair` and `brokerless recover` split the segment, as a broker does",
        is_cured=True,
    ),
    "offset-overlap": Code(
        "warning",
        "a sound batch begins below the end of the batch before it, and ends above it",
        "It serves the batch as it is. A follower that fetches the batch stops, because the batch does not begin at "
        "the follower's log end (KAFKA-3919).",
        "Java's consumer and a read return only the records above the end of the batch before it. Other clients may "
        "get the records below that end a second time. The verbs that rewrite a log refuse this log.",
        "`brokerless repair` and `brokerless rescue` rebuild the batch from the records that Java's consumer gets",
        is_cured=True,
    ),
    "records-missing": Code(
        "error",
        "the log ends before the offset at which it was closed, or up to which it was flushed",
        "It starts, serves the log without the missing records, and gives their offsets to new records.",
        "A consumer does not get the missing records. A read raises an error at the end of the log.",
        "put the removed or truncated files back before a broker starts. If the directory was copied while its broker "
        f"ran, copy it again. After a crash, check whether the disk or the file system loses writes. {_REPLICA}. "
        "`brokerless repair` takes the records from another replica (`--from`), and names the groups that committed "
        "offsets beyond the end",
        subject="records",
        loses_records=True,
        is_cured=True,
        level="quick",
    ),
    "offset-gap": Code(
        "warning",
        "offsets are missing between two batches of a log that is not compacted",
        "It serves the log as it is.",
        "A consumer and a read skip these offsets without an error.",
        f"compare the log with another replica, or with the number of records that the producer sent. {_REPLICA}, if "
        "it has the records",
        subject="records",
        is_cured=True,
    ),
    "epoch-order": Code(
        "error",
        "the leader epoch of a batch is below that of a batch before it",
        "A follower that asks for the end offset of a leader epoch may truncate at a wrong offset.",
        "A consumer and a read return the batch.",
        "a tool or a bad copy mixed batches of two different logs: compare the log with another replica",
        is_cured=True,
    ),
    "epochs-damaged": Code(
        "error",
        "the leader-epoch-checkpoint cannot be read",
        "It does not start, or takes the log directory offline. If the file is removed, it rebuilds the leader epochs "
        "from the batches.",
        "None.",
        _REBUILD,
        subject="state",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "epochs-differ": Code(
        "warning",
        "the leader-epoch-checkpoint contradicts the batches",
        "As leader, it gives followers wrong end offsets of leader epochs, so they may truncate too much or too "
        "little.",
        "None.",
        _REBUILD,
        subject="state",
        is_cured=True,
    ),
    "offset-index": Code(
        "error",
        "an offset index contradicts its log",
        "It reads at wrong positions, so a fetch may fail or miss records. If the last entry of the newest index "
        "points beyond the log, it takes the end of the previous segment as the log end, and gives the offsets after "
        "that end to new records.",
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
        "none is needed: a starting broker and `brokerless recover` rebuild a missing file; `brokerless repair` also "
        "rebuilds an empty file",
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
        "none is needed: a starting broker and `brokerless recover` rebuild the file",
        subject="index",
        is_cured=True,
    ),
    "transaction-index": Code(
        "error",
        "a transaction index contradicts the markers in its log",
        "It sends consumers with read_committed a wrong list of aborted transactions.",
        "A consumer with read_committed gets aborted records, or misses committed ones. Reads by brokerless use the "
        "markers.",
        _REBUILD,
        subject="index",
        is_cured=True,
    ),
    "index-unflushed": Code(
        "note",
        "an index contradicts its log after a crash, because it may not have been flushed",
        "When it starts, it rebuilds the indexes of all segments from the recovery point on, also this one "
        "(`LogLoader.recoverLog`).",
        "A read by brokerless checks each entry against the log, and finds aborted transactions by their markers.",
        "none is needed: a starting broker and `brokerless recover` rebuild the file",
        subject="index",
        is_cured=True,
    ),
    "transaction-version": Code(
        "error",
        "a transaction index has an entry of an unknown version",
        "It does not start (`TransactionIndex.sanityCheck`). Releases up to 4.1 read only the first byte of the "
        "version, and start if this byte is 0.",
        "None. Reads by brokerless use the markers.",
        _REBUILD,
        subject="index",
        is_cured=True,
        stops_broker=True,
    ),
    "snapshot-damaged": Code(
        "warning",
        "a producer snapshot cannot be read",
        "It skips the file, and reads the log from the previous snapshot on.",
        "None.",
        "remove the file: a broker then reads the log from the previous snapshot on",
        subject="state",
        is_cured=True,
    ),
    "snapshot-differs": Code(
        "warning",
        "a producer snapshot contradicts the batches before it",
        "From the producers in the snapshot, it may accept duplicate batches, or refuse valid batches as out of order.",
        "None.",
        "remove the file: a broker then reads the log from the previous snapshot on",
        subject="state",
        is_cured=True,
    ),
    "snapshot-incomplete": Code(
        "error",
        "a producer snapshot lacks an open transaction, or a log that was shut down cleanly has no snapshot",
        "It does not know the missing producers: it accepts duplicates from them, and consumers with read_committed "
        "get records of their open transactions.",
        "A read with read_committed may return records of open transactions, too.",
        "`brokerless repair` rebuilds the snapshot",
        subject="state",
        is_cured=True,
    ),
    "sequence-gap": Code(
        "warning",
        "the sequence numbers of a producer have a gap, in a log that is not compacted",
        "It serves the log as it is.",
        "Records of this producer may be missing, and reads raise no error.",
        f"compare the log with another replica. {_REPLICA}, if it has the records",
    ),
    "transaction-overdue": Code(
        "warning",
        "a transaction has been open for longer than its producer's timeout, or for over 15 minutes if the timeout "
        "is unknown",
        "The transaction's coordinator ends it, if the coordinator knows it. If not, the transaction hangs: the last "
        "stable offset stays, and compaction stops.",
        "A consumer with read_committed waits at the transaction's first offset.",
        "`brokerless transactions --hanging` with the directories of all brokers shows whether the transaction hangs. "
        "If a broker's transaction.max.timeout.ms is above its default of 15 minutes, the transaction may still be in "
        "progress. If it hangs, start the cluster, and run `kafka-transactions.sh --bootstrap-server SERVER abort "
        "--topic TOPIC --partition PARTITION --start-offset OFFSET`",
    ),
    "timestamp-unlikely": Code(
        "warning",
        "the largest timestamp of a segment is in the future, or in 1970",
        "It computes the segment's age from this timestamp. If the timestamp is in the future, retention by time "
        "deletes neither the segment nor the segments after it. If the timestamp is in 1970, such as 0 or a time in "
        "seconds, retention by time deletes the segment immediately.",
        "Searches by time find the wrong records.",
        "find the producer that sets such timestamps. To delete the segment, use `brokerless retain "
        "--before-offset`. Since Kafka 3.6, message.timestamp.after.max.ms and message.timestamp.before.max.ms make "
        "a broker refuse such records",
    ),
    "transaction-hanging": Code(
        "error",
        "a transaction is open in a partition, and its coordinator will never end it",
        "It never moves the last stable offset past the transaction, and compaction stops there.",
        "A consumer with read_committed waits at the transaction's first offset.",
        "start the cluster, and run `kafka-transactions.sh --bootstrap-server SERVER abort --topic TOPIC --partition "
        "PARTITION --start-offset OFFSET`",
        level="quick",
    ),
    "state-record": Code(
        "error",
        "a record of a coordinator's topic cannot be decoded",
        "It starts, but its coordinator cannot load this partition: the groups or transactional ids in it are "
        "unavailable. In brokers before 3.4.1, a record of an unknown type has the same effect.",
        "`brokerless groups` and `brokerless transactions` leave the record out.",
        "run `brokerless erase --in-place --bytes hex --key` with the key of the record, on each replica. A record "
        f"without a key cannot be erased. {_REPLICA}, if it lacks the record",
        is_unserved=True,
        level="deep",
    ),
    "checkpoint-damaged": Code(
        "error",
        "a checkpoint file cannot be read",
        "It does not start, or takes the log directory offline. Without the file, it recovers all logs, or forgets "
        "high watermarks and log start offsets.",
        "Records below the log start offset may become visible again.",
        "run `brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "checkpoint-reset": Code(
        "warning",
        "a checkpoint of recovery points, log start offsets or cleaned offsets has an invalid number",
        "It starts as if the file were empty. Without recovery points, it recovers all logs; without log start "
        "offsets, it forgets where logs start. If the file is cleaner-offset-checkpoint, its log cleaner stops.",
        "Records below the log start offset may become visible again.",
        "run `brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        level="quick",
    ),
    "watermarks-damaged": Code(
        "error",
        "the checkpoint of high watermarks has an invalid number",
        "It starts, and serves none of the directory's partitions.",
        "None.",
        "run `brokerless repair`, or remove the file: a broker writes it again",
        is_cured=True,
        is_unserved=True,
        level="quick",
    ),
    "checkpoint-ahead": Code(
        "warning",
        "a high watermark, a producer snapshot or a leader epoch has an offset beyond the end of its log",
        "It sets the offset to the end of the log.",
        "None.",
        "none is needed after a crash, which may take records that were not flushed. If there was no crash, the end of "
        "the log may be missing: look for it in another replica",
        is_cured=True,
        level="quick",
    ),
    "log-start-ahead": Code(
        "error",
        "the log start offset is beyond the end of the log",
        "It deletes all segments when it starts.",
        "A consumer and a read return nothing.",
        "run `brokerless repair` before a broker starts; deleted records stay deleted. If the entry in "
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
        "It assumes that the partition was never written to: it renames the directory `-stray`, and no longer reads "
        "it.",
        "None.",
        "`brokerless repair` writes the file with the topic's id from the metadata, or from another partition",
        is_cured=True,
        is_unserved=True,
        level="quick",
    ),
    "topic-id-differs": Code(
        "error",
        "the topic id of a partition differs from that of its topic",
        "It considers the topic deleted and created again: it renames the directory `-stray`, and no longer reads it.",
        "A read returns the old topic's records.",
        "if you need the records, copy the directory before a broker starts. Then let the broker rename it",
        is_unserved=True,
        level="quick",
    ),
    "partition-stray": Code(
        "error",
        "the topic of a partition is not in the cluster's metadata",
        "It renames the directory `-stray`, and no longer reads it.",
        "A read returns its records.",
        "if you need the records, copy the directory before a broker starts. If the metadata log is an old copy, put "
        "the newest one back",
        is_unserved=True,
        level="quick",
    ),
    "directory-id-differs": Code(
        "error",
        "the id of a log directory differs from the id in the cluster's metadata",
        "It starts, but its partitions have no leader: the controller considers their directory lost.",
        "None.",
        "write the right directory.id into meta.properties before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "partition-lost": Code(
        "error",
        "the only replica of a partition, or the last in-sync replica, is in none of its broker's directories",
        "It creates an empty log and becomes the leader, so the other replicas delete their records.",
        "A read does not find the partition.",
        "put back the directory before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "metadata-missing": Code(
        "warning",
        "no path has the metadata of the cluster",
        "It starts. If neither another of its log.dirs nor another controller has the metadata, it renames all "
        "partitions `-stray`, and serves none.",
        "None.",
        "name the broker's other log directories too. If none has the metadata log, put it back before a broker starts",
        is_unserved=True,
        level="quick",
    ),
    "directory-absent": Code(
        "note",
        "a broker registered more log directories than the paths include",
        "If it starts without them, it serves only the partitions in the given directories.",
        "A read does not find the partitions in the other directories.",
        "name the broker's other log directories too; their partitions are not checked",
        level="quick",
    ),
    "partition-missing": Code(
        "warning",
        "the cluster's metadata assign a partition to this broker, but no directory has it",
        "It creates an empty log, and fetches the records from the leader, unless it becomes the leader itself.",
        "A read does not find the partition.",
        "name the broker's other log directories too. If none has the partition, put it back before a broker starts",
        level="quick",
    ),
    "stray": Code(
        "warning",
        "a broker renamed a partition's directory `-stray`, because the topic was not in its metadata",
        "It loads the log and keeps the directory, but does not serve the log. A broker before 3.7 fails "
        "at this directory.",
        "A read skips the directory, unless its path is given.",
        "if the topic was deleted, remove the directory. If the metadata were lost, `brokerless rescue` restores the "
        "partition",
        level="quick",
    ),
    "leftover": Code(
        "note",
        "a deletion, a compaction or a move did not remove all files or directories",
        "When it starts, it finishes the interrupted work, or removes the files.",
        "Reads skip them.",
        "none is needed",
        is_cured=True,
        level="quick",
    ),
    "name-unknown": Code(
        "error",
        "a directory's name is not that of a partition",
        "It does not start.",
        "Reads skip it.",
        "move the directory out of the log directory",
        stops_broker=True,
        level="quick",
    ),
    "name-taken": Code(
        "error",
        "a file has the name of a partition's directory, and the metadata place the partition in this log directory",
        "It cannot create the directory, and takes the log directory offline. Without another log directory, it does "
        "not start.",
        "Reads skip it.",
        "move the file out of the log directory. Then see `partition-lost`",
        stops_broker=True,
        level="quick",
    ),
    "file-obstructed": Code(
        "error",
        "a directory, or a symbolic link that forms a loop, has the name of a file",
        "It cannot open the file, and takes the log directory offline. Without another log directory, it does not "
        "start.",
        "A read treats the file as missing.",
        "move the directory or link away, and put the file back. `brokerless repair` rebuilds indexes",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "partition-twice": Code(
        "error",
        "a broker has a partition in two directories",
        "It does not start, because it does not know which directory is the right one.",
        "Reads refuse the partition.",
        "move away the directory that has fewer records, or is older: `brokerless ls` shows the offsets of each "
        "directory",
        stops_broker=True,
        level="quick",
    ),
    "file-unknown": Code(
        "error",
        "a file has the extension of one of Kafka's files, but its name does not begin with an offset",
        "It does not start, because it cannot parse the start of the file name as an offset. A broker before 3.0 "
        "ignores a `.swap` file with such a name.",
        "Reads skip it.",
        "move the file out of the log directory, or let `brokerless repair` do that",
        is_cured=True,
        stops_broker=True,
        level="quick",
    ),
    "file-unpadded": Code(
        "error",
        "the offset in the name of a segment does not have 20 digits",
        "It opens an empty segment of this offset beside the file. A consumer that reaches the empty segment misses "
        "the records in the file.",
        "Reads skip it.",
        "if the segment belongs to this log, rename the file: write the offset with 20 digits. If not, move the file "
        "out of the directory",
        is_unserved=True,
        level="quick",
    ),
    "file-unreadable": Code(
        "error",
        "a file or a directory cannot be read, so that it is not checked",
        "If it cannot read the file either, it takes the log directory offline, or stops.",
        "A read of the file raises an error.",
        "run `brokerless check` as the user of the broker, or as another user who may read the file; if something that "
        f"is not a file has its name, move that out. If the disk cannot read it, {IMAGE_FIRST}",
        level="quick",
    ),
    "file-foreign": Code(
        "note",
        "a file or a directory is not one of Kafka's",
        "It ignores the file or directory.",
        "Reads skip it.",
        "none is needed, but find out which program wrote it",
        level="quick",
    ),
    "shutdowns-differ": Code(
        "warning",
        "the log directories of a broker come from different shutdowns",
        "It starts, and reports to its controller that it was shut down uncleanly.",
        "Partitions in the older directory may lack records.",
        "if one of the directories comes from a snapshot, put back directories that were copied at the same time. A "
        "follower fetches the records that it lacks",
        level="quick",
    ),
    "ids-missing": Code(
        "error",
        "meta.properties is missing",
        "A broker with KRaft does not start. A broker with ZooKeeper writes the file again.",
        "None.",
        "put the file back, or write it again with version, cluster.id, node.id and directory.id: `brokerless cluster "
        "brokers --json` lists the ids of nodes and directories. With another directory.id, partitions have no leader. "
        "`kafka-storage.sh format --ignore-formatted` makes a new one: use it only for an empty disk",
        stops_broker=True,
        level="quick",
    ),
    "ids-damaged": Code(
        "error",
        "meta.properties cannot be read",
        "It does not start, or takes the log directory offline.",
        "None.",
        "write the file again with version, cluster.id, node.id and directory.id. The broker's other disks have the "
        "same values, except directory.id: `brokerless cluster brokers --json` lists all directory ids",
        stops_broker=True,
        level="quick",
    ),
    "ids-conflict": Code(
        "error",
        "directories of one broker have conflicting ids",
        "It does not start.",
        "Reads refuse directories of different clusters.",
        "name only the directories of one broker, and no copies of them",
        stops_broker=True,
        level="quick",
    ),
    "quorum-damaged": Code(
        "error",
        "a small file of the metadata log cannot be read",
        "It does not start.",
        "None.",
        "put back a copy of the file. If the cluster has only one controller, this controller also starts without "
        "quorum-state",
        stops_broker=True,
        level="quick",
    ),
    "metadata-damaged": Code(
        "error",
        "a snapshot of the cluster's metadata cannot be read, or a metadata record contradicts earlier ones",
        "It does not start.",
        "`brokerless cluster` shows the metadata as of an earlier offset.",
        "copy the metadata log from another controller. Without another controller, `brokerless rescue` makes a new "
        "cluster",
        stops_broker=True,
        level="quick",
    ),
    "metadata-cut": Code(
        "error",
        "a snapshot of the cluster's metadata is cut",
        "It starts with the metadata before the cut: the topics, configs and ACLs after the cut are lost, and it "
        "renames the partitions of these topics `-stray`.",
        "`brokerless cluster` shows the metadata as of an earlier offset.",
        "copy the metadata log from another controller. Without another controller, remove the snapshot, if an older "
        "snapshot and the log after it exist",
        level="quick",
    ),
}
