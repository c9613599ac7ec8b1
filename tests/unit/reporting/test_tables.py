"""The numbers of a report are those that the other ways to ask give."""

import json
import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import brokerless as bl
from brokerless.io.processes import Processes
from brokerless.layout import checkpoints
from brokerless.reporting import contents
from brokerless.reporting.tables import SCHEMAS, compute
from support import damage
from support.failing_disk import fail
from support.log_files import NOW, batch, marker, write_segment
from support.state_records import commit_key, commit_value, group_key, group_value, write_records

INCIDENT = Path(__file__).parents[3] / "examples/incident"


def tables(*paths, topics=None):
    return numbers(*paths, topics=topics).tables


def numbers(*paths, topics=None):
    return compute(tuple(map(str, paths)), topics, Processes(1))


@pytest.fixture(scope="module")
def golden_tables(golden):
    return tables(golden / "logs/kafka-4.1")


def test_each_table_has_its_schema(golden_tables):
    assert set(golden_tables) == set(SCHEMAS)
    for name, table in golden_tables.items():
        assert table.schema.equals(SCHEMAS[name]), name


def test_topics_count_what_a_read_returns(golden, golden_tables):
    for row in golden_tables["topics"].to_pylist():
        logs = bl.LogDirs(golden / "logs/kafka-4.1").logs([row["topic"]])
        rows = pa.concat_tables(log.read(columns=["key", "value", "magic", "compression"]).read_all() for log in logs)
        if any(log.log_start_offset > log.segments[0].base_offset for log in logs):
            continue  # a read returns less than there is
        assert (row["partitions"], row["records"]) == (len(logs), rows.num_rows), row["topic"]
        assert row["null_keys"] == rows["key"].null_count
        assert row["tombstones"] == rows["value"].null_count
        assert row["value_bytes"] == (pc.sum(pc.binary_length(rows["value"])).as_py() or 0)
        assert row["disk_bytes"] == sum(segment.size for log in logs for segment in log.segments)
        distinct = pc.count_distinct(rows["key"], mode="only_valid").as_py()
        assert row["distinct_keys"] == pytest.approx(distinct, rel=0.05)


@pytest.mark.parametrize("log_dir", ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed"])
def test_records_of_old_formats_all_count(golden, log_dir):
    """The header of a compressed batch of magic 0 or 1 has only its last offset, so a run seems to begin there."""
    wrappers = 0
    found = {
        (row["topic"], row["partition"]): row["records"]
        for row in tables(golden / "logs" / log_dir)["partitions"].to_pylist()
    }
    for log in bl.LogDirs(golden / "logs" / log_dir).logs():
        if log.log_start_offset == log.local_log_start_offset == log.segments[0].base_offset:
            rows = log.read(columns=["magic", "compression"]).read_all()
            assert found[log.topic, log.partition] == rows.num_rows, log
            is_wrapped = pc.and_(pc.less(rows["magic"], 2), pc.not_equal(rows["compression"], "none"))
            wrappers += pc.sum(is_wrapped).as_py() or 0
    assert wrappers > 100


def test_sums_of_the_parts_are_those_of_the_topics(golden_tables):
    topics = {row["topic"]: row for row in golden_tables["topics"].to_pylist()}
    for part, facts in (
        ("forms", ["batches", "bytes", "records"]),
        ("hours", ["bytes", "records"]),
        ("batch_sizes", ["batches", "bytes"]),
    ):
        for fact in facts:
            summed = golden_tables[part].group_by("topic").aggregate([(fact, "sum")]).to_pylist()
            assert {row["topic"]: row[f"{fact}_sum"] for row in summed} == {
                topic: row[fact] for topic, row in topics.items() if row["batches"]
            }, (part, fact)
    for row in golden_tables["batch_sizes"].to_pylist():
        assert row["size"] * row["batches"] <= row["bytes"] < 2 * row["size"] * row["batches"]


def test_policies_and_compaction_come_from_the_metadata_and_the_keys(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("users", partitions=2, cleanup_policy="compact")
        with bl.Producer(log_dir, "users") as producer:
            producer.send([{"key": b"%d" % (at % 10), "value": b"v"} for at in range(1000)])
    (row,) = [row for row in tables(tmp_path / "data")["topics"].to_pylist() if row["topic"] == "users"]
    assert (row["cleanup_policy"], row["records"], row["distinct_keys"]) == ("compact", 1000, 10)
    assert row["compacted_records"] == 10


def test_a_key_in_two_partitions_survives_twice(tmp_path):
    for partition in range(2):
        write_segment(tmp_path / f"t-{partition}", 0, [batch(0, [b"v"] * 50, keys=[b"k"] * 50)])
    row = tables(tmp_path)["topics"].to_pylist()[0]
    assert (row["distinct_keys"], row["compacted_records"]) == (1, 2)


def test_groups_and_their_lag(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], timestamp=NOW + at * 60_000) for at in range(100)])
    commits = [
        (group_key("g"), group_value(1, [("m", ["t"], {"t": [0]})])),
        (commit_key("g", "t", 0), commit_value(10, NOW + 20 * 60_000)),
        (commit_key("g", "t", 0), commit_value(5, NOW + 50 * 60_000)),
        (commit_key("h", "gone", 0), commit_value(5, NOW)),
    ]
    write_records(tmp_path, "__consumer_offsets", commits)
    found = tables(tmp_path)
    by_group = {row.pop("group"): row for row in found["groups"].to_pylist()}
    assert by_group["g"]["lag"] == 95
    assert (by_group["g"]["members"], by_group["g"]["partitions"], by_group["g"]["commits_back"]) == (1, 1, 1)
    assert by_group["h"]["lag"] is None
    lags = [(round((row["time"].timestamp() * 1000 - NOW) / 60_000), row["lag"]) for row in found["lags"].to_pylist()]
    assert lags == [(20, 11), (50, 46)]
    only = tables(tmp_path, topics=["t"])
    assert only["groups"]["group"].to_pylist() == ["g"]
    assert only["topics"]["topic"].to_pylist() == ["t"]


