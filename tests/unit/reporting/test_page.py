"""A page shows foreign text as text, loads nothing, and stays small."""

import html.parser
import itertools
import re
from itertools import pairwise

import matplotlib as mpl
import pyarrow as pa
import pytest
from matplotlib.axes import Axes

import brokerless as bl
from brokerless.checking.codes import CODES
from brokerless.checking.finding import Finding
from brokerless.io.processes import Processes
from brokerless.metadata.records import config_record
from brokerless.reporting import charts, parts
from brokerless.reporting.page import page as page_of
from brokerless.reporting.tables import SCHEMAS, compute
from brokerless.reporting.texts import in_bytes, paragraphs, with_code
from brokerless.reporting.time_range import time_range
from support import damage
from support.log_files import NOW, batch, write_segment
from support.state_records import commit_key, commit_value, write_records

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e&amp;\x1b[2J'\""


class Parsed(html.parser.HTMLParser):
    """Elements, ids and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.references, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            self.references += re.findall(r"url\(#([^)]*)\)", value or "")
            if name in ("href", "xlink:href") and value.startswith("#"):
                self.references.append(value.removeprefix("#"))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(golden):
    return Parsed(bl.report(golden / "logs/kafka-4.1").html)


def test_nothing_is_loaded(page):
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"img", "link", "iframe", "object", "embed", "image"}
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert all("src" not in attributes for _, attributes in page.elements)
    assert not any(re.search(r"@import|url\((?!#)", text) for text in page.text)


def test_ids_are_unique_and_references_lead_to_them(page):
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)
    assert {"topics", "time", "batches", "space", "keys", "groups", "transactions", "producers"} <= set(page.ids)


def test_charts_have_the_colours_of_the_style_sheet(page):
    colours = [attributes.get("style") or "" for tag, attributes in page.elements if tag in ("path", "text", "use")]
    assert any("var(--series-0)" in style for style in colours)
    assert not any("#0101" in style or "#0102" in style for style in colours)


def test_foreign_text_is_text(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    records = [
        (commit_key(HOSTILE, "t", 0), commit_value(0)),
        (commit_key("\ud800".encode("utf-16-le", "surrogatepass").decode("latin1"), "t", 0), commit_value(0)),
    ]
    write_records(tmp_path, "__consumer_offsets", records)
    found = bl.report(tmp_path)
    parsed = Parsed(found.html)
    assert sum(tag == "script" for tag, _ in parsed.elements) == 1
    assert "img" not in {tag for tag, _ in parsed.elements}
    assert any("<img src=x onerror=alert(2)>\\u202e&amp;\\x1b[2J'\"" in text for text in parsed.text)
    assert "\u202e" not in found.html
    assert "\x1b" not in found.html


def test_a_directory_whose_name_is_not_utf_8(tmp_path):
    directory = tmp_path / "caf\udce9"
    write_segment(directory / "t-0", 0, [batch(0, [b"v"])])
    bl.report(directory).save(tmp_path / "page.html")
    assert "caf\\udce9" in (tmp_path / "page.html").read_text()


def test_messages_are_paragraphs_with_their_cures_and_commands(tmp_path):
    """A line end used to show as an escape, in the middle of the message."""
    text = paragraphs("the file is cut\nhint: run `brokerless repair <PATH>`\x1b\u202e")
    assert text == (
        '<p>the file is cut</p><p class="hint"><b>Hint:</b> run <code>brokerless repair &lt;PATH&gt;</code>'
        "\\x1b\\u202e</p>"
    )
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    numbers = compute((str(tmp_path),), None, Processes(1))
    numbers.notes.append("transactions are not known: it is large\nhint: raise --memory")
    shown = page_of(numbers, NOW)
    assert "<p>transactions are not known: it is large</p>" in shown
    assert '<p class="hint"><b>Hint:</b> raise --memory</p>' in shown


def test_cures_are_whole_and_codes_lead_to_their_documentation(tmp_path):
    log = write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])
    damage.flip_bit(log, log.stat().st_size // 2 + 30)
    text = bl.report(tmp_path).html
    assert 'href="https://brokerless.github.io/brokerless/latest/findings/#batch-crc"' in text
    assert with_code(CODES["batch-crc"].cure) in text
    assert "default-src 'none'" in text


def test_a_cure_is_on_the_page_once_whatever_topics_need_it(tmp_path):
    """Each topic used to repeat the effect and the cure."""
    for number in range(8):
        for partition in range(1 + (number == 7)):
            log = write_segment(tmp_path / f"t{number}-{partition}", 0, [batch(at, [b"v"]) for at in range(10)])
            damage.flip_bit(log, log.stat().st_size // 2 + 30)
    text = bl.report(tmp_path).html
    for words in (CODES["batch-crc"].cure, CODES["batch-crc"].broker, CODES["batch-crc"].reader):
        assert text.count(with_code(words)) == 1
    assert ">t7, t0, t1, t2, t3 and 3 others<" in text


@pytest.mark.parametrize(("topic", "cures"), [("t", 1), ("a <b>`c", 5)])
def test_a_cure_has_the_places_of_its_findings(tmp_path, topic, cures):
    """The cure of a kind used to show TOPIC, PARTITION and OFFSET, which a reader could not run."""
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    numbers = compute((str(tmp_path),), None, Processes(1))
    code = "transaction-hanging"
    hanging = [
        Finding(code=code, path=f"t-{at}", message="open", topic=topic, partition=at, start_offset=7) for at in range(9)
    ]
    numbers.tables["findings"] = pa.Table.from_pylist([one.to_row() for one in hanging], SCHEMAS["findings"])
    kind = {"topic": topic, "code": code, "severity": "error", "findings": 9}
    numbers.tables["kinds"] = pa.Table.from_pylist([kind], SCHEMAS["kinds"])
    text = " ".join(Parsed(page_of(numbers, NOW)).text)
    assert not re.search(r"--topic TOPIC|PARTITION|OFFSET", text)
    found = re.findall(r"--partition\s+(\d) ", text)
    assert [int(number) for number in found] == [0, 1, 2, 3, 4]
    assert text.count("start the cluster") == cures
    assert "and 4 others" in text


def test_times_of_an_unset_clock_and_of_the_future_are_outliers():
    hours = pa.table(
        {"hour": pa.array([0, 472_000, 472_001, 900_000, None]), "records": [12, 100, 100, 3, 7]},
        pa.schema([("hour", pa.int64()), ("records", pa.int64())]),
    )
    assert time_range(hours, NOW) == (472_000, 472_001, 15)
    assert time_range(hours.slice(0, 1), NOW) == (0, 0, 0)
    assert time_range(hours.slice(4), NOW) is None


def test_each_topic_shows_its_partitions_and_lags(tmp_path):
    for partition in range(3):
        write_segment(tmp_path / f"t-{partition}", 0, [batch(at, [b"v"]) for at in range(10)])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 1), commit_value(4))])
    found = Parsed(bl.report(tmp_path).html)
    assert any(tag == "details" for tag, _ in found.elements)
    assert {"Partitions of t", "Lag of g"} <= set(found.text)


def test_long_tables_end_with_a_count(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_ROWS", 5)
    for number in range(8):
        write_segment(tmp_path / f"topic-{number}-0", 0, [batch(0, [b"v"], keys=[b"k"])])
    text = bl.report(tmp_path).html
    assert "3 more are not shown." in text


def test_outliers_in_time_do_not_hide_the_rest(tmp_path):
    times = [1_700_000_000_000 + hour * 3_600_000 for hour in range(1000)]
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=time) for at, time in enumerate([0, *times])])
    text = bl.report(tmp_path).html
    assert "The charts leave out 1 record, with no time or with one far from those of most records" in text
    assert "<b>1</b> record has a time far outside these dates" in text
    assert "<b>1970-01-01</b>" not in text
    assert "1970-01-01 (outlier)" in text
    assert "each bar a day" in text


def test_an_empty_directory(tmp_path):
    bl.create_log_dir(tmp_path / "data").close()
    assert "<b>0</b> records" in bl.report(tmp_path / "data").html


def test_a_notebook_shows_the_page_in_a_frame(golden):
    shown = bl.report(golden / "logs/kafka-4.1", topics=["headers"])._repr_html_()
    (frame,) = Parsed(shown).elements
    assert frame[0] == "iframe"
    assert frame[1]["srcdoc"].startswith("<!doctype html>")
    # Nothing in it may reach the notebook.
    assert set(frame[1]["sandbox"].split()) == {"allow-scripts", "allow-popups", "allow-popups-to-escape-sandbox"}


def test_a_missing_library_is_named_at_once(golden, monkeypatch):
    monkeypatch.setattr("brokerless.reporting.report.find_spec", lambda name: None if name == "matplotlib" else name)
    with pytest.raises(ModuleNotFoundError, match=r"matplotlib.*pip install 'brokerless\[report\]'"):
        bl.report(golden / "logs/kafka-4.1")


def test_settings_of_the_charts_library_change_nothing(golden):
    path = golden / "logs/kafka-4.1/headers-0"
    with mpl.rc_context({"text.usetex": True, "path.sketch": (1, 100, 2)}):
        changed = bl.report(path).html
    assert len(changed) == len(bl.report(path).html)


def test_open_transactions_are_limited_and_hanging_ones_first(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_ROWS", 5)
    for number in range(8):
        opened = batch(0, [b"v"], producer_id=number, base_sequence=0, transactional=True)
        write_segment(tmp_path / f"t-{number}", 0, [opened])
    text = bl.report(tmp_path).html
    assert "3 more are not shown." in text


def test_saved_bytes_may_be_fewer_than_none():
    assert in_bytes(-2048) == "-2 KiB"


def test_an_unknown_number_is_not_shown_as_zero(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    text = bl.report(tmp_path).html
    for what in ("groups", "records of lag", "hanging transactions"):
        assert f"<b>-</b> {what}" in text
    for topic in ("__consumer_offsets", "__transaction_state"):
        write_records(tmp_path, topic, [])
    assert "<b>0</b> hanging transactions" in bl.report(tmp_path).html


def test_records_of_very_many_hours_take_bounded_memory(tmp_path):
    times = [hour * 3_600_000 for hour in range(60_000)]
    batches = [batch(at, [b"v"], timestamp=time) for at, time in enumerate([*times, 1 << 60])]
    write_segment(tmp_path / "t-0", 0, batches)
    hours = bl.report(tmp_path).tables["hours"]
    assert hours.num_rows == 60_000 / 24 + 1
    assert sum(hours["records"].to_pylist()) == 60_001


@pytest.mark.parametrize(
    ("step", "width"), [(3, "10 ms"), (100, "100 ms"), (1000, "a second"), (3000, "5 seconds"), (50_000, "a minute")]
)
def test_a_short_log_has_bars_of_short_times(tmp_path, step, width):
    """All records of some hours used to be one bar."""
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=NOW + at * step) for at in range(100)])
    found = bl.report(tmp_path)
    assert "each bar an hour" not in found.html
    assert f"<figcaption>Records, each bar {width}</figcaption>" in found.html
    intervals = found.tables["intervals"]
    assert sum(intervals["records"].to_pylist()) == 100
    assert sum(intervals["bytes"].to_pylist()) == sum(found.tables["topics"]["bytes"].to_pylist())


def test_a_single_time_has_no_chart(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=NOW) for at in range(10)])
    assert "each bar" not in bl.report(tmp_path).html


def test_a_topic_without_short_intervals_makes_bars_of_hours(tmp_path):
    """Bars without this topic's records would be wrong."""
    times = [NOW + at * 1_000_000 for at in range(300)]
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=time) for at, time in enumerate(times)])
    write_segment(tmp_path / "u-0", 0, [batch(0, [b"v"], timestamp=NOW)])
    found = bl.report(tmp_path)
    assert set(found.tables["intervals"]["topic"].to_pylist()) == {"u"}
    assert "Records, each bar an hour" in found.html


