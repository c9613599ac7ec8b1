"""The sections of a page: what each table and chart of a report shows, in words."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from brokerless import _native
from brokerless.checking.codes import CODES
from brokerless.layout.file_names import is_internal
from brokerless.metadata.schema import schema
from brokerless.reporting import charts, parts
from brokerless.reporting.parts import Cell, Chart, Column, Section, Tile, rows_of, table_of
from brokerless.reporting.texts import (
    amount,
    count,
    finding,
    in_bytes,
    labelled,
    moment,
    paragraphs,
    path,
    severity,
    share,
    shown,
)
from brokerless.reporting.time_range import time_range
from brokerless.reporting.topic_details import detailed_topics, topic_details
from brokerless.reporting.verdict import opened_of
from brokerless.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from brokerless.reporting.tables import Numbers
    from brokerless.reporting.time_range import TimeRange

_MS_PER_HOUR = 3_600_000
# Widths of bars in ms. Shorter ones are multiples of an interval's length.
_SHORT = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000)
# An hour, six hours, a day, a week, four weeks, a year.
_HOURS = (1, 6, 24, 168, 672, 8766)
_MOST_BARS = 100
# The first and the last hour that a chart of lags shows. Times outside come from a wrong clock.
_FIRST_HOUR, _LAST_HOUR = 0, 8766 * 230
_NOTHING = (None, None)
_OTHERS = "all others"
_TOPICS_OF_KIND = 5
_COMMANDS_OF_KIND = 5
_BY_CODE = schema(severity=pa.string(), code=pa.string(), findings=pa.int64(), topics=pa.string())


def tiles(numbers: Numbers, now: int) -> list[Tile]:
    """Return the numbers at the top of the page. `now` is the time of the report, in ms."""
    topics = numbers.tables["topics"]
    transactions = numbers.tables["transactions"]
    kinds = numbers.tables["kinds"]
    findings = _sum(kinds.filter(pc.not_equal(kinds["severity"], pa.scalar("note"))), "findings")
    are_hanging = transactions["is_hanging"].to_pylist()
    hanging = sum(bool(one) for one in are_hanging)
    knows_hanging = numbers.has_transactions and None not in are_hanging
    times = time_range(numbers.tables["hours"], now)
    tiles = [
        _number(topics.num_rows, "topic"),
        _number(_sum(topics, "partitions"), "partition"),
        Tile(in_bytes(_sum(topics, "disk_bytes")), "on disk, all replicas"),
        Tile(amount(_sum(topics, "records")), "records"),
        _number(numbers.tables["groups"].num_rows, "group") if numbers.has_groups else Tile("-", "groups"),
        Tile(amount(_sum(numbers.tables["groups"], "lag")) if numbers.has_groups else "-", "records of lag"),
        _number(transactions.num_rows, "open transaction"),
        _number(hanging, "hanging transaction", alarm=hanging > 0)
        if knows_hanging or hanging
        else Tile("-", "hanging transactions"),
        Tile(count(findings), "error or warning" if findings == 1 else "errors and warnings", findings > 0),
    ]
    if numbers.nodes:
        ids = ", ".join(map(str, numbers.nodes[:8])) + (", …" if len(numbers.nodes) > 8 else "")
        # The title names the cluster. Its id is long, and would break in a tile.
        cluster = ("in no cluster", "of this cluster", "of these clusters")[min(len(numbers.cluster_ids), 2)]
        tiles.insert(0, Tile(f"node{'s' if len(numbers.nodes) > 1 else ''} {ids}", cluster))
    if times is not None:
        for what, ms in zip(("first record", "last record"), _ends(numbers.tables, times), strict=True):
            tiles.append(Tile(moment(ms)[:10], what, small=f"{moment(ms)[11:]} UTC"))
        if times.outside:
            what = "record has a time" if times.outside == 1 else "records have times"
            tiles.append(Tile(count(times.outside), f"{what} far outside these dates"))
    return tiles


def _number(number: int, noun: str, *, alarm: bool = False) -> Tile:
    return Tile(count(number), noun if number == 1 else f"{noun}s", alarm)


def _ends(tables: dict[str, pa.Table], times: TimeRange) -> tuple[int, int]:
    """Return the first and the last time of records in a range, in ms; the hour's ends if no partition begins there."""
    begin, end = times.first * _MS_PER_HOUR, (times.last + 1) * _MS_PER_HOUR - 1
    found = []
    for name, of, instead in (("first_time", pc.min, begin), ("last_time", pc.max, end)):
        column: Any = tables["partitions"][name].cast(pa.int64())
        inside: Any = pc.and_(pc.greater_equal(column, pa.scalar(begin)), pc.less_equal(column, pa.scalar(end)))
        time = of(column.filter(inside)).as_py()
        found.append(instead if time is None else time)
    return found[0], found[1]


