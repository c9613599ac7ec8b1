"""The verdict of a report: one or two sentences, the worst fault first, and the facts that are not known."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.checking.codes import CODES
from brokerless.reporting.texts import shown
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.reporting.tables import Numbers

_HANGING = "transaction-hanging"
# A lag is large from this number of records on, if it is also this share of the records of the group's partitions.
_LARGE_LAG, _LARGE_SHARE = 1000, 0.1
_MOST_NAMED = 3


class Verdict(NamedTuple):
    """A verdict.

    Attributes:
        severity: "error", "warning" or "sound".
        text: one or two sentences.
        unknown: one sentence about the facts that are not known; empty if all are known.
    """

    severity: Literal["error", "warning", "sound"]
    text: str
    unknown: str

    def __str__(self) -> str:
        return f"{self.text} {self.unknown}".rstrip()


def verdict(numbers: Numbers) -> Verdict:
    """Return the verdict of a report."""
    partitions = numbers.tables["partitions"].num_rows
    faults = _faults(numbers, partitions)
    unknown = _unknown(numbers)
    resets = _resets(numbers)
    clauses = [clause for clause in (_stopped(numbers), resets, _moved_back(numbers), _lags(numbers)) if clause]
    of_groups = _sentence(clauses) if clauses else ""
    if faults:
        return Verdict("error", f"{_sentence(faults)} {of_groups}".rstrip(), unknown)
    warnings = [row for row in numbers.tables["kinds"].to_pylist() if row["severity"] == "warning"]
    if warnings:
        total = sum(row["findings"] for row in warnings)
        first = CODES[warnings[0]["code"]].title
        where = "" if warnings[0]["topic"] is None else f" (topic {shown(warnings[0]['topic'])})"
        text = f"No error was found, but {counted(total, 'warning')}: {first}{where}."
    elif not partitions:
        text = "No fault was found, but the paths have no partitions."
    else:
        text = f"No fault was found in {counted(partitions, 'partition')}."
    if resets:
        # Consumers that skip or repeat records are worse than a warning about files.
        return Verdict(
            "warning", f"{of_groups} {text}".replace("No fault was found", "No other fault was found"), unknown
        )
    return Verdict("warning" if warnings else "sound", f"{text} {of_groups}".rstrip(), unknown)


def _resets(numbers: Numbers) -> str:
    """Return a clause about the groups whose committed offsets are out of range; else an empty text."""
    groups = numbers.tables["groups"]
    found = groups.filter(pc.greater(groups["out_of_range"], pa.scalar(0))).sort_by([("out_of_range", "descending")])
    if not found.num_rows:
        return ""
    group, number = str(found["group"][0].as_py()), found["out_of_range"][0].as_py()
    text = f"group {shown(group)} resets in {counted(number, 'partition')}, as its committed "
    text += "offset is out of range" if number == 1 else "offsets are out of range"
    others = found.num_rows - 1
    return text + (f" (and so {'does' if others == 1 else 'do'} {counted(others, 'other group')})" if others else "")


def _stopped(numbers: Numbers) -> str:
    """Return a clause about the groups that committed the offset where a transaction hangs; else an empty text."""
    hangs = {(topic, partition): offset for topic, partition, offset in hanging(numbers)[1]}
    columns = (numbers.tables["commits"][name].to_pylist() for name in ("group", "topic", "partition", "offset"))
    found = [
        (shown(str(group)), f"{shown(topic)}-{partition}", offset)
        for group, topic, partition, offset in zip(*columns, strict=True)
        if hangs.get((topic, partition)) == offset
    ]
    if not found:
        return ""
    (group, partition, offset), others = found[0], len({group for group, *_ in found}) - 1
    text = f"group {group} stands at offset {offset} of {partition}"
    return text + (f" (and {counted(others, 'other group')} where transactions hang)" if others else "")


def _moved_back(numbers: Numbers) -> str:
    """Return a clause that names the groups whose committed offsets moved back; else an empty text."""
    groups = numbers.tables["groups"]
    found = groups.filter(pc.greater(groups["commits_back"], pa.scalar(0))).sort_by([("commits_back", "descending")])
    if not found.num_rows:
        return ""
    names = [shown(str(name)) for name in found["group"].slice(0, _MOST_NAMED).to_pylist()]
    others = found.num_rows - len(names)
    if others:
        names.append(counted(others, "other group"))
    *first, last = names
    if not first:
        return f"the committed offsets of group {last} moved back"
    return f"the committed offsets of groups {', '.join(first)} and {last} moved back"


def _lags(numbers: Numbers) -> str:
    """Return a clause about the groups that lag much; else an empty text."""
    commits, partitions = numbers.tables["commits"], numbers.tables["partitions"]
    names = ("topic", "partition", "start_offset", "end_offset")
    size = {
        (topic, partition): end - start
        for topic, partition, start, end in zip(*(partitions[name].to_pylist() for name in names), strict=True)
        if start is not None and end is not None
    }
    lags: defaultdict[str, int] = defaultdict(int)
    sizes: defaultdict[str, int] = defaultdict(int)
    columns = (commits[name].to_pylist() for name in ("group", "topic", "partition", "lag", "is_out_of_range"))
    for group, topic, partition, lag, is_outside in zip(*columns, strict=True):
        if lag is not None and not is_outside:
            lags[group] += lag
            sizes[group] += size.get((topic, partition), 0)
    large = [group for group, lag in lags.items() if lag >= _LARGE_LAG and lag >= _LARGE_SHARE * sizes[group]]
    if not large:
        return ""
    most = max(large, key=lambda group: lags[group])
    text = f"group {shown(str(most))} lags by {counted(lags[most], 'record')}"
    others = len(large) - 1
    return text + (f" (and {counted(others, 'other group')} {'lags' if others == 1 else 'lag'} much)" if others else "")


def hanging(numbers: Numbers) -> tuple[int, list[tuple[str, int, int]]]:
    """Return the number of hanging transactions, and the first hanging offset of each partition that has any."""
    table = numbers.tables["transactions"]
    hangs: Any = pc.fill_null(table["is_hanging"], pa.scalar(False))
    first: dict[tuple[str, int], int] = {}
    for opened in opened_of(table.filter(hangs)["open"]):
        for one in opened:
            if one["is_hanging"]:
                place = one["topic"], one["partition"]
                first[place] = min(first.get(place, one["first_offset"]), one["first_offset"])
    return pc.sum(hangs).as_py() or 0, [(*place, offset) for place, offset in sorted(first.items())]


def opened_of(column: pa.ChunkedArray[Any]) -> list[list[dict[str, Any]]]:
    """Return the lists of open transactions without their times, because Python has no dates for some of the times."""
    names = ("topic", "partition", "first_offset", "is_hanging")
    found: list[list[dict[str, Any]]] = []
    chunks: list[Any] = column.chunks
    for chunk in chunks:
        fields = pa.StructArray.from_arrays([chunk.values.field(name) for name in names], list(names))
        lists: Any = pa.ListArray.from_arrays(chunk.offsets, fields, mask=chunk.is_null())
        found += [one or [] for one in lists.to_pylist()]
    return found


def _faults(numbers: Numbers, partitions: int) -> list[str]:
    """Return a clause for each kind of error, the worst first."""
    damaged = pc.sum(numbers.tables["partitions"]["is_damaged"]).as_py() or 0
    found = [_damage(numbers, damaged, partitions)] if damaged else []
    hung, places = hanging(numbers)
    others: defaultdict[str, int] = defaultdict(int)
    of_partitions = 0
    for row in numbers.tables["kinds"].to_pylist():
        kind = CODES[row["code"]]
        if row["severity"] != "error" or (row["code"] == _HANGING and hung):
            continue
        if kind.subject in ("batch", "records"):
            # Damage outside of the listed partitions, such as in a replica that is being moved.
            of_partitions += row["findings"]
        elif kind.stops_broker:
            others["keeps a broker from starting"] += row["findings"]
        elif kind.is_unserved:
            others["keeps a broker from serving a partition"] += row["findings"]
        else:
            others["is an error of another kind"] += row["findings"]
    if of_partitions and not damaged:
        others["is damage to batches or records"] = of_partitions
    for what, number in sorted(others.items(), key=lambda one: _ORDER.index(one[0])):
        verb, rest = what.split(" ", 1)
        found.append(f"{counted(number, 'finding')} {_PLURALS[verb] if number > 1 else verb} {rest}")
    if hung:
        found.append(_hanging(hung, places))
    return found


def _damage(numbers: Numbers, damaged: int, partitions: int) -> str:
    table = numbers.tables["partitions"]
    somewhere = " in at least one replica" if (pc.max(table["replicas"]).as_py() or 0) > 1 else ""
    if damaged > 1 or partitions == 1:
        return f"{damaged:,} of {counted(partitions, 'partition')} {'is' if damaged == 1 else 'are'} damaged{somewhere}"
    (row,) = table.filter(pc.field("is_damaged")).select(["topic", "partition"]).to_pylist()
    name = f"{shown(str(row['topic']))}-{row['partition']}"
    return f"1 of {counted(partitions, 'partition')} is damaged ({name}){somewhere}"


_ORDER = (
    "is damage to batches or records",
    "keeps a broker from starting",
    "keeps a broker from serving a partition",
    "is an error of another kind",
)
_PLURALS = {"is": "are", "keeps": "keep"}


def _hanging(number: int, places: list[tuple[str, int, int]]) -> str:
    text = f"{counted(number, 'transaction')} {'hangs' if number == 1 else 'hang'}"
    if not places:
        return text
    topic, partition, offset = places[0]
    text += f": read_committed consumers of {shown(topic)}-{partition} stop at offset {offset}"
    return text + (f", and those of {counted(len(places) - 1, 'other partition')} stop too" if len(places) > 1 else "")


def _sentence(clauses: Sequence[str]) -> str:
    *first, last = clauses
    text = f"{', '.join(first)}{',' if first else ''} and {last}" if first else last
    return f"{text[:1].upper()}{text[1:]}."


def _unknown(numbers: Numbers) -> str:
    found = []
    if not numbers.is_whole:
        found.append("the state of other topics and of the directories")
    if not numbers.has_groups:
        found.append("consumer groups and their lag")
    open_ones = numbers.tables["transactions"]["is_hanging"]
    if open_ones.null_count:
        found.append(f"whether {counted(open_ones.null_count, 'open transaction')} will end")
    elif not numbers.has_transactions:
        found.append("transactional ids")
    if numbers.elsewhere:
        found.append(f"the records of {counted(numbers.elsewhere, 'partition')} that are in remote storage or deleted")
    notes = len(numbers.notes)
    what = "what else" if found else "what"
    said = f"{counted(notes, 'note')} {'says' if notes == 1 else 'say'} {what} is not known." if notes else ""
    if not found:
        return said
    *first, last = found
    return f"Not known: {', '.join(first)}{', and ' if first else ''}{last}. {said}".rstrip()
