"""The sections of a page: what each table and chart of a report shows, in words."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from brokerless import _native
from brokerless.checking.codes import CODES
from brokerless.layout.file_names import is_internal
from brokerless.metadata.schema import schema
from brokerless.reporting import charts
from brokerless.reporting.texts import amount, count, in_bytes, moment, share, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from brokerless.reporting.tables import Numbers

# A page with more rows is slow to open.
_MOST_ROWS = 500
_MS_PER_HOUR = 3_600_000
# Widths of bars: an hour, six hours, a day, a week, four weeks, a year.
_HOURS = (1, 6, 24, 168, 672, 8766)
_MOST_BARS = 100
# The first second and the last year that a chart shows. Times outside come from a wrong clock.
_FIRST_HOUR, _LAST_HOUR = 0, 8766 * 230
_OTHERS = "all others"


class Column(NamedTuple):
    title: str
    is_number: bool = False
    help: str = ""


class Cell(NamedTuple):
    text: str
    sort: object = None


class Table(NamedTuple):
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    more: str = ""


class Chart(NamedTuple):
    title: str
    svg: str
    legend: Sequence[str] = ()


class Section(NamedTuple):
    name: str
    title: str
    about: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


class Tile(NamedTuple):
    value: str
    what: str
    alarm: bool = False


def tiles(numbers: Numbers) -> list[Tile]:
    topics = numbers.tables["topics"]
    transactions = numbers.tables["transactions"]
    kinds = numbers.tables["kinds"]
    findings = _sum(kinds.filter(pc.not_equal(kinds["severity"], pa.scalar("note"))), "findings")
    are_hanging = transactions["is_hanging"].to_pylist()
    hanging = sum(bool(one) for one in are_hanging)
    knows_hanging = numbers.has_transactions and None not in are_hanging
    first, last = _ms(pc.min(topics["first_time"])), _ms(pc.max(topics["last_time"]))
    tiles = [
        Tile(count(topics.num_rows), "topics"),
        Tile(count(_sum(topics, "partitions")), "partitions"),
        Tile(in_bytes(_sum(topics, "disk_bytes")), "on disk, all replicas"),
        Tile(amount(_sum(topics, "records")), "records"),
        Tile(count(numbers.tables["groups"].num_rows) if numbers.has_groups else "-", "groups"),
        Tile(amount(_sum(numbers.tables["groups"], "lag")) if numbers.has_groups else "-", "records of lag"),
        Tile(count(transactions.num_rows), "open transactions"),
        Tile(count(hanging) if knows_hanging or hanging else "-", "hanging transactions", hanging > 0),
        Tile(count(findings), "errors and warnings", findings > 0),
    ]
    if numbers.nodes:
        tiles.insert(
            0, Tile(", ".join(map(str, numbers.nodes[:8])), "node ids" if len(numbers.nodes) > 1 else "node id")
        )
    if first is not None:
        tiles += [Tile(_day(first), "first record"), Tile(_day(last), "last record")]
    return tiles


def sections(numbers: Numbers) -> Iterator[Section]:
    tables = numbers.tables
    yield _findings(tables)
    yield _topics(tables, numbers.elsewhere)
    yield _over_time(tables)
    yield _batches(tables)
    yield _space(tables)
    yield _keys(tables)
    yield _groups(tables)
    yield _transactions(tables)
    yield _producers(tables)


def _findings(tables: dict[str, pa.Table]) -> Section:
    kinds = _rows(
        tables["kinds"],
        [
            ("Severity", "severity", shown),
            ("Code", "code", shown),
            ("Topic", "topic", shown),
            ("Findings", "findings", count),
            ("What is wrong", lambda row: CODES[row["code"]].title, shown),
            ("Cure", lambda row: CODES[row["code"]].cure, shown),
        ],
    )
    rows = _rows(
        tables["findings"],
        [
            ("Severity", "severity", shown),
            ("Code", "code", shown),
            ("Topic", "topic", shown),
            ("Partition", "partition", count),
            ("File", "path", shown),
            ("Position", "position", count),
            ("Message", "message", shown),
            ("Offsets", "start_offset", count),
            ("to", "end_offset", count),
        ],
    )
    return Section(
        "findings",
        "Findings",
        "The findings of a check of directories, batches and records, as of `brokerless check --deep`. `brokerless "
        "finding CODE` explains the effect of a finding on a broker and on readers. The offsets from “Offsets” up "
        "to, but not including, “to” may be lost or wrong. A note is a state that a broker cleans up when it starts.",
        tables=[
            _table("By kind and topic", *kinds),
            _table("The first findings, errors first", *rows, _sum(tables["kinds"], "findings")),
        ],
    )


def _topics(tables: dict[str, pa.Table], elsewhere: int) -> Section:
    topics = tables["topics"].sort_by([("bytes", "descending")])
    rows = _rows(
        topics,
        [
            ("Topic", "topic", shown),
            ("Partitions", "partitions", count),
            ("Segments", "segments", count),
            ("On disk", "disk_bytes", in_bytes),
            ("Records", "records", count),
            ("Bytes a record", lambda row: _ratio(row["bytes"], row["records"]), _decimal),
            ("Formats", lambda row: ", ".join(f"v{magic}" for magic in row["magics"]), shown),
            ("Codecs", lambda row: ", ".join(row["compressions"]), shown),
            ("Tombstones", "tombstones", count),
            ("First record", "first_time", _day),
            ("Last record", "last_time", _day),
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
    form_rows = _rows(
        forms,
        [
            ("Format", "form", shown),
            ("Codec", "codec", shown),
            ("Batches", "batches", count),
            ("Bytes", "bytes", in_bytes),
            ("Records", "records", count),
            ("Bytes a record", lambda row: _ratio(row["bytes"], row["records"]), _decimal),
        ],
    )
    return Section(
        "topics",
        "Topics",
        "“On disk” and segments count all replicas in the paths, all other numbers one replica of each partition."
        + remote,
        tables=[_table("Topics, the largest first", *rows), _table("Message formats and codecs", *form_rows)],
    )


def _over_time(tables: dict[str, pa.Table]) -> Section:
    hours = tables["hours"]
    wanted: Any = pc.and_(
        pc.is_in(hours["topic"], value_set=pa.array(_visible(tables["topics"]), pa.string())),
        pc.and_(
            pc.greater_equal(hours["hour"], pa.scalar(_FIRST_HOUR)), pc.less_equal(hours["hour"], pa.scalar(_LAST_HOUR))
        ),
    )
    sensible = hours.filter(wanted)
    if not sensible.num_rows:
        return Section("time", "Over time", "")
    first, last = _span(sensible)
    width = next((width for width in _HOURS if (last - first) // width < _MOST_BARS), _HOURS[-1])
    shown_hours: Any = pc.and_(
        pc.greater_equal(sensible["hour"], pa.scalar(first)), pc.less_equal(sensible["hour"], pa.scalar(last))
    )
    inside = sensible.filter(shown_hours)
    first -= first % width
    legend, values = _by_bar(inside, _visible(tables["topics"])[: charts.COLOURS], first, width)
    times = [hour * _MS_PER_HOUR for hour in range(first, last + 1, width)]
    found = []
    for name, what, unit in (("bytes", "Bytes of batches", charts.BYTES), ("records", "Records", charts.RECORDS)):
        series = [
            charts.Series([values.get((topic, bar), {}).get(name, 0) for bar in range(len(times))], colour)
            for colour, topic in enumerate(legend)
        ]
        svg = charts.bars_over_time(name, times, width * _MS_PER_HOUR, series, unit)
        found.append(Chart(f"{what}, each bar {_duration(width)}", _svg(svg), [shown(topic) for topic in legend]))
    about = (
        "Records are grouped by their timestamps, and batches by their largest timestamp. Internal topics are left out."
    )
    visible = hours.filter(pc.is_in(hours["topic"], value_set=pa.array(_visible(tables["topics"]), pa.string())))
    left_out = _sum(visible, "records") - _sum(inside, "records")
    if left_out:
        about += f" So {'is 1 record that has' if left_out == 1 else f'are {count(left_out)} records that have'} "
        about += "no time, or one far from all others."
    return Section("time", "Over time", about, found)


def _by_bar(
    hours: pa.Table, named: list[str], first: int, width: int
) -> tuple[list[str], dict[tuple[str, int], dict[str, int]]]:
    """Return the series, and the sums of each series and bar. Topics without their own series share the last one."""
    found = set(pc.unique(hours["topic"]).to_pylist())
    legend = [topic for topic in named if topic in found]
    if found != set(legend):
        legend = legend[: charts.COLOURS - 1]
        own: Any = pc.is_in(hours["topic"], value_set=pa.array(legend, pa.string()))
        hours = hours.set_column(0, "topic", pc.if_else(own, hours["topic"], _OTHERS))
        legend.append(_OTHERS)
    bar: Any = pc.divide(pc.subtract(hours["hour"], first), width)
    grouped = (
        hours.append_column("bar", bar).group_by(["topic", "bar"]).aggregate([("records", "sum"), ("bytes", "sum")])
    )
    sums = {
        (row["topic"], row["bar"]): {"records": row["records_sum"], "bytes": row["bytes_sum"]}
        for row in grouped.to_pylist()
    }
    return legend, sums


def _span(hours: pa.Table) -> tuple[int, int]:
    """Return the first and the last hour to show: the range of all records, unless it exceeds ten years.

    For more than ten years, take the range of the middle 99 % of the records, and extend it by its length on both
    sides.
    """
    ordered = hours.group_by("hour").aggregate([("records", "sum")]).sort_by("hour")
    first, last = ordered["hour"][0].as_py(), ordered["hour"][-1].as_py()
    total = _sum(hours, "records")
    if last - first <= 10 * _HOURS[-1] or not total:
        return first, last
    seen: Any = pc.cumulative_sum(ordered["records_sum"])
    before: Any = pc.subtract(seen, ordered["records_sum"])
    middle: Any = pc.and_(
        pc.greater(seen, pa.scalar(int(total * 0.005))), pc.less(before, pa.scalar(math.ceil(total * 0.995)))
    )
    kept: Any = pc.min_max(ordered.filter(middle)["hour"]).as_py()
    around = kept["max"] - kept["min"]
    near: Any = pc.and_(
        pc.greater_equal(ordered["hour"], pa.scalar(kept["min"] - around)),
        pc.less_equal(ordered["hour"], pa.scalar(kept["max"] + around)),
    )
    shown_hours: Any = pc.min_max(ordered.filter(near)["hour"]).as_py()
    return shown_hours["min"], shown_hours["max"]


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
    rows = _rows(
        tables["topics"].sort_by([("batches", "descending")]),
        [
            ("Topic", "topic", shown),
            ("Batches", "batches", count),
            ("Bytes a batch", lambda row: _ratio(row["bytes"], row["batches"]), in_bytes),
            ("Records a batch", lambda row: _ratio(row["records"], row["batches"]), _decimal),
        ],
    )
    return Section(
        "batches",
        "Batch sizes",
        "Batches as stored, by the power of two at or below their size. Small batches cost space and work.",
        [
            Chart("Bytes in batches of this size", _svg(charts.bars("batch-bytes", labels, [by_bytes], charts.BYTES))),
            Chart("Batches of this size", _svg(charts.bars("batch-count", labels, [by_count], charts.RECORDS))),
        ],
        [_table("Batches by topic", *rows)],
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
    labels = ["batches\nas now" if size is None else f"batch.size\n{in_bytes(size)}" for size in sizes]
    series = [
        charts.Series([total[size, codec] for size in sizes], colour) for colour, codec in enumerate(_native.CODECS)
    ]
    form_rows = [
        [
            Cell("as now" if size is None else in_bytes(size), size or 0),
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
            Cell("as now" if row["batch_size"] is None else in_bytes(row["batch_size"]), row["batch_size"] or 0),
            Cell(in_bytes(saved := now[topic] - row["bytes_per_record"] * records[topic]), saved),
            Cell(share(saved / now[topic]), saved / now[topic]),
            Cell(count(row["sampled_records"]), row["sampled_records"]),
        ]
        for topic, row in sorted(best.items(), key=lambda one: -now[one[0]])
    ]
    return Section(
        "space",
        "Codecs and batch sizes",
        "The size of the records in other forms: an estimate from samples of the largest topics, in message format "
        "2. “As now” keeps the batches: `brokerless convert` does that. A batch.size is the producer's setting, for "
        "producers that fill their batches. "
        f"Now these topics take {in_bytes(all_now)}.",
        [
            Chart(
                "Bytes with each codec", _svg(charts.bars("space", labels, series, charts.BYTES)), list(_native.CODECS)
            )
        ],
        [
            _table(
                "All measured topics",
                [Column("Batches"), *(Column(codec, True) for codec in _native.CODECS)],
                form_rows,
            ),
            _table(
                "The smallest form of each topic",
                [
                    Column("Topic"),
                    Column("Now", True),
                    Column("Codec"),
                    Column("batch.size", True),
                    Column("Saves", True),
                    Column("Share", True),
                    Column("Records sampled", True),
                ],
                best_rows,
            ),
        ],
    )


def _keys(tables: dict[str, pa.Table]) -> Section:
    topics = tables["topics"].sort_by([("bytes", "descending")])
    rows = _rows(
        topics.filter(pc.greater(topics["records"], topics["null_keys"])),
        [
            ("Topic", "topic", shown),
            ("Policy", lambda row: row["cleanup_policy"] or "-", shown),
            ("Records", "records", count),
            ("Without key", "null_keys", count),
            ("Distinct keys, about", "distinct_keys", count),
            ("Records a key", lambda row: _ratio(row["records"] - row["null_keys"], row["distinct_keys"]), _decimal),
            ("Compaction would drop, about", _gain, count),
            ("Bytes of these", lambda row: _ratio(_gain(row) * row["bytes"], row["records"]), in_bytes),
        ],
    )
    return Section(
        "keys",
        "Keys and compaction",
        "Distinct keys are estimated (HyperLogLog, within 3 %). A compaction of all segments would keep one record "
        "of each key in a partition. A broker does not compact the active segment, nor young records. `brokerless "
        "compact --dry-run` shows exactly what it would do. The policy comes from the cluster's metadata.",
        tables=[_table("Keys by topic", *rows)],
    )


def _gain(row: dict[str, Any]) -> int:
    return max(0, int(row["records"] - row["null_keys"] - row["compacted_records"]))


def _groups(tables: dict[str, pa.Table]) -> Section:
    rows = _rows(
        tables["groups"].sort_by([("lag", "descending")]),
        [
            ("Group", "group", shown),
            ("Type", "type", shown),
            ("State", "state", shown),
            ("Members", "members", count),
            ("Partitions", "partitions", count),
            ("Lag", "lag", count),
            ("Last commit", "last_commit", moment),
            ("Commits that went back", "commits_back", count),
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
    series = [(lags[group][0], charts.Series(lags[group][1], colour)) for colour, group in enumerate(named)]
    found = []
    if series:
        svg = _svg(charts.lines_over_time("lag", series, charts.RECORDS))
        of_all = "" if len(named) == len(lags) else f", of the {len(named)} of {len(lags)} groups that lagged most"
        title = f"Lag at commits, the highest in each interval{of_all}"
        found.append(Chart(title, svg, [shown(group) for group in named]))
    return Section(
        "groups",
        "Groups",
        "Lag is the number of records behind the committed offset. It is unknown for partitions that the paths lack.",
        found,
        [_table("Groups, the greatest lag first", *rows)],
    )


def _transactions(tables: dict[str, pa.Table]) -> Section:
    total = tables["transactions"].num_rows
    table = tables["transactions"].sort_by([("is_hanging", "descending")]).slice(0, _MOST_ROWS)
    started, updated = (table[name].cast(pa.int64()).to_pylist() for name in ("started", "updated"))
    others = table.drop_columns(["started", "updated", "open"]).to_pylist()
    opened = [_places(one) for one in _without_times(table["open"])]
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
    titles = ("Transactional id", "Producer id", "Epoch", "State", "Transaction", "Started", "Updated", "Open in")
    return Section(
        "transactions",
        "Open and hanging transactions",
        "A transaction hangs in a partition if its coordinator will never end it there: read_committed consumers wait "
        "at its first offset. On a running cluster `kafka-transactions.sh abort` ends it.",
        tables=[
            _table("Transactions", [Column(title, title in ("Producer id", "Epoch")) for title in titles], rows, total)
        ],
    )


def _without_times(column: pa.ChunkedArray[Any]) -> list[list[dict[str, Any]]]:
    """Return lists of structs without their time columns, because Python has no dates for some of the times."""
    names = ("topic", "partition", "first_offset", "is_hanging")
    found: list[list[dict[str, Any]]] = []
    chunks: list[Any] = column.chunks
    for chunk in chunks:
        fields = pa.StructArray.from_arrays([chunk.values.field(name) for name in names], list(names))
        lists: Any = pa.ListArray.from_arrays(chunk.offsets, fields, mask=chunk.is_null())
        found += [one or [] for one in lists.to_pylist()]
    return found


def _places(opened: list[dict[str, Any]]) -> str:
    places = (f"{shown(one['topic'])}-{one['partition']} from offset {one['first_offset']}" for one in opened[:20])
    more = f" and {len(opened) - 20} more" if len(opened) > 20 else ""
    return ", ".join(places) + more or "-"


def _producers(tables: dict[str, pa.Table]) -> Section:
    rows = _rows(
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
        tables=[_table("Producers by topic", *rows)],
    )


def _rows(
    table: pa.Table, columns: Sequence[tuple[str, Any, Callable[[Any], str]]]
) -> tuple[list[Column], list[list[Cell]], int]:
    """Return the columns and the first rows of a table, and the number of all rows.

    Args:
        table: the table.
        columns: for each column, the title, a column or a function of a row, and the function that formats it as text.
    """
    head = table.slice(0, _MOST_ROWS)
    for number, column in enumerate(head.columns):
        if isinstance(column.type, pa.TimestampType):
            head = head.set_column(number, head.schema.field(number).name, column.cast(pa.int64()))
    found = []
    for row in head.to_pylist():
        cells = []
        for _, value, text in columns:
            one = value(row) if callable(value) else row[value]
            is_number = text is not shown
            cells.append(Cell("-" if one is None else text(one), one if is_number else None))
        found.append(cells)
    return [Column(title, text is not shown) for title, _, text in columns], found, table.num_rows


def _table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], total: int = 0, *more: int) -> Table:
    total = max(total, *more, len(rows)) if more else max(total, len(rows))
    rest = total - len(rows)
    return Table(title, columns, rows, f"{count(rest)} more are not shown." if rest else "")


def _visible(topics: pa.Table) -> list[str]:
    """Return the topics that are not Kafka's own, the largest first."""
    names = topics.sort_by([("bytes", "descending")])["topic"].to_pylist()
    return [str(name) for name in names if name is not None and not is_internal(name)]


def _duration(hours: int) -> str:
    return {1: "an hour", 6: "six hours", 24: "a day", 168: "a week", 672: "four weeks"}.get(hours, "a year")


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


def _ms(time: Any) -> int | None:  # noqa: ANN401 - a scalar
    value: int | None = time.cast(pa.int64()).as_py()
    return value


def _svg(text: str) -> Markup:
    """Mark a chart as markup: it holds numbers and times only."""
    return Markup(text)  # noqa: S704 - see above
