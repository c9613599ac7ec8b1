"""`RepairReport` and `RescueReport`: the reports of a finished or planned repair or rescue."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from brokerless.remarks import Remark
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerless.checking.finding import Finding
    from brokerless.healing.damaged_range import DamagedRange
    from brokerless.rewriting.truncate import EndedTransaction


@dataclass(kw_only=True)
class HealingReport:
    """The report of a finished or planned repair or rescue.

    Attributes:
        output: the directory of the result.
        dry_run: True if the repair or rescue is only planned, and nothing was changed.
        ranges: the damaged ranges of offsets, with their states in the result.
        doubts: other possible losses and uncertainties.
        left: the findings that still apply to the result.
        lost_path: the directory with the report, and the bytes that were left out; None: no directory was written.
        repaired: the steps taken on the files of each faulty partition, by its name.
    """

    output: str
    dry_run: bool = False
    ranges: list[DamagedRange] = field(default_factory=list)
    doubts: list[Remark] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    lost_path: str | None = None
    repaired: dict[str, list[Remark]] = field(default_factory=dict)

    @property
    def lost(self) -> list[DamagedRange]:
        """The ranges of offsets that are lost."""
        return [one for one in self.ranges if one.state == "lost"]

    @property
    def is_clean(self) -> bool:
        """True if the result has no error and no warning."""
        return all(finding.severity == "note" for finding in self.left)

    @property
    def is_whole(self) -> bool:
        """True if nothing is lost, suspect or in doubt, and no error or warning is left."""
        return self.is_clean and not self.doubts and all(one.state == "recovered" for one in self.ranges)

    @property
    def summary(self) -> str:
        """The result in one line."""
        return f"the result is {self.output}"

    def with_paths(self, shown: Callable[[str], str]) -> Self:
        """Return the report with other paths: of the result, the damaged files, their sources and the findings."""
        ranges = [replace(one, path=shown(one.path), source=one.source and shown(one.source)) for one in self.ranges]
        return replace(
            self,
            output=shown(self.output),
            lost_path=self.lost_path and shown(self.lost_path),
            ranges=ranges,
            left=[replace(one, path=shown(one.path)) for one in self.left],
        )

    def __str__(self) -> str:
        more = len(self.lost) - _MOST_LOST
        several = [counted(more, "more lost range")] if more > 0 else []
        return "\n".join([*map(str, self.lost[:_MOST_LOST]), *several, self.summary])

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict for JSON."""
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


# The lost ranges that the text of a report names.
_MOST_LOST = 4
RECOVERED = Remark("recover", "recovered as by a broker that starts")
"""The treatment of a partition of a directory that was not shut down cleanly, if nothing is damaged."""


@dataclass(kw_only=True)
class RepairReport(HealingReport):
    """The report of a finished or planned repair.

    Attributes:
        path: the damaged log directory or partition directory.
        output: the repaired directory: a new directory, or the damaged one after its repair in place.
        dry_run: True if the repair or rescue is only planned, and nothing was changed.
        ranges: the damaged ranges of offsets, with their states in the result.
        doubts: uncertainties about transactions, leader epochs and deleted records.
        left: the findings that still apply to the result.
        lost_path: the directory with the left-out bytes and the report; None if nothing was left out, or for a dry run.
        repaired: the steps taken on the files of each faulty partition, by its name.
        partitions: the number of partitions that were checked.
        checkpoints: the checkpoints of the log directory that were damaged, and are written again.
        left_alone: why a partition is left unchanged, by partition name.
        left_out: why a replica that was being moved here is left out, by directory.
        findings: the number of findings of each code in the partitions.

    >>> import brokerless as bl
    >>> bl.repair(SAMPLE_DIR, dry_run=True).ranges
    []
    """

    path: str
    partitions: int = 0
    checkpoints: list[str] = field(default_factory=list)
    left_alone: dict[str, Remark] = field(default_factory=dict)
    left_out: dict[str, Remark] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)

    @property
    def recovered(self) -> list[str]:
        """The partitions in which the repair did only what a starting broker does."""
        return [name for name, done in self.repaired.items() if done == [RECOVERED]]

    @property
    def summary(self) -> str:
        """The number of repaired partitions and of damaged ranges, in one line."""
        count = len(self.repaired) - len(self.recovered)
        what = "would be repaired" if self.dry_run else "repaired"
        states = [one.state for one in self.ranges]
        ranges = ", ".join(
            f"{states.count(state)} {state}" for state in ("lost", "recovered", "suspect") if state in states
        )
        recovered = f"{len(self.recovered)} {RECOVERED}" if self.recovered else ""
        if count or self.ranges or self.checkpoints or self.left_alone:
            said = f"{count} of {counted(self.partitions, 'partition')} {what}"
            said += f", and {recovered}" if recovered else ""
            said += f"; {counted(len(self.checkpoints), 'checkpoint')} {what}" if self.checkpoints else ""
            said += f"; damaged ranges: {ranges or 'none'}"
        else:
            said = f"nothing to repair in {counted(self.partitions, 'partition')}"
            said += f"; {recovered}" if recovered else ""
        if not self.dry_run:
            said += f"; the result is {self.output}"
        if self.lost_path is not None:
            said += f"; what was left out, and a report, are in {self.lost_path}"
        return said