def sections(numbers: Numbers, now: int) -> Iterator[Section]:
    """Yield the sections of the page. `now` is the time of the report, in ms."""
    tables = numbers.tables
    times = time_range(tables["hours"], now)
    yield _findings(tables)
    yield _topics(tables, numbers.elsewhere, times)
    yield topic_details(tables, times)
    yield _over_time(tables, now)
    yield _batches(tables)
    yield _space(tables)
    yield _keys(tables)
    yield _groups(tables, times)
    yield _transactions(tables)
    yield _changes(tables, numbers.earlier_changes)
    yield _producers(tables)


def _findings(tables: dict[str, pa.Table]) -> Section:
    cures: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for code, cure in zip(*(tables["findings"][name].to_pylist() for name in ("code", "cure")), strict=True):
        cures[code].setdefault(cure)
    kinds = rows_of(
        _by_code(tables["kinds"]),
        [
            ("Severity", "severity", severity),
            ("Code", "code", finding),
            ("Findings", "findings", count),
            ("Topics", "topics", shown),
            ("Meaning and effect", lambda row: _effects(row["code"]), labelled),
            ("Cure", lambda row: _cures(row["code"], cures[row["code"]]), labelled),
        ],
    )
    by_topic = rows_of(
        tables["kinds"],
        [
            ("Severity", "severity", severity),
            ("Code", "code", finding),
            ("Topic", "topic", shown),
            ("Findings", "findings", count),
        ],
    )
    rows = rows_of(
        tables["findings"],
        [
            ("Severity", "severity", severity),
            ("Code", "code", finding),
            ("Topic", "topic", shown),
            ("Partition", "partition", count),
            ("Message", "message", paragraphs),
            ("File", "path", path),
            ("Position", "position", count),
            ("Offsets at risk", _at_risk, shown),
        ],
    )
    return Section(
        "findings",
        "Findings",
        "The findings of a check of directories, batches and records, as of `brokerless check --deep`. `brokerless "
        "finding CODE` explains the effect of a finding on a broker and on readers. The records at the “offsets at "
        "risk” are lost or wrong, or may be. A note is a state that a broker cleans up when it starts.",
        tables=[
            table_of("By kind, with the cure", *kinds),
            *([table_of("By kind and topic", *by_topic)] if len(by_topic[1]) > len(kinds[1]) else []),
            table_of("The first findings, errors first", *rows, _sum(tables["kinds"], "findings")),
        ],
    )


def _by_code(kinds: pa.Table) -> pa.Table:
    """Return one row for each code, in the order of `kinds`, with the topics that have most of its findings."""
    topics: defaultdict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for row in kinds.to_pylist():
        topics[row["code"]].append((row["topic"], row["findings"]))
    rows = []
    for code, found in topics.items():
        names = [topic for topic, _ in sorted(found, key=lambda one: -one[1]) if topic is not None]
        rest = len(names) - _TOPICS_OF_KIND
        text = ", ".join(names[:_TOPICS_OF_KIND]) + (f" and {counted(rest, 'other')}" if rest > 0 else "")
        total = sum(number for _, number in found)
        rows.append({"severity": CODES[code].severity, "code": code, "findings": total, "topics": text or None})
    return pa.Table.from_pylist(rows, _BY_CODE)


def _effects(code: str) -> list[tuple[str, str]]:
    kind = CODES[code]
    return [("", kind.title), ("Effect on a broker", kind.broker), ("Effect on readers", kind.reader)]