def test_offsets_of_a_finding_are_one_cell_with_both_ends(tmp_path):
    log = write_segment(tmp_path / "t-0", 0, [batch(at * 10, [b"v"] * 10) for at in range(10)])
    damage.flip_bit(log, log.stat().st_size // 2 + 30)
    found = Parsed(bl.report(tmp_path).html)
    assert "Offsets at risk" in found.text
    assert "50 to 59" in found.text


def test_tiles_name_the_node_and_show_the_time_small(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"], timestamp=NOW)])
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=abc\n")
    text = bl.report(tmp_path).html
    assert "<b>node 3</b> of this cluster" in text
    assert text.count("abc") == text.count("Kafka cluster abc"), "a tile repeats the id of the title"
    assert re.search(r"<b>\d{4}-\d\d-\d\d</b> <small>\d\d:\d\d:\d\d UTC</small> first record", text)


def test_every_span_of_time_has_ticks():
    """Some spans had no suitable distance of ticks, and Matplotlib warned on stderr."""
    for length in (10, 90, 2000, 65_000, 200_000, 2_500_000, 40_000_000, 300_000_000, 9_000_000_000, 90_000_000_000):
        svg = charts.bars_over_time(
            "x", [NOW, NOW + length // 2], length // 2, [charts.Series([1, 2], 0)], charts.RECORDS
        )
        assert len(re.findall(r"<text", svg)) > 5


def test_the_lag_of_each_group_and_partition_is_in_a_table_that_is_not_hidden(tmp_path):
    """It was only in closed details. The script closes it on a phone, where its cards took most of the page."""
    for partition in range(2):
        write_segment(tmp_path / f"t-{partition}", 0, [batch(at, [b"v"], timestamp=NOW + at) for at in range(10)])
    commits = [(commit_key("g", "t", 0), commit_value(9)), (commit_key("g", "t", 1), commit_value(4))]
    write_records(tmp_path, "__consumer_offsets", commits)
    text = bl.report(tmp_path).html
    groups = text[text.index('<section id="groups"') : text.index("</section>", text.index('<section id="groups"'))]
    table = groups[groups.index('<table aria-label="Lag by group and partition') :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")])
    cells = [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows[1:]]
    assert [cell[:6] for cell in cells] == [["g", "t", "1", "6", "4", "10"], ["g", "t", "0", "1", "9", "10"]]
    assert re.findall("<details[^>]*>", groups) == ['<details class="folds" open>']


def test_the_chart_of_lags_ends_with_the_lag_of_the_table(tmp_path, monkeypatch):
    """The last commit knew of 0 records behind it; 9 came later."""
    seen = []
    drawn = charts.lines_over_time
    monkeypatch.setattr(charts, "lines_over_time", lambda *of, **how: seen.append(of[1]) or drawn(*of, **how))
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=NOW + at * 60_000) for at in range(10)])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1, NOW))])
    bl.report(tmp_path)
    ((times, series),) = seen[0]
    assert (times[-1], series.values[-1]) == (NOW + 540_000, 9)