def test_open_and_hanging_transactions_and_producers(tmp_path):
    opened = batch(0, [b"v"], producer_id=7, base_sequence=0, transactional=True)
    done = batch(0, [b"v"], producer_id=8, base_sequence=0, transactional=True)
    write_segment(tmp_path / "t-0", 0, [opened])
    write_segment(tmp_path / "u-0", 0, [done, marker(1, 8, commit=True)])
    write_records(tmp_path, "__transaction_state", [])
    found = tables(tmp_path)
    assert [(row["producer_id"], row["is_hanging"]) for row in found["transactions"].to_pylist()] == [(7, True)]
    producers = {row["topic"]: row for row in found["producers"].to_pylist()}
    assert (producers["t"]["producers"], producers["t"]["open_transactions"]) == (1, 1)
    assert (producers["u"]["transactional"], producers["u"]["open_transactions"]) == (1, 0)
    assert tables(tmp_path, topics=["u"])["transactions"].num_rows == 0
    assert tables(tmp_path, topics=["t"])["transactions"].num_rows == 1


def test_partitions_are_those_of_the_logs_and_add_up_to_their_topics(golden, golden_tables):
    rows = {(row["topic"], row["partition"]): row for row in golden_tables["partitions"].to_pylist()}
    for log in bl.LogDirs(golden / "logs/kafka-4.1").logs():
        row = rows.pop((log.topic, log.partition))
        assert (row["start_offset"], row["end_offset"]) == (log.log_start_offset, log.log_end_offset)
        assert row["bytes"] == sum(segment.size for segment in log.segments)
    assert not rows
    summed = golden_tables["partitions"].group_by("topic").aggregate([("records", "sum"), ("first_time", "min")])
    topics = golden_tables["topics"]
    wanted = [(row["topic"], row["records"]) for row in topics.select(["topic", "records"]).to_pylist()]
    assert [(row["topic"], row["records_sum"]) for row in summed.sort_by("topic").to_pylist()] == wanted
    assert summed.sort_by("topic")["first_time_min"].to_pylist() == topics["first_time"].to_pylist()


