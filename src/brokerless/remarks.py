"""Remarks: the sentences of a report, each with its facts as fields for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

REMARKS = {
    # The steps of a recovery or a repair: the change of a file.
    "keep": "the file is kept",
    "make": "the directory is created",
    "write": "the file is written",
    "rebuild": "the file is rebuilt from the batches",
    "rename": "the file or directory is renamed",
    "replace": "another file takes the file's place",
    "truncate": "the file is cut",
    "remove": "the file is removed",
    "drop": "the file, or a part of it, is left out",
    "recover": "the log is recovered, as by a starting broker",
    # What a broker does with the logs.
    "silent-loss": "without recovery, a broker loses records and does not report it",
    "metadata-cut-off": "a broker cuts records off the end of the metadata log",
    # What a repair or a rescue cannot know.
    "epoch-doubtful": "a batch and the leader epoch checkpoint contradict each other",
    "log-start-doubtful": "it is not known which records were deleted, because no checkpoint has the log start offset",
    "offset-doubtful": "no other file confirms the base offset in the header of the last batch",
    "groups-ahead": "groups committed offsets beyond the new end of a log, or these groups are not known",
    "transaction-ended": "a transaction is ended as aborted, because only the transaction index has its end",
    "transaction-doubtful": "the marker of a transaction is lost, so its outcome is not known",
    "transactions-unknown": "it is not known which of the open transactions were decided",
    "producer-ids": "a producer id that a transactional id already has may be assigned again",
    "unreadable": "the log, or a part of it, cannot be read",
    # The reasons why a log is left as it is, or copied as it is.
    "batches-damaged": "the batches are damaged, and the repair is limited to indexes",
    "metadata-log": "the metadata log lacks records, which a repair cannot restore",
    "lost-offsets-damaged": "the file that lists the losses of earlier repairs cannot be read",
    "copied-as-is": "no replica can be repaired: a replica is copied unchanged, and may be damaged",
    # The replicas that a rescue uses.
    "replica-moved": "the replica was being moved to another disk",
    "replica-unassigned": "the metadata assign the replica to another node",
    "replica-unreadable": "the replica cannot be read",
    "replica-unusable": "a replica with more records cannot be used",
    "replica-unused": "the replica may belong to another topic, or its broker has renamed it -stray",
    "old-formats": "message formats 0 and 1 are kept",
    # The metadata of a rescued cluster.
    "metadata-incomplete": "the newest metadata lack records",
    "metadata-uncommitted": "the disks have too few controllers' metadata logs to show which changes were committed",
    "metadata-older": "the logs have later leader epochs than the metadata",
    "metadata-left-out": "metadata records are left out",
    "metadata-unknown": "metadata records of unknown types are kept or left out",
    "node-id-missing": "the meta.properties of a disk has no node id",
    "cluster-id-kept": "the cluster keeps its id",
    "cluster-id-new": "the cluster gets a new id",
    "topic-name": "the topic is left out: its name is not a valid topic name",
    "topic-empty": "the topic is left out: it has no partitions",
    "topic-unknown": "the topic is not in the metadata",
    "partition-count": "the number of partitions differs from the metadata, or is an estimate",
    "partition-moving": "the partition was being moved to other nodes",
    "remote-storage": "the topic has segments in remote storage",
    # The other differences of a rescued cluster.
    "voters-unnamed": "the new metadata log does not name the controllers",
    "features": "the cluster starts with the features of another release",
    "min-insync-replicas": "min.insync.replicas is lowered",
    "broker-settings-left-out": "the configs of a broker that the new cluster does not have are left out",
    "groups-anew": "groups have no committed offsets",
    "transactions-stay-open": "no coordinator knows the open transactions",
    "transactions-committed": "transactions that were open at the cut are committed",
    "transactions-aborted": "transactions that were open at the cut are aborted",
    "cut-before": "the log is cut earlier, so that no transaction is split",
}
"""The codes of remarks that `brokerless finding` does not list, each with its meaning, which never changes."""


@dataclass(frozen=True)
class Remark:
    """A sentence of a report, together with its facts as fields for programs.

    Attributes:
        code: the code of the remark: one of `brokerless finding`, or one of `REMARKS`.
        message: the sentence. It is for people, and may change in any release.
        topic: the topic; None if the remark concerns no topic, or several.
        partition: the partition; None if the remark concerns no partition, or several.
        path: the file or directory; None if the remark concerns none, or several.
        names: for a sentence about several topics, partitions or paths, all of them; the sentence may name only a few.

    >>> print(Remark("epoch-doubtful", "the batch may have leader epoch 3", topic="orders", partition=0))
    the batch may have leader epoch 3
    """

    code: str
    message: str
    topic: str | None = field(default=None, kw_only=True)
    partition: int | None = field(default=None, kw_only=True)
    path: str | None = field(default=None, kw_only=True)
    names: tuple[str, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        return self.message

    def of(
        self, before: str, *, topic: str | None = None, partition: int | None = None, path: str | None = None
    ) -> Remark:
        """Return the remark with a prefix to its message, and with the given partition and path where it has none."""
        if self.topic is not None:
            topic, partition = self.topic, self.partition
        path = path if self.path is None else self.path
        return replace(self, message=f"{before}{self.message}", topic=topic, partition=partition, path=path)

    def to_dict(self) -> dict[str, object]:
        """Return the remark as a dict for JSON."""
        return asdict(self)