def _cures(code: str, cures: Iterable[str]) -> list[tuple[str, str]]:
    """Return the cures of the findings of a code: the first one whole, of the others only the commands that differ."""
    cure = CODES[code].cure
    first, *others = cures or [cure]
    same = first.split("`")[1::2]
    commands = []
    for other in others[: _COMMANDS_OF_KIND - 1]:
        # The name of a topic may have a backtick.
        own = other.split("`")[1::2] if other.count("`") == cure.count("`") else []
        commands.append(" and ".join(f"`{command}`" for command in own if command not in same) or other)
    rest = len(others) - len(commands)
    more = [f"and {counted(rest, 'other')}: `brokerless check --json` has the cure of each finding"] if rest else []
    return [("", text) for text in (first, *commands, *more)]


def _at_risk(row: dict[str, Any]) -> str | None:
    """Return the first and the last offset that a finding is about."""
    first, end = row["start_offset"], row["end_offset"]
    if first is None:
        return None
    if end is None:
        return f"from {first:,}"
    return f"{first:,}" if end <= first + 1 else f"{first:,} to {end - 1:,}"


def _topics(tables: dict[str, pa.Table], elsewhere: int, times: TimeRange | None) -> Section:
    links = detailed_topics(tables)
    day = partial(_day_in, times)
    topics = tables["topics"].sort_by([("bytes", "descending")])
    rows = rows_of(
        topics,
        [
            ("Topic", lambda row: _linked(row["topic"], links), Markup),
            ("Partitions", "partitions", count),
            ("Segments", "segments", count),
            ("On disk", "disk_bytes", in_bytes),
            ("Records", "records", count),
            ("Bytes per record", lambda row: _ratio(row["bytes"], row["records"]), _decimal),
            ("Formats", lambda row: ", ".join(f"v{magic}" for magic in row["magics"]), shown),
            ("Codecs", lambda row: ", ".join(row["compressions"]), shown),
            ("Tombstones", "tombstones", count),
            ("First record", "first_time", day),
            ("Last record", "last_time", day),
        ],
    )
    remote = (
        f" Some records of {count(elsewhere)} partitions are in remote storage, and are not counted."
        if elsewhere
        else ""
    )
    by_form: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in tables["forms"].to_pylist():
        total = by_form[row["magic"], row["compression"]]
        for number, name in enumerate(("batches", "bytes", "records")):
            total[number] += row[name]
    forms = pa.Table.from_pylist(
        [
            {"form": f"v{magic}", "codec": codec, "batches": batches, "bytes": size, "records": records}
            for (magic, codec), (batches, size, records) in sorted(by_form.items())
        ],
        schema(form=pa.string(), codec=pa.string(), batches=pa.int64(), bytes=pa.int64(), records=pa.int64()),
    )
    form_rows = rows_of(
        forms,
        [
            ("Format", "form", shown),
            ("Codec", "codec", shown),
            ("Batches", "batches", count),
            ("Bytes", "bytes", in_bytes),
            ("Records", "records", count),
            ("Bytes per record", lambda row: _ratio(row["bytes"], row["records"]), _decimal),
        ],
    )
    return Section(
        "topics",
        "Topics",
        "“On disk” and segments count all replicas in the paths, all other numbers one replica of each partition."
        + remote,
        tables=[table_of("Topics, the largest first", *rows), table_of("Message formats and codecs", *form_rows)],
    )


def _linked(topic: str | None, links: dict[str | None, str]) -> Markup:
    """Return the name of a topic, as a link to its partitions if they are shown."""
    name = shown(topic or "-")
    return Markup('<a href="#{}">{}</a>').format(links[topic], name) if topic in links else Markup("{}").format(name)


