"""Spark's check has the findings of `brokerless.check`, and its command prints and exits as `brokerless check`."""

import json
import os
import pickle
import shutil

import pytest

import brokerless as bl
from brokerless.checking.check import LEVELS
from brokerless.checking.finding import SCHEMA
from brokerless.cli import main
from brokerless.spark import check
from brokerless.spark.jobs.check import in_order
from brokerless.spark.source import findings
from brokerless.spark.source.options import Options
from support import damage
from support.broken_directories import BROKEN, SIZE, first, healthy


@pytest.fixture
def data(tmp_path):
    return healthy(tmp_path / "data")


def rows_of(frame):
    return sorted(json.dumps(row.asDict()) for row in frame.collect())


def in_one_process(*paths, **options):
    found = [{name: finding.to_dict()[name] for name in SCHEMA.names} for finding in bl.check(*paths, **options)]
    return sorted(map(json.dumps, found))


@pytest.mark.parametrize("code", BROKEN)
def test_each_kind_of_finding_is_found(spark, data, code):
    BROKEN[code](data)
    expected = in_one_process(data, level="deep")
    assert {json.loads(row)["code"] for row in expected} - {"metadata-missing"} == {code}
    assert rows_of(check(spark, data, level="deep")) == expected


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["kafka-4.1", "kafka-4.1-crashed", "kafka-4.1-compacted", "kafka-2.8-v1"])
def test_logs_of_real_brokers(spark, golden, name, level):
    found = rows_of(check(spark, golden / "logs" / name, level=level))
    assert found == in_one_process(golden / "logs" / name, level=level)
    # One has the topics of a broker without its metadata.
    codes = {json.loads(row)["code"] for row in found}
    assert bool(codes - {"metadata-missing"}) == ("crashed" in name)


def test_what_the_metadata_and_other_directories_tell(spark, golden, data, tmp_path):
    shutil.copytree(golden / "logs/kafka-4.1", tmp_path / "other")
    shutil.rmtree(tmp_path / "other/headers-0")
    found = rows_of(check(spark, tmp_path / "other"))
    assert [json.loads(row)["code"] for row in found] == ["partition-lost"]
    assert found == in_one_process(tmp_path / "other")
    shutil.copytree(data, tmp_path / "copy")
    damage.flip_bit(first(tmp_path / "copy"), 100)
    found = rows_of(check(spark, data, tmp_path / "copy"))
    assert [json.loads(row)["code"] for row in found] == ["batch-crc", "ids-conflict"]
    assert found == in_one_process(data, tmp_path / "copy")
    (data / "meta.properties").write_text("version=1\nnode.id=x\n")
    assert rows_of(check(spark, data, tmp_path / "copy")) == in_one_process(data, tmp_path / "copy")


def test_every_replica_is_checked(spark, data, tmp_path):
    """A read takes one of them; what is wrong with another shows when that one becomes the leader."""
    other = shutil.copytree(data, tmp_path / "other")
    meta = other / "meta.properties"
    lines = meta.read_text().splitlines()
    meta.write_text("\n".join("node.id=2" if line.startswith("node.id") else line for line in lines))
    damage.flip_bit(first(other), 100)
    for paths in ((data, other), (other, data)):
        rows = rows_of(check(spark, *paths, topics=["t"]))
        assert [json.loads(row)["path"] for row in rows] == [str(first(other))]
        assert rows_of(check(spark, *paths)) == in_one_process(*paths)


def test_internal_topics_are_checked_and_chosen_topics_leave_out_directories(spark, data, load):
    """A user of `brokerless.check` changes one line."""
    (data / "lost+found").mkdir()
    shutil.copytree(data / "t-0", data / "__consumer_offsets-0")
    damage.flip_bit(data / "__consumer_offsets-0" / first(data).name, 100)
    damage.flip_bit(first(data), SIZE * 5 + 100)
    for topics in (["t"], ["__consumer_offsets"], ["t", "__consumer_offsets"]):
        found = rows_of(check(spark, data, topics=topics))
        assert found == in_one_process(data, topics=topics)
        assert {json.loads(row)["topic"] for row in found} == set(topics)
    everything = [json.loads(row) for row in rows_of(check(spark, data))]
    assert {(row["code"], row["topic"]) for row in everything} >= {("name-unknown", None), ("batch-crc", "t")}
    assert rows_of(check(spark, data)) == in_one_process(data)
    by_pattern, assigned = (
        rows_of(load(data, view="findings", **option))
        for option in ({"subscribePattern": "^t$"}, {"assign": '{"t":[0]}'})
    )
    assert by_pattern == assigned == in_one_process(data, topics=["t"])


