"""The partitions of each topic: files, offsets, records, keys, the lag of groups, and samples of records."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.reporting.parts import Details, Section, rows_of, table_of
from brokerless.reporting.samples import MOST_PARTITIONS
from brokerless.reporting.texts import count, in_bytes, moment, shown
from brokerless.wording import counted

if TYPE_CHECKING:
    from brokerless.reporting.time_range import TimeRange

# A page with more rows is slow to open.
_MOST_TOPICS, _MOST_PARTITIONS = 500, 5000
# Each of these groups has a column; the lag of the others is added up.
_MOST_GROUPS = 6


def detailed_topics(tables: dict[str, pa.Table]) -> dict[str | None, str]:
    """Return the topics whose partitions are shown, with the ids of their elements, damaged and large ones first."""
    damaged = tables["partitions"].filter(tables["partitions"]["is_damaged"])
    first = set(damaged["topic"].to_pylist())
    topics = tables["topics"].sort_by([("bytes", "descending")]).select(["topic", "partitions"]).to_pylist()
    found: dict[str | None, str] = {}
    partitions = 0
    for row in sorted(topics, key=lambda row: row["topic"] not in first):
        partitions += row["partitions"]
        if found and (partitions > _MOST_PARTITIONS or len(found) >= _MOST_TOPICS):
            break
        found[row["topic"]] = f"topic-{len(found)}"
    return found


def topic_details(tables: dict[str, pa.Table], times: TimeRange | None) -> Section:
    """Return the section."""
    names = detailed_topics(tables)
    lags = _lags(tables["commits"], set(names))
    samples = _by_topic(tables["samples"])
    of_topics = _by_topic(tables["partitions"])
    details = [
        _details(name, topic, of_topics[topic], lags.get(topic, {}), samples.get(topic), times)
        for topic, name in names.items()
        if topic in of_topics
    ]
    more = tables["topics"].num_rows - len(details)
    about = "The partitions of each topic. Lag is the number of records from a group's committed offset to the end. "
    if tables["samples"].num_rows:
        places = tables["samples"].group_by(["topic", "partition"]).aggregate([]).num_rows
        about += (
            f"{counted(places, 'partition')} of {tables['partitions'].num_rows:,} have samples of records, which "
            f"are at most {MOST_PARTITIONS}, and none of Kafka's own topics."
        )
    else:
        about += "`--samples N` adds the first and the latest records of partitions."
    left_out = f"The partitions of {counted(more, 'more topic')} are not shown." if more else ""
    return Section("partitions", "Partitions", about, details=details, more=left_out)


def _by_topic(table: pa.Table) -> dict[str | None, pa.Table]:
    """Return the rows of each topic."""
    table = table.combine_chunks()
    found: dict[str | None, pa.Table] = {}
    start = 0
    topics = table["topic"].to_pylist()
    for at in range(1, len(topics) + 1):
        if at == len(topics) or topics[at] != topics[start]:
            piece = table.slice(start, at - start)
            found[topics[start]] = pa.concat_tables([found[topics[start]], piece]) if topics[start] in found else piece
            start = at
    return found


def _lags(commits: pa.Table, topics: set[str | None]) -> dict[str | None, dict[str, dict[int, int | None]]]:
    """Return the lag of each topic, group and partition."""
    wanted = pa.array([topic for topic in topics if topic is not None], pa.string())
    commits = commits.filter(pc.is_in(commits["topic"], value_set=wanted))
    found: defaultdict[str | None, dict[str, dict[int, int | None]]] = defaultdict(dict)
    columns = (commits[name].to_pylist() for name in ("topic", "group", "partition", "lag"))
    for topic, group, partition, lag in zip(*columns, strict=True):
        found[topic].setdefault(group, {})[partition] = lag
    return found


def _details(
    name: str,
    topic: str | None,
    partitions: pa.Table,
    lags: dict[str, dict[int, int | None]],
    samples: pa.Table | None,
    times: TimeRange | None,
) -> Details:
    def time(ms: int) -> str:
        return moment(ms) if times is None or times.has(ms) else f"{moment(ms)} (outlier)"

    columns: list[tuple[str, Any, Any]] = [
        ("Partition", "partition", count),
        ("Findings", _findings, shown),
        ("Segments", "segments", count),
        ("Bytes", "bytes", in_bytes),
        ("Start offset", "start_offset", count),
        ("End offset", "end_offset", count),
        ("Records", "records", count),
        ("Distinct keys (estimate)", "distinct_keys", count),
        ("First record", "first_time", time),
        ("Last record", "last_time", time),
    ]
    by_lag = sorted(lags, key=lambda group: -sum(lag or 0 for lag in lags[group].values()))
    for group in by_lag[:_MOST_GROUPS]:
        of_group = lags[group]
        columns.append((f"Lag of {shown(group)}", lambda row, of=of_group: of.get(row["partition"]), count))
    others = by_lag[_MOST_GROUPS:]
    if others:
        title = f"Lag of {counted(len(others), 'other group')}"
        columns.append((title, lambda row: sum(lags[group].get(row["partition"]) or 0 for group in others), count))
    title = f"Partitions of {shown(topic or 'files without a topic')}"
    tables = [table_of(title, *rows_of(partitions, columns, _MOST_PARTITIONS))._replace(has_cards=True)]
    if samples is not None:
        sample_columns: list[tuple[str, Any, Any]] = [
            ("Partition", "partition", count),
            ("First or latest", "place", shown),
            ("Offset", "offset", count),
            ("Time", "time", time),
            ("Key", lambda row: _sample(row["key"], row["key_bytes"]), shown),
            ("Value", lambda row: _sample(row["value"], row["value_bytes"]), shown),
            ("Size of the value", "value_bytes", in_bytes),
        ]
        rows = rows_of(samples, sample_columns, samples.num_rows)
        tables.append(table_of(f"Records of {shown(topic or 'files without a topic')}", *rows))
    errors = sum(bool(number) for number in partitions["errors"].to_pylist())
    records = pc.sum(partitions["records"]).as_py() or 0
    about = f"{counted(partitions.num_rows, 'partition')}, {counted(records, 'record')}"
    if errors:
        about += f", ✖ errors in {counted(errors, 'partition')}"
    return Details(name, shown(topic or "files without a topic"), about, tables, is_alarm=errors > 0)


def _findings(row: dict[str, Any]) -> str:
    found = []
    for name, sign in (("errors", "✖"), ("warnings", "▲")):
        if row[name]:
            found.append(f"{sign} {counted(row[name], name.removesuffix('s'))}")
    return ", ".join(found) or "none"


def _sample(text: str | None, size: int | None) -> str:
    return "null" if text is None else text if size else "(empty)"