def _over_time(tables: dict[str, pa.Table], now: int) -> Section:
    visible = tables["hours"].filter(
        pc.is_in(tables["hours"]["topic"], value_set=pa.array(_visible(tables["topics"]), pa.string()))
    )
    times = time_range(visible, now)
    if times is None:
        return Section("time", "Over time", "")
    first, last, _ = times
    shown_hours: Any = pc.and_(
        pc.greater_equal(visible["hour"], pa.scalar(first)), pc.less_equal(visible["hour"], pa.scalar(last))
    )
    inside = visible.filter(shown_hours)
    sums, width = _shortest(inside, tables["intervals"], times)
    ends: Any = pc.min_max(sums["time"]).as_py()
    first, last = ends["min"] - ends["min"] % width, ends["max"]
    legend, values = _by_bar(sums, _visible(tables["topics"])[: charts.COLOURS], first, width)
    starts = list(range(first, last + 1, width))
    found = []
    for name, what, unit in (("bytes", "Bytes of batches", charts.BYTES), ("records", "Records", charts.RECORDS)):
        if len(starts) == 1:
            # One bar says nothing that the tables do not say.
            break
        series = [
            charts.Series([values.get((topic, bar), {}).get(name, 0) for bar in range(len(starts))], colour)
            for colour, topic in enumerate(legend)
        ]
        svg = charts.bars_over_time(name, starts, width, series, unit)
        found.append(Chart(f"{what}, each bar {_duration(width)}", _svg(svg), [shown(topic) for topic in legend]))
    about = (
        "Records are grouped by their timestamps, and batches by their largest timestamp. Internal topics are left out."
    )
    outliers = _outliers(visible, times)
    left_out = _sum(visible, "records") - _sum(inside, "records")
    if left_out:
        about += (
            f" The charts leave out {counted(left_out, 'record')}, with no time or with one far from those of most "
            "records: of a clock that was not set, of another unit than ms, or of the future."
        )
    return Section("time", "Over time", about, found, [outliers] if outliers.rows else [])


def _outliers(hours: pa.Table, times: TimeRange) -> parts.Table:
    """Return the records with a time outside the range, or without one, by topic."""
    hour = hours["hour"]
    before: Any = pc.fill_null(pc.less(hour, pa.scalar(times.first)), pa.scalar(False))
    after: Any = pc.fill_null(pc.greater(hour, pa.scalar(times.last)), pa.scalar(False))
    columns: dict[str, Any] = {"topic": hours["topic"]}
    for name, wanted in (("before", before), ("after", after), ("without", pc.is_null(hour))):
        columns[name] = pc.if_else(wanted, hours["records"], pa.scalar(0, pa.int64()))
    by_topic = pa.table(columns).group_by("topic").aggregate([(name, "sum") for name in ("before", "after", "without")])
    all_three: Any = pc.add(pc.add(by_topic["before_sum"], by_topic["after_sum"]), by_topic["without_sum"])
    found = by_topic.filter(pc.greater(all_three, pa.scalar(0)))
    first, last = (_day(hour * _MS_PER_HOUR) for hour in times[:2])
    rows = rows_of(
        found.sort_by("topic"),
        [
            ("Topic", "topic", shown),
            (f"Before {first}", "before_sum", count),
            (f"After {last}", "after_sum", count),
            ("Without a time, or after the year 2200", "without_sum", count),
        ],
    )
    return table_of("Records with unusual times", *rows)