def test_labels_of_seconds_have_their_minute():
    """They were "30, 22:44, 30"."""
    svg = charts.bars_over_time("x", [NOW, NOW + 120_000], 1000, [charts.Series([1, 2], 0)], charts.RECORDS)
    labels = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if ":" in text]
    assert len(labels) > 2
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", label) for label in labels)


def test_labels_at_the_ends_of_an_axis_stay_inside_it():
    """The first one overlapped the label of zero, and the last one was cut."""
    anchors = set()
    for seconds, late in itertools.product((60, 110, 130), (30, 32, 35)):
        times = [NOW - NOW % 60_000 + (late + at) * 1000 for at in range(seconds)]
        series = charts.Series([1] * seconds, 0)
        for svg in (
            charts.bars_over_time("x", times, 1000, [series], charts.BYTES),
            charts.lines_over_time("x", [(times, series)], charts.RECORDS),
        ):
            left = float(re.search(r'id="x-patch_2">\s*<path d="M ([\d.]+)', svg)[1])
            for anchor, x, text in re.findall(r'text-anchor: (\w+)[^>]*x="([\d.]+)"[^>]*>([^<]*)</text>', svg):
                if re.fullmatch(r"\d\d:\d\d(:\d\d)?", text):
                    anchors.add(anchor)
                    wide = 2.4 * len(text) * {"start": 0, "middle": 1, "end": 2}[anchor]
                    assert float(x) - wide > left, (text, seconds)
    assert anchors >= {"start", "middle"}