MissingCode = Literal["gone", "unreadable", "end", "not-in-sync", "not-leader"]
"""The reason why a partition is not complete, or may not be.

- gone: no disk has the partition.
- unreadable: no replica of the partition can be used.
- end: an unused replica had more records.
- not-in-sync: no disk has an undamaged in-sync replica.
- not-leader: no disk has the undamaged replica of the partition's leader.
"""


class MissingPartition(NamedTuple):
    """A partition of the old cluster that is not complete on the disks, or may not be.

    Attributes:
        topic: the topic.
        partition: the partition.
        code: the reason; see `MissingCode`.
        reason: the missing part and the evidence, as text.
        is_gone: whether no disk has a usable part of the partition. If True, the partition is empty in the new cluster.
        offset: the first offset that may be missing; None if it is not known.
    """

    topic: str
    partition: int
    code: MissingCode
    reason: str
    is_gone: bool
    offset: int | None = None


@dataclass(kw_only=True)
class RescueReport(HealingReport):
    """The report of a finished or planned rescue.

    Attributes:
        output: the directory of the result.
        dry_run: True if the repair or rescue is only planned, and nothing was changed.
        ranges: the damaged ranges of offsets, with their states in the result.
        doubts: other possible losses and uncertainties: transactions that may have been committed,
            changes of the metadata, logs that cannot be checked.
        left: the findings that still apply to the result.
        lost_path: the directory with the report; None for a dry run.
        repaired: the steps taken on the files of each faulty partition, by its name.
        nodes: the log directory of each node.
        cluster_id: the id of the new cluster.
        metadata: the path of the metadata that were used; None if no disk has any, and only directories show the
            topics.
        topics: the number of partitions of each topic.
        chosen: the directory that each partition's records come from, by partition name.
        missing: the partitions that are not complete, or may not be.
        notes: other differences from the old cluster.
        ended: the transactions that were open at the time of a cut, by partition name, for partitions that had any.
    """

    nodes: dict[int, str] = field(default_factory=dict)
    cluster_id: str = ""
    metadata: str | None = None
    topics: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    missing: list[MissingPartition] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    ended: dict[str, list[EndedTransaction]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if nothing is lost, missing or in doubt, and no error or warning is left."""
        return super().is_whole and not self.missing

    def with_paths(self, shown: Callable[[str], str]) -> Self:
        """Return the report with other paths, also of the nodes' directories and of the sources."""
        return replace(
            super().with_paths(shown),
            nodes={node: shown(path) for node, path in self.nodes.items()},
            metadata=self.metadata and shown(self.metadata),
            chosen={name: shown(path) for name, path in self.chosen.items()},
        )

    @property
    def summary(self) -> str:
        """The number of topics and partitions, and their nodes, in one line."""
        count = sum(self.topics.values())
        what = "there will be" if self.dry_run else "there are"
        topics = f"{counted(len(self.topics), 'topic')} with {counted(count, 'partition')}"
        if (len(self.topics), self.dry_run) == (1, False):
            what = "there is"
        said = f"{what} {topics} on node{'s' * (len(self.nodes) > 1)} {', '.join(map(str, self.nodes))}"
        if not self.dry_run:
            said += f"; start brokers on {', '.join(self.nodes.values())}; the report is in {self.lost_path}"
        return said
