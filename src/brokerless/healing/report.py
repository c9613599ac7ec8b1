"""`RepairReport` and `RescueReport`: what a repair or a rescue did, or would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.rewriting.truncate import EndedTransaction


@dataclass(kw_only=True)
class HealingReport:
    """What a repair or a rescue did, or what it would do.

    Attributes:
        output: the directory of the result.
        ranges: the damaged ranges of offsets, and what became of them.
        doubts: what else may be lost, and what is not known, a sentence each.
        left: the findings that are still true of the result.
        lost_path: the directory with the report, and the bytes that were left out; None: there is none.
        repaired: what was done to the files of each partition that was not sound, by its name.
    """

    output: str
    ranges: list[DamagedRange] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    lost_path: str | None = None
    repaired: dict[str, list[str]] = field(default_factory=dict)

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges of offsets that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def is_clean(self) -> bool:
        """Whether the result has no error and no warning."""
        return all(finding.severity == "note" for finding in self.left)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost, suspect or in doubt, and no error or warning is left."""
        return self.is_clean and not self.doubts and all(one.state == "recovered" for one in self.ranges)

    def to_dict(self) -> dict[str, object]:
        """Return it as a dict for JSON."""
        return {of.name: _plain(getattr(self, of.name)) for of in fields(self)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - what JSON has
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


RECOVERED = "recovered as by a broker that starts"
"""What is done with a partition of a directory that was not shut down cleanly, if nothing is damaged."""


@dataclass(kw_only=True)
class RepairReport(HealingReport):
    """What a repair did, or what it would do.

    Attributes:
        path: the damaged log directory or partition directory.
        output: where the repaired one is: another directory, or the same.
        ranges: the damaged ranges of offsets, and what became of them.
        doubts: what is not known of transactions, leader epochs and deleted records, a sentence each.
        left: the findings that are still true of the result.
        lost_path: the directory with the bytes that were left out, and the report; None: nothing was, or a dry run.
        repaired: what was done to the files of each partition that was not sound, by its name.
        partitions: how many partitions were looked at.
        checkpoints: the checkpoints of the log directory that were damaged, and are written again.
        left_alone: why a partition is left as it is, by its name.
        left_out: why a replica that was on its way here is left out, by its directory.
        findings: how many findings of each code there were in the partitions.

    >>> import brokerless as bl
    >>> bl.repair(SAMPLE_DIR, dry_run=True).ranges
    []
    """

    path: str
    partitions: int = 0
    checkpoints: list[str] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)

    @property
    def recovered(self) -> list[str]:
        """The partitions of which no more was done than a broker does that starts."""
        return [name for name, done in self.repaired.items() if done == [RECOVERED]]


class MissingPartition(NamedTuple):
    """A partition of the cluster that is not, or not surely, on the disks as a whole.

    Attributes:
        topic: the topic.
        partition: the partition.
        reason: what is missing, and how that is known.
        is_gone: whether no disk has any of it that can be used: it starts empty.
        offset: the offset from which on records may be missing; None: it is not known.
    """

    topic: str
    partition: int
    reason: str
    is_gone: bool
    offset: int | None = None


@dataclass(kw_only=True)
class RescueReport(HealingReport):
    """What a rescue did, or what it would do.

    Attributes:
        output: the directory of the result.
        ranges: the damaged ranges of offsets, and what became of them.
        doubts: what else may be lost, and what is not known, a sentence each: transactions that may have been
            committed, changes of the metadata, logs that cannot be checked.
        left: the findings that are still true of the result.
        lost_path: the directory with the report; None for a dry run.
        repaired: what was done to the files of each partition that was not sound, by its name.
        nodes: the log directory of each node.
        cluster_id: the id of the new cluster.
        metadata: where the metadata come from; None: there are none, and topics are known by their directories only.
        topics: how many partitions each topic has.
        chosen: the directory that each partition's records come from, by the partition's name.
        missing: the partitions that are not, or not surely, whole.
        notes: what else is not as it was, a sentence each.
        ended: for each partition with such, by its name, the transactions that were open at the moment of a cut.
    """

    nodes: dict[int, str] = field(default_factory=dict)
    cluster_id: str = ""
    metadata: str | None = None
    topics: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    missing: list[MissingPartition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: dict[str, list[EndedTransaction]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost, missing or in doubt, and no error or warning is left."""
        return super().is_whole and not self.missing