def _shortest(hours: pa.Table, intervals: pa.Table, times: TimeRange) -> tuple[pa.Table, int]:
    """Return sums with `topic time records bytes`, and the width of bars for them, both in ms.

    The sums are of short intervals if all topics have these, and bars of an hour would be few.
    """
    first, last = times.first, times.last
    if last - first < _MOST_BARS:
        names: Any = pc.unique(hours["topic"])
        begin: Any = intervals["time"].cast(pa.int64())
        inside: Any = pc.and_(
            pc.greater_equal(begin, pa.scalar(first * _MS_PER_HOUR)),
            pc.less(begin, pa.scalar((last + 1) * _MS_PER_HOUR)),
        )
        chosen: Any = pc.and_(inside, pc.is_in(intervals["topic"], value_set=names))
        found = intervals.set_column(1, "time", begin).filter(chosen)
        if set(names.to_pylist()) == set(found["topic"].to_pylist()):
            ends: Any = pc.min_max(found["time"]).as_py()
            longest: Any = pc.max(found["width"]).as_py()
            span = ends["max"] - ends["min"]
            fits = (width for width in _SHORT if width % longest == 0 and span // width < _MOST_BARS)
            if width := next(fits, None):
                return found, width
    hour: Any = pc.multiply(hours["hour"], pa.scalar(_MS_PER_HOUR))
    width = next((width for width in _HOURS if (last - first) // width < _MOST_BARS), _HOURS[-1])
    return hours.set_column(1, "time", hour), width * _MS_PER_HOUR


def _by_bar(
    sums: pa.Table, named: list[str], first: int, width: int
) -> tuple[list[str], dict[tuple[str, int], dict[str, int]]]:
    """Return the series, and the sums of each series and bar. Topics without their own series share the last one."""
    found = set(pc.unique(sums["topic"]).to_pylist())
    legend = [topic for topic in named if topic in found]
    if found != set(legend):
        legend = legend[: charts.COLOURS - 1]
        own: Any = pc.is_in(sums["topic"], value_set=pa.array(legend, pa.string()))
        sums = sums.set_column(0, "topic", pc.if_else(own, sums["topic"], _OTHERS))
        legend.append(_OTHERS)
    bar: Any = pc.divide(pc.subtract(sums["time"], first), width)
    grouped = (
        sums.append_column("bar", bar).group_by(["topic", "bar"]).aggregate([("records", "sum"), ("bytes", "sum")])
    )
    by_bar = {
        (row["topic"], row["bar"]): {"records": row["records_sum"], "bytes": row["bytes_sum"]}
        for row in grouped.to_pylist()
    }
    return legend, by_bar


def _batches(tables: dict[str, pa.Table]) -> Section:
    sizes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in tables["batch_sizes"].to_pylist():
        if not is_internal(row["topic"]):
            sizes[row["size"]][0] += row["batches"]
            sizes[row["size"]][1] += row["bytes"]
    if not sizes:
        return Section("batches", "Batch sizes", "")
    places = [1 << power for power in range(min(sizes).bit_length() - 1, max(sizes).bit_length())]
    labels = [in_bytes(place).replace(" ", "\n") for place in places]
    by_bytes = charts.Series([sizes[place][1] if place in sizes else 0 for place in places], 0)
    by_count = charts.Series([sizes[place][0] if place in sizes else 0 for place in places], 1)
    rows = rows_of(
        tables["topics"].sort_by([("batches", "descending")]),
        [
            ("Topic", "topic", shown),
            ("Batches", "batches", count),
            ("Bytes per batch", lambda row: _ratio(row["bytes"], row["batches"]), in_bytes),
            ("Records per batch", lambda row: _ratio(row["records"], row["batches"]), _decimal),
        ],
    )
    return Section(
        "batches",
        "Batch sizes",
        "Batches as stored, by the power of two at or below their size. Small batches cost space and work. The marker "
        "that ends a transaction counts as a batch without records.",
        [
            Chart("Bytes in batches of this size", _svg(charts.bars("batch-bytes", labels, [by_bytes], charts.BYTES))),
            Chart("Batches of this size", _svg(charts.bars("batch-count", labels, [by_count], charts.RECORDS))),
        ],
        [table_of("Batches by topic", *rows)],
    )


def _space(tables: dict[str, pa.Table]) -> Section:
    records = {row["topic"]: row["records"] for row in tables["topics"].select(["topic", "records"]).to_pylist()}
    now: dict[str | None, float] = {}
    total: defaultdict[tuple[int | None, str], float] = defaultdict(float)
    best: dict[str | None, dict[str, Any]] = {}
    for row in tables["space"].to_pylist():
        topic = row["topic"]
        now[topic] = row["bytes_per_record_now"] * records[topic]
        total[row["batch_size"], row["compression"]] += row["bytes_per_record"] * records[topic]
        if topic not in best or row["bytes_per_record"] < best[topic]["bytes_per_record"]:
            best[topic] = row
    all_now = sum(now.values())
    if not all_now:
        return Section("space", "Codecs and batch sizes", "")
    sizes = sorted({size for size, _ in total}, key=lambda size: size or 0)
    labels = ["batches\nas they are" if size is None else f"batch.size\n{in_bytes(size)}" for size in sizes]
    series = [
        charts.Series([total[size, codec] for size in sizes], colour) for colour, codec in enumerate(_native.CODECS)
    ]
    form_rows = [
        [
            Cell("batches as they are" if size is None else in_bytes(size), size or 0),
            *(
                Cell(f"{in_bytes(total[size, codec])} ({_change(total[size, codec] / all_now)})", total[size, codec])
                for codec in _native.CODECS
            ),
        ]
        for size in sizes
    ]
    best_rows = [
        [
            Cell(shown(topic or "-")),
            Cell(in_bytes(now[topic]), now[topic]),
            Cell(row["compression"]),
            Cell(
                "batches as they are" if row["batch_size"] is None else in_bytes(row["batch_size"]),
                row["batch_size"] or 0,
            ),
            Cell(in_bytes(saved := now[topic] - row["bytes_per_record"] * records[topic]), saved),
            Cell(share(saved / now[topic]), saved / now[topic]),
            Cell(count(row["sampled_records"]), row["sampled_records"]),
        ]
        for topic, row in sorted(best.items(), key=lambda one: -now[one[0]])
    ]
    return Section(
        "space",
        "Codecs and batch sizes",
        "The size that the records would have with other codecs and batch sizes: an estimate from samples of the "
        "largest topics, without Kafka's own, in message format 2. `brokerless convert` changes the codec and keeps "
        "the batches. The rows with a batch.size need other settings of the producers, which fill their batches then. "
        f"Now these topics take {in_bytes(all_now)}.",
        [
            Chart(
                "Bytes with each codec and batch.size",
                _svg(charts.bars("space", labels, series, charts.BYTES)),
                list(_native.CODECS),
                _svg(charts.bars("wide-space", labels, series, charts.BYTES, is_wide=True)),
            )
        ],
        [
            table_of(
                "All measured topics together: size, and change",
                [Column("batch.size"), *(Column(codec, True) for codec in _native.CODECS)],
                form_rows,
            ),
            table_of(
                "The codec and batch.size that save most, by topic",
                [
                    Column("Topic"),
                    Column("Bytes now", True),
                    Column("Codec"),
                    Column("batch.size", True),
                    Column("Saved bytes", True),
                    Column("Saved share", True),
                    Column("Records in the sample", True),
                ],
                best_rows,
            ),
        ],
        short="Codecs",
    )


def _keys(tables: dict[str, pa.Table]) -> Section:
    topics = tables["topics"].sort_by([("bytes", "descending")])
    rows = rows_of(
        topics.filter(pc.greater(topics["records"], topics["null_keys"])),
        [
            ("Topic", "topic", shown),
            ("Policy", lambda row: row["cleanup_policy"] or "-", shown),
            ("Records", "records", count),
            ("Without key", "null_keys", count),
            ("Distinct keys (estimate)", "distinct_keys", count),
            ("Records per key", lambda row: _ratio(row["records"] - row["null_keys"], row["distinct_keys"]), _decimal),
            ("Dropped by compaction (estimate)", _gain, count),
            (
                "Bytes saved by compaction (estimate)",
                lambda row: _ratio(_gain(row) * row["bytes"], row["records"]),
                in_bytes,
            ),
        ],
    )
    return Section(
        "keys",
        "Keys and compaction",
        "Distinct keys are estimated (HyperLogLog, within 3 %). A compaction of all segments would keep one record "
        "of each key in a partition. A broker does not compact the active segment, nor young records. `brokerless "
        "compact --dry-run` shows exactly what it would do. The policy comes from the cluster's metadata.",
        tables=[table_of("Keys by topic", *rows)],
        short="Keys",
    )


def _gain(row: dict[str, Any]) -> int:
    return max(0, int(row["records"] - row["null_keys"] - row["compacted_records"]))


def _groups(tables: dict[str, pa.Table], range_of_times: TimeRange | None) -> Section:
    rows = rows_of(
        tables["groups"].sort_by([("lag", "descending")]),
        [
            ("Group", "group", shown),
            ("Type", "type", shown),
            ("State", "state", shown),
            ("Members", "members", count),
            ("Partitions", "partitions", count),
            ("Lag", "lag", count),
            ("Offsets out of range", "out_of_range", count),
            ("Last commit", "last_commit", moment),
            ("Backward commits", "commits_back", count),
        ],
    )
    lags: defaultdict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    table = tables["lags"]
    columns: list[Any] = [table["group"], table["time"].cast(pa.int64()), table["lag"]]
    for group, time, lag in zip(*(column.to_pylist() for column in columns), strict=True):
        if _FIRST_HOUR <= time // _MS_PER_HOUR <= _LAST_HOUR:
            lags[group][0].append(time)
            lags[group][1].append(lag)
    named = sorted(lags, key=lambda group: -max(lags[group][1]))[: charts.COLOURS]
    found = []
    if named and range_of_times is not None:
        # At the last record the lag is that of the tables: the last commits do not know of later records.
        end = max(_ends(tables, range_of_times)[1], *(lags[group][0][-1] for group in named))
        now = dict(zip(*(tables["groups"][name].to_pylist() for name in ("group", "lag")), strict=True))
        for group in named:
            if now.get(group) is not None:
                lags[group][0].append(end)
                lags[group][1].append(max(0, now[group]))
    series = [(lags[group][0], charts.Series(lags[group][1], colour)) for colour, group in enumerate(named)]
    if any(len(times) > 1 for times, _ in series):
        svg = _svg(charts.lines_over_time("lag", series, charts.RECORDS))
        of_all = "" if len(named) == len(lags) else f", of the {len(named)} of {len(lags)} groups that lagged most"
        title = f"Lag at commits, the highest in each interval, and at the end the lag now{of_all}"
        wide = _svg(charts.lines_over_time("wide-lag", series, charts.RECORDS, is_wide=True))
        found.append(Chart(title, svg, [shown(group) for group in named], wide))
    return Section(
        "groups",
        "Groups",
        "Lag is the number of records from the committed offset to the end of the log. It is unknown for partitions "
        "that the paths lack. Damage in a log counts as records. But after a crash, a log that ends in damage ends "
        "before it, so its lag is lower than it was. A committed offset is out of range if it is below the start or "
        "above the end of its partition. A consumer that starts with it resets to the offset that `auto.offset.reset` "
        "names. A backward commit is below the group's previous one.",
        found,
        [
            table_of("Groups, the greatest lag first", *rows)._replace(has_cards=True),
            _by_partition(tables),
            _out_of_range(tables),
        ],
    )


def _by_partition(tables: dict[str, pa.Table]) -> parts.Table:
    ends = _ranges(tables)
    rows = rows_of(
        tables["commits"].sort_by([("lag", "descending")]),
        [
            ("Group", "group", shown),
            ("Topic", "topic", shown),
            ("Partition", "partition", count),
            ("Lag", "lag", count),
            ("Committed offset", "offset", count),
            ("End of the partition", lambda row: ends.get((row["topic"], row["partition"]), _NOTHING)[1], count),
            ("Committed", "commit_time", moment),
        ],
    )
    return table_of("Lag by group and partition, the greatest first", *rows)._replace(has_cards=True, folds=True)


def _ranges(tables: dict[str, pa.Table]) -> dict[tuple[Any, Any], tuple[Any, Any]]:
    """Return the start and the end offset of each partition."""
    partitions = tables["partitions"]
    places = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    ends = zip(partitions["start_offset"].to_pylist(), partitions["end_offset"].to_pylist(), strict=True)
    return dict(zip(places, ends, strict=True))


def _out_of_range(tables: dict[str, pa.Table]) -> parts.Table:
    outside: Any = pc.fill_null(tables["commits"]["is_out_of_range"], pa.scalar(False))
    found = tables["commits"].filter(outside)
    ranges = _ranges(tables)
    rows = rows_of(
        found,
        [
            ("Group", "group", shown),
            ("Topic", "topic", shown),
            ("Partition", "partition", count),
            ("Committed offset", "offset", count),
            ("Start of the partition", lambda row: ranges.get((row["topic"], row["partition"]), _NOTHING)[0], count),
            ("End of the partition", lambda row: ranges.get((row["topic"], row["partition"]), _NOTHING)[1], count),
            ("Committed", "commit_time", moment),
        ],
    )
    return table_of("Committed offsets out of range", *rows)._replace(has_cards=True)


def _transactions(tables: dict[str, pa.Table]) -> Section:
    total = tables["transactions"].num_rows
    table = tables["transactions"].sort_by([("is_hanging", "descending")]).slice(0, parts.MOST_ROWS)
    started, updated = (table[name].cast(pa.int64()).to_pylist() for name in ("started", "updated"))
    others = table.drop_columns(["started", "updated", "open"]).to_pylist()
    opened = [_places(one) for one in opened_of(table["open"])]
    rows = [
        [
            Cell(shown(row["transactional_id"] or "-")),
            Cell(str(row["producer_id"]), row["producer_id"]),
            Cell(str(row["producer_epoch"]), row["producer_epoch"]),
            Cell(row["state"] or "unknown to the coordinators"),
            Cell({True: "hangs", False: "open", None: "open"}[row["is_hanging"]]),
            Cell(moment(begin), begin),
            Cell(moment(update), update),
            Cell(places),
        ]
        for row, begin, update, places in zip(others, started, updated, opened, strict=True)
    ]
    titles = (
        "Transactional id",
        "Producer id",
        "Epoch",
        "State at the coordinator",
        "In the partitions",
        "Started",
        "Updated",
        "Partitions and first offsets",
    )
    return Section(
        "transactions",
        "Open and hanging transactions",
        "A transaction hangs in a partition if its coordinator will never end it there: read_committed consumers wait "
        "at its first offset. On a running cluster `kafka-transactions.sh abort` ends it.",
        tables=[
            table_of(
                "Transactions", [Column(title, title in ("Producer id", "Epoch")) for title in titles], rows, total
            )
        ],
        short="Transactions",
    )


def _changes(tables: dict[str, pa.Table], earlier: int) -> Section:
    found = tables["changes"]
    rows = rows_of(
        found,
        [
            ("Time", "time", moment),
            ("Offset in the metadata log", "offset", count),
            ("Subject", "subject", shown),
            ("Change", "change", shown),
            ("Key", "key", shown),
            ("Column", "column", shown),
            ("Before", lambda row: _value(row["before"]), shown),
            ("After", lambda row: _value(row["after"]), shown),
        ],
    )
    return Section(
        "changes",
        "What changed",
        "The changes of topics, settings, ACLs, users, quotas and features that the metadata log still has. Changes of "
        "leaders, in-sync replicas and epochs are left out. Passwords and other secret values are not shown. "
        "`brokerless cluster diff` compares any two points of the log.",
        tables=[
            table_of("Changes, the newest first", *rows, found.num_rows + earlier)._replace(has_cards=True, folds=True)
        ],
        short="Changes",
    )


def _value(text: str | None) -> str | None:
    """Return a value of a change, which is JSON, as text."""
    value = None if text is None else json.loads(text)
    return value if value is None or isinstance(value, str) else text


def _places(opened: list[dict[str, Any]]) -> str:
    places = (f"{shown(one['topic'])}-{one['partition']} at offset {one['first_offset']}" for one in opened[:20])
    more = f" and {len(opened) - 20} more" if len(opened) > 20 else ""
    return ", ".join(places) + more or "-"


def _producers(tables: dict[str, pa.Table]) -> Section:
    rows = rows_of(
        tables["producers"].sort_by([("producers", "descending")]),
        [
            ("Topic", "topic", shown),
            ("Producers", "producers", count),
            ("Transactional", "transactional", count),
            ("Open transactions", "open_transactions", count),
            ("Last batch", "last_time", moment),
        ],
    )
    return Section(
        "producers",
        "Producers",
        "Idempotent and transactional producers that are still in producer snapshots, or in the batches after these.",
        tables=[table_of("Producers by topic", *rows)],
    )


def _visible(topics: pa.Table) -> list[str]:
    """Return the topics that are not Kafka's own, the largest first."""
    names = topics.sort_by([("bytes", "descending")])["topic"].to_pylist()
    return [str(name) for name in names if name is not None and not is_internal(name)]


def _duration(ms: int) -> str:
    """Return the width of a bar in words."""
    long = {1: "an hour", 6: "six hours", 24: "a day", 168: "a week", 672: "four weeks", 8766: "a year"}
    if ms >= _MS_PER_HOUR:
        return long[ms // _MS_PER_HOUR]
    for unit, length in (("minute", 60_000), ("second", 1000)):
        if ms >= length:
            return f"a {unit}" if ms == length else f"{ms // length} {unit}s"
    return f"{ms} ms"


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _decimal(number: float) -> str:
    return f"{number:,.1f}"


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column]).as_py() or 0)


def _day(ms: int | None) -> str:
    text = moment(ms)
    return "no date" if text.endswith("ms") else text[:10]


def _day_in(times: TimeRange | None, ms: int | None) -> str:
    """Return a date, with a mark if it is far from those of most records."""
    day = _day(ms)
    return day if ms is None or times is None or times.has(ms) else f"{day} (outlier)"


def _svg(text: str) -> Markup:
    """Mark a chart as markup: it holds numbers and times only."""
    return Markup(text)  # noqa: S704 - see above