def test_the_chart_of_lags_has_no_minute_of_room_after_an_incident_of_two(monkeypatch):
    seen = []
    plot = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda axes, x, *of, **how: seen.append(x) or plot(axes, x, *of, **how))
    charts.lines_over_time("x", [([NOW, NOW + 120_000], charts.Series([1, 2], 0))], charts.RECORDS)
    assert (seen[0][-1] - seen[0][0]) * 86_400 < 130


def test_kafkas_own_topics_get_no_advice_on_codecs(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v" * 100])])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(0))])
    assert set(bl.report(tmp_path).tables["space"]["topic"].to_pylist()) == {"t"}


def test_one_of_a_kind_is_singular():
    text = Parsed(bl.report("examples/incident").html).text
    tiles = list(pairwise(text))
    assert {("1", " error or warning"), ("1", " hanging transaction")} <= set(tiles)
    assert any(re.search(r"\d\d:\d\d:\d\d UTC ", one) for one in text), "the time of the report has no zone"


def changes_of(text):
    """The rows of the section on changes, as lists of cells; and its text."""
    section = text[text.index('<section id="changes"') :]
    section = section[: section.index("</section>")]
    rows = re.findall(r"<tr>(.*?)</tr>", section)[1:]
    return [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows], section


def test_the_page_of_an_incident_shows_what_changed():
    """README says that the page shows all of it, and it had no setting, ACL or user."""
    rows, _ = changes_of(bl.report("examples/incident").html)
    assert [row[2:] for row in rows[:4]] == [
        ["topics", "removed", "orders-v1", "partitions", "1", "-"],
        ["acls", "added", "User:contractor ALLOW READ TOPIC LITERAL orders *", "-", "-", "-"],
        ["users", "added", "contractor SCRAM-SHA-256", "iterations", "-", "4096"],
        ["configs", "changed", "topic orders retention.ms", "value", "604800000", "3600000"],
    ]
    assert rows[0][:2] == ["2026-11-25 22:44:59", "41"]


def test_changes_of_the_metadata_are_limited_and_foreign_text(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "MOST_ROWS", 5)
    named = [config_record(2, HOSTILE, "retention.ms", str(at)) for at in range(9)]
    write_segment(tmp_path / "__cluster_metadata-0", 0, [batch(at, [one]) for at, one in enumerate(named)])
    rows, section = changes_of(bl.report(tmp_path).html)
    assert len(rows) == 5
    assert "4 more are not shown." in section
    assert "<script" not in section