def test_settings_of_topics_reach_the_tasks(spark, data):
    """Offsets are missing in a compacted log, and that is no finding."""
    BROKEN["offset-gap"](data)
    with bl.open_log_dir(data, recover=True) as log_dir:
        log_dir.create_topic("c", cleanup_policy="compact")
    for log in (data / "t-0").glob("*.log"):
        shutil.copy(log, data / "c-0" / log.name)
    found = [json.loads(row) for row in rows_of(check(spark, data, topics=["t", "c"]))]
    assert found == [json.loads(row) for row in in_one_process(data, topics=["t", "c"])]
    assert {(row["code"], row["topic"]) for row in found if row["code"] == "offset-gap"} == {("offset-gap", "t")}


def test_a_name_that_is_not_utf_8(spark, data):
    os.close(os.open(os.fsencode(data) + b"/t-0/caf\xe9", os.O_CREAT))
    (row,) = check(spark, data).collect()
    assert (row["code"], row["path"]) == ("file-foreign", f"{data}/t-0/caf\\udce9")


def planned(path, **options):
    options = Options.parse({"path": str(path), "view": "findings", **options})
    return [task.work for task in findings.plan(options)]


def test_a_task_for_directories_and_small_tasks_for_logs(golden, data):
    """A log directory is read once, and not by each executor. The largest log comes first."""
    around, *logs = planned(golden / "logs/kafka-4.1")
    assert [type(work).__name__ for work in around] == ["DirectoriesToCheck"]
    works = [work for task in logs for work in task]
    assert sorted(work.path for work in works) == sorted(
        log.path for log in bl.LogDirs(golden / "logs/kafka-4.1").logs()
    )
    assert [work.size for work in works] == sorted((work.size for work in works), reverse=True)
    assert max(len(pickle.dumps(work)) for work in works) < 400
    assert len(planned(golden / "logs/kafka-4.1", minPartitions="8")) >= 8
    only = planned(data, subscribe="t")
    assert [type(work).__name__ for task in only for work in task] == ["LogToCheck"]


def test_an_unknown_level(spark, data, load):
    with pytest.raises(ValueError, match="unknown level 'thorough'"):
        check(spark, data, level="thorough")
    with pytest.raises(Exception, match="option level must be default or quick or deep, not 'all'"):
        load(data, view="findings", level="all").collect()
    with pytest.raises(Exception, match="option level does not apply to view records"):
        load(data, level="deep").collect()


def of_this_process(capfd, *arguments):
    capfd.readouterr()
    with pytest.raises(SystemExit) as exited:
        main(["check", *map(str, arguments)])
    captured = capfd.readouterr()
    return exited.value.code, captured.out, captured.err


@pytest.mark.parametrize("options", [(), ("--quick",), ("--deep", "--all"), ("--json",), ("--topic", "t")])
def test_the_command_prints_and_exits_as_check_does(run, data, capfd, options):
    for damaged in (
        lambda: None,
        lambda: (data / "t-0/notes.txt").write_text("x"),
        lambda: BROKEN["epochs-differ"](data),
        lambda: BROKEN["batch-payload"](data),
        lambda: damage.flip_bit(first(data), SIZE * 7 + 100),
    ):
        damaged()
        code, out, err = of_this_process(capfd, data, *options)
        there = run("check", data, *options)
        assert (there[0], sorted(there[1].splitlines())) == (code, sorted(out.splitlines()))
        assert there[2].splitlines()[-1:] == err.splitlines()[-1:]
    code, _, err = run("check", data, "--topic", "s")
    assert (code, err.splitlines()[-1]) == (2, "brokerless: unknown topic 's': there is t")


def test_the_command_sorts(run, golden):
    path = golden / "logs/kafka-4.1-crashed"
    code, out, _ = run("check", path, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert rows == sorted(rows, key=lambda row: (row["topic"] or "", row["partition"] or 0, row["path"]))


def test_a_sort_does_not_read_the_logs_twice(spark, data):
    """Spark runs what is below a sort for a sample, and again: but not what was shuffled before."""
    plan = in_order(check(spark, data))._jdf.queryExecution().executedPlan().toString()
    by_range, by_path = plan.index("rangepartitioning"), plan.index("hashpartitioning(path")
    assert by_range < by_path < plan.index("BatchScan")