def test_the_lag_of_each_partition(tmp_path):
    for partition in range(2):
        write_segment(tmp_path / f"t-{partition}", 0, [batch(at, [b"v"]) for at in range(10)])
    commits = [(commit_key("g", "t", partition), commit_value(2 + partition)) for partition in range(2)]
    write_records(tmp_path, "__consumer_offsets", commits)
    found = tables(tmp_path)["commits"].select(["group", "partition", "offset", "lag"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("g", 0, 2, 8), ("g", 1, 3, 7)]


def test_the_checkpoints_of_a_directory_are_not_read_for_each_partition(tmp_path, monkeypatch):
    """A checkpoint has a line for each partition, so that would take time by the square of the partitions."""
    with bl.create_log_dir(tmp_path / "data") as log_dir, bl.Producer(log_dir, "t", partitions=150) as producer:
        producer.send([{"key": b"%d" % at, "value": b"v"} for at in range(500)])
    reads = []
    parse = checkpoints.parse_offset_checkpoint
    monkeypatch.setattr(checkpoints, "parse_offset_checkpoint", lambda content: reads.append(1) or parse(content))
    assert tables(tmp_path / "data")["partitions"].num_rows == 150
    assert 0 < len(reads) < 100


def kinds(found):
    return {row["code"]: row["findings"] for row in found["kinds"].to_pylist()}


def test_findings_are_those_of_a_deep_check(golden, tmp_path):
    """Also of directories, and of the order between segments; errors come first."""
    crashed = shutil.copytree(golden / "logs/kafka-4.1-crashed", tmp_path / "data")
    (crashed / "lost+found").mkdir()
    expected = [finding.to_row() for finding in bl.check(crashed, level="deep")]
    found = tables(crashed)["findings"].to_pylist()
    assert sorted(map(json.dumps, found)) == sorted(
        json.dumps({name: row[name] for name in found[0]}) for row in expected
    )
    ranks = [("error", "warning", "note").index(row["severity"]) for row in found]
    assert ranks == sorted(ranks)
    assert {"name-unknown", "batch-crc", "checkpoint-ahead", "tail-torn"} <= {row["code"] for row in found}
    only = tables(crashed, topics=["crash-zstd"])["findings"].to_pylist()
    assert [row["code"] for row in only] == ["batch-crc"]


def test_errors_are_kept_before_many_notes(tmp_path, monkeypatch):
    monkeypatch.setattr("brokerless.reporting.contents.MAX_FINDINGS", 5)
    for number in range(10):
        log = write_segment(tmp_path / f"t-{number}", 0, [batch(at, [b"v"]) for at in range(10)])
        (log.parent / "notes.txt").touch()
    damage.flip_bit(log, 100)
    found = tables(tmp_path)
    assert [row["severity"] for row in found["findings"].to_pylist()] == ["error", *["warning"] * 4]
    assert kinds(found)["file-foreign"] == 10


def test_a_segment_that_is_deleted_meanwhile_leaves_the_others(tmp_path, monkeypatch):
    """A running broker deletes the oldest ones. What is missing then is no gap."""
    segments = [write_segment(tmp_path / "t-0", at, [batch(at, [b"v"])]) for at in range(3)]
    begun = contents.check_log

    def delete(_size):
        for path in segments[1].parent.glob(f"{segments[1].stem}.*"):
            path.unlink()

    def check_log(*arguments, **options):
        return begun(*arguments, **options | {"progress": delete})

    monkeypatch.setattr(contents, "check_log", check_log)
    found = numbers(tmp_path)
    assert any("00000000000000000001.log was not read, because it no longer exists" in note for note in found.notes)
    assert found.tables["topics"]["records"].to_pylist() == [2]
    assert not {"offset-gap", "segment-missing"} & {row["code"] for row in found.tables["findings"].to_pylist()}


def test_damage_is_a_finding_and_the_rest_counts(tmp_path):
    log = write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"], keys=[b"%d" % at]) for at in range(10)])
    damage.flip_bit(log, log.stat().st_size // 2 + 30)
    found = tables(tmp_path)
    finding = found["findings"].to_pylist()[0]
    assert (finding["topic"], finding["code"], finding["severity"]) == ("t", "batch-crc", "error")
    assert (finding["start_offset"], finding["end_offset"]) == (5, 6)
    assert kinds(found) == {"batch-crc": 1, "epochs-differ": 1}
    row = found["topics"].to_pylist()[0]
    assert (row["records"], row["batches"], row["distinct_keys"]) == (9, 9, 9)
    assert found["space"]["sampled_records"].to_pylist()[0] == 5


def test_a_hidden_past_is_a_note_and_no_warning(tmp_path):
    log = write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(5))] * 3)
    damage.flip_bit(log, log.stat().st_size // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notes = numbers(tmp_path).notes
    assert any("the content of these records is not known" in note for note in notes)


def test_replicas_are_checked_and_counted_once(tmp_path):
    for broker in (1, 2):
        path = tmp_path / str(broker)
        log = write_segment(path / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])
        (path / "meta.properties").write_text(f"version=0\nbroker.id={broker}\ncluster.id=abc\n")
    damage.flip_bit(log, 100)
    found = numbers(tmp_path / "1", tmp_path / "2")
    row = found.tables["topics"].to_pylist()[0]
    assert (row["partitions"], row["replicas"], row["records"]) == (1, 2, 10)
    assert (found.nodes, found.cluster_ids) == ([1, 2], ["abc"])
    assert kinds(found.tables) == {"batch-crc": 1, "epochs-differ": 2}
    assert found.tables["kinds"]["severity"].to_pylist() == ["error", "warning"]


def test_times_beyond_every_calendar(tmp_path):
    far = (1 << 62) // 1000 * 1000
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"], timestamp=far), batch(1, [b"v"], timestamp=NOW)])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1, far))])
    html = bl.report(tmp_path).html
    assert f"{far} ms" in html


def test_a_group_with_hostile_offsets(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    records = [
        (commit_key("g", "t", 0), commit_value(100 - (1 << 63))),
        (commit_key("h", "t", 0), commit_value(1 << 62)),
    ]
    write_records(tmp_path, "__consumer_offsets", records)
    found = {row["group"]: row["lag"] for row in tables(tmp_path)["groups"].to_pylist()}
    assert found["h"] == 0
    assert 0 <= found["g"] < 1 << 62


@pytest.mark.parametrize("place", [(0, 1 << 62), (1000, 1010)], ids=["whole", "part"])
@pytest.mark.parametrize(
    ("topic", "unknown"),
    [
        ("orders", ["the codecs of orders", "the samples of ", "the lag of ", "the lag at a past time of "]),
        ("__consumer_offsets", ["groups", "the groups of ", "__consumer_offsets-0: the content of these records"]),
        ("__transaction_state", ["transactions"]),
        ("__cluster_metadata", ["the changes in "]),
    ],
)
def test_what_the_disk_cannot_read_is_a_note_and_all_else_is_there(tmp_path, monkeypatch, topic, unknown, place):
    shutil.copytree(INCIDENT, tmp_path / "data")
    path = tmp_path / f"data/{topic}-0/{0:020}.log"
    fail(monkeypatch, path, *place)
    found = compute((str(tmp_path / "data"),), None, Processes(1), samples=2)
    assert [one["path"] for one in found.tables["findings"].to_pylist() if one["code"] == "disk-unreadable"] == [
        str(path)
    ]
    said = [one for one in found.notes if " not known: " in one]
    assert said
    assert all(any(one.startswith(words) for words in unknown) for one in said)
    groups = found.tables["groups"]["group"].to_pylist()
    assert groups == [] if topic == "__consumer_offsets" and place[0] == 0 else "ledger" in groups
    assert {"orders", "payments"} <= set(found.tables["topics"]["topic"].to_pylist())


@pytest.mark.parametrize("step", ["reading logs", "measuring codecs", "reading groups"])
def test_what_a_running_broker_deletes_is_a_note(tmp_path, step):
    for topic in ("t", "u"):
        write_segment(tmp_path / f"{topic}-0", 0, [batch(0, [b"v"], producer_id=7, base_sequence=0)])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(0))])

    def progress(what, done):
        if what.startswith(f"{step}: ") and not done:
            shutil.rmtree(tmp_path / ("__consumer_offsets-0" if step == "reading groups" else "u-0"))

    found = compute((str(tmp_path),), None, Processes(1), progress)
    assert any("no longer exists" in note for note in found.notes)
    assert "t" in found.tables["topics"]["topic"].to_pylist()


def test_markers_are_in_no_form_and_save_nothing(tmp_path):
    batches = []
    for at in range(0, 40, 2):
        batches.append(batch(at, [b"v" * 50], producer_id=7, base_sequence=at, transactional=True))
        batches.append(marker(at + 1, 7, commit=True))
    write_segment(tmp_path / "t-0", 0, batches)
    rows = tables(tmp_path)["space"].to_pylist()
    (as_now,) = [row for row in rows if row["batch_size"] is None and row["compression"] == "none"]
    assert as_now["bytes_per_record"] == as_now["bytes_per_record_now"] == len(batches[0])


def test_several_processes_find_what_one_finds(tmp_path):
    for topic in ("t", "u"):
        segment = write_segment(tmp_path / f"{topic}-0", 0, [batch(0, [b"v"], producer_id=7, base_sequence=0)] * 3)
    damage.flip_bit(segment, 100)
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(0))])
    alone, several = (bl.report(tmp_path, jobs=jobs) for jobs in (1, 2))
    assert several.notes == alone.notes
    assert several.tables == alone.tables
    with pytest.raises(ValueError, match="jobs"):
        bl.report(tmp_path, jobs=0)


def test_logs_without_a_topic_do_not_judge_each_other(golden, tmp_path):
    """Both have the number 0, but a batch of one does not begin inside a batch of the other."""
    log = golden / "logs/kafka-2.8-v1/codec-gzip-0"
    for name in ("one", "two"):
        shutil.copytree(log, tmp_path / name)
    found = bl.report(tmp_path / "one", tmp_path / "two").tables["topics"].to_pylist()
    assert [(row["topic"], row["records"]) for row in found] == [(None, 2 * bl.Log(log).to_table().num_rows)]
