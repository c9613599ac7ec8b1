"""Jobs do on Spark what the library does here, and what fails or is repeated leaves no trace."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import brokerless as bl
from brokerless.rewriting.compact.compact import Compaction
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.run import rewrite
from brokerless.spark import profile
from brokerless.spark import rewrite as rewrite_on_spark
from support import damage
from support.log_files import NOW, batch

ROOT = Path(__file__).parents[2]


def contents(directory):
    """Return all files of a directory but the lock, by name."""
    found = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".lock"}


@pytest.fixture
def data(tmp_path):
    """Two partitions of a compacted topic in three segments each, and another topic."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("users", 2, segment_bytes=1000, index_interval_bytes=0, cleanup_policy="compact")
        log_dir.create_topic("u")
        for key in log_dir.partitions():
            for i in range(24):
                values = [b"value %d of %d" % (i, key[1]), None if i % 5 == 4 else b"more"]
                log_dir.log(*key).append(batch(0, values, keys=[b"k%d" % (i % 3), b"m%d" % i], timestamp=NOW + i))
    return tmp_path / "data"


def test_profile_adds_up(spark, data, golden):
    (all_of_it,) = profile(spark, data, by=()).collect()
    by_topic = {row["topic"]: row for row in profile(spark, data).collect()}
    assert (all_of_it["partitions"], all_of_it["records"], all_of_it["batches"]) == (3, 144, 72)
    users = by_topic["users"]
    assert (users["partitions"], users["records"], users["tombstones"], users["null_keys"]) == (2, 96, 8, 0)
    assert users["bytes"] == sum(path.stat().st_size for path in data.glob("users-*/*.log"))
    assert (users["first_offset"], users["last_offset"], users["skew"]) == (0, 47, 1.0)
    assert (users["magics"], users["compressions"]) == ([2], ["none"])
    assert by_topic["u"]["key_bytes"] == users["key_bytes"] // 2
    logs = golden / "logs/kafka-4.1"
    rows = profile(
        spark, logs, topics=["codec-mixed", "txn-interleaved"], by=["topic", "compression", "hour"]
    ).collect()
    assert {row["compression"] for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    found = {
        topic: sum(row["records"] for row in rows if row["topic"] == topic)
        for topic in ("codec-mixed", "txn-interleaved")
    }
    assert found == {
        topic: sum(part.num_rows for part in bl.LogDirs(logs).log(topic, 0).read(columns=["offset"])) for topic in found
    }
    assert len(profile(spark, data, by=iter(["topic"])).collect()) == len(by_topic)
    with pytest.raises(ValueError, match="unknown group 'hours': did you mean 'hour'"):
        profile(spark, logs, by=["hours"])


@pytest.mark.parametrize(
    ("operation", "task_bytes"),
    [
        (Compaction(roll=True), 1 << 30),
        (Compaction(roll=True), 1000),
        (Conversion(compression="zstd"), 1000),
        (bl.Retention(before_offset=20, cleanup_policy="delete"), 1000),
        (bl.Erasure(keys=(b"k1",)), 1000),
        (bl.Truncation(offset=30, sole_replica=True), 1000),
    ],
    ids=["compact", "divided", "convert", "retain", "erase", "truncate"],
)
def test_rewriting_is_as_it_is_here(spark, data, tmp_path, operation, task_bytes):
    """Several log directories in one run; the files are the same, and so are those that were not named."""
    here, other = shutil.copytree(data, tmp_path / "here"), shutil.copytree(data, tmp_path / "other")
    reports = {done.name: done.report for done in rewrite(operation, here, topics=["users"])}
    dry = rewrite_on_spark(spark, operation, data, other, topics=["users"], dry_run=True)
    assert contents(data) == contents(other)
    done = rewrite_on_spark(spark, operation, data, other, topics=["users"], task_bytes=task_bytes)
    assert sorted(one.name for one in done) == sorted([*reports, *reports])
    assert sorted(one.name for one in dry) == sorted([*reports, *reports])
    for one in done:
        assert type(one.report) is type(reports[one.name])
        assert [line.split(" at ")[0] for line in one.report.lines()] == [
            line.split(" at ")[0] for line in reports[one.name].lines()
        ]
    for left in (data, other):
        names = [path.relative_to(left) for path in left.rglob("*")]
        assert not [name for name in names if name.name.endswith((".cleaned", "-delete", ".deleted", ".swap"))]
        for log in bl.LogDirs(left).logs():
            twin = bl.LogDirs(here).log(log.topic, log.partition)
            assert [(s.base_offset, s.size) for s in log.segments] == [(s.base_offset, s.size) for s in twin.segments]
            assert pa.table(log.read()).equals(pa.table(twin.read()))
        assert bl.LogDirFiles(str(left)).is_clean


def test_a_damaged_log_stays_as_it_was(spark, data):
    path = min((data / "users-1").glob("*.log"))
    damage.flip_bit(path, 70)
    before = contents(data / "users-1")
    with pytest.raises(bl.errors.CorruptRecordError, match=r"crc mismatch at .*users-1") as raised:
        rewrite_on_spark(spark, Conversion(compression="zstd"), data, topics=["users"], jobs=1)
    assert raised.value.path == str(path)
    assert contents(data / "users-1") == before
    assert not list(data.glob("*-delete"))
    with pytest.raises(ValueError, match="0 jobs: at least 1"):
        rewrite_on_spark(spark, Conversion(compression="zstd"), data, topics=["users"], jobs=0)


def test_a_run_after_a_failure_goes_on(spark, data, tmp_path):
    state = tmp_path / "state.jsonl"
    path = min((data / "users-1").glob("*.log"))
    damage.flip_bit(path, 70)
    for expected in (["users-0"], []):
        with pytest.raises(bl.errors.CorruptRecordError):
            rewrite_on_spark(spark, Conversion(compression="zstd"), data, topics=["users"], jobs=1, resume_file=state)
        assert len(state.read_text().splitlines()) == 1, expected
    damage.flip_bit(path, 70)
    done = rewrite_on_spark(spark, Conversion(compression="zstd"), data, topics=["users"], resume_file=state)
    assert [one.name for one in done] == ["users-1"]
    assert {
        header["compression"]
        for log in bl.LogDirs(data).logs(["users"])
        for part in log.scan()
        for header in part.to_pylist()
    } == {"zstd"}
    assert rewrite_on_spark(spark, Conversion(compression="zstd"), data, topics=["users"], resume_file=state) == []
    assert len(rewrite_on_spark(spark, Conversion(compression="lz4"), data, topics=["users"], resume_file=state)) == 2


def test_the_commands(run, data, tmp_path):
    code, out, _ = run("profile", data, "--by", "topic", "--by", "partition")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines()[1:]] == [
        ["u", "0", "1", "48"],
        ["users", "0", "1", "48"],
        ["users", "1", "1", "48"],
    ]
    code, out, _ = run("profile", data, "--topic", "users", "--json")
    assert json.loads(out)["records"] == 96
    assert json.loads(out)["first_timestamp"] == "2023-11-14T22:13:20Z"
    arguments = ("compact", data, "--topic", "users", "--roll", "--json")
    code, out, err = run(*arguments, "--dry-run")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "changed nothing" in err
    code, out, err = run(*arguments, "--in-place", "--resume-file", tmp_path / "state")
    assert code == 0
    assert {json.loads(line)["partition"] for line in out.splitlines()} == {0, 1}
    code, out, err = run(*arguments, "--in-place", "--resume-file", tmp_path / "state")
    assert (code, out) == (0, "")
    assert "2 partitions skipped: an earlier run finished them" in err
    code, out, err = run("convert", data, "--topic", "users", "--compression", "gzip", "--in-place")
    assert code == 0
    assert "batches converted" in out
    limits = ("--before-offset", "10", "--cleanup-policy", "delete")
    code, out, err = run("retain", data, "--topic", "users", *limits, "--in-place", "--json")
    assert (code, {json.loads(line)["log_start_offset"] for line in out.splitlines()}) == (0, {10})
    assert "in all" in err
    assert run("retain", data, "--topic", "users", "--in-place")[0] == 2
    erasing = ("erase", data, "--topic", "users", "--key", "k1", "--in-place", "--resume-file", tmp_path / "erased")
    code, out, err = run(*erasing)
    assert (code, "records erased" in out, "warning: replicas" in err) == (0, True, False)
    assert b"k1" not in (tmp_path / "erased").read_bytes()
    code, out, err = run(*erasing)
    assert (code, out, "2 partitions skipped: an earlier run finished them" in err) == (0, "", True)
    damage.flip_bit(next((data / "u-0").glob("*.log")), 70)
    assert run("profile", data)[0] == 1
    code, _, err = run("profile", data, "--topic", "user")
    assert (code, err.splitlines()[-1]) == (2, "brokerless: unknown topic 'user': did you mean 'users'?")
    assert run("compact", data, "--topic", "users")[0] == 2


def test_the_guide(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with bl.create_log_dir("data") as log_dir:
        log_dir.create_topic("orders", cleanup_policy="compact")
        for i in range(4):
            log_dir.log("orders", 0).append(batch(0, [b"%d" % i], keys=[b"key"], timestamp=NOW))
    names = {"spark": spark}
    # Spark plans in a process that was started before, and works elsewhere.
    guide = (ROOT / "docs/guides/jobs.md").read_text().replace('load("data")', f'load("{tmp_path}/data")')
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", guide):
        exec(block, names)
    assert names["found"].count() == 0
    assert [row["records"] for row in names["by_hour"].collect()] == [1]
    assert "orders-0 288 bytes to" in capsys.readouterr().out
    (rows,) = bl.LogDirs("data").log("orders", 0).read(columns=["value", "compression"])
    assert rows.to_pylist() == [{"value": b"3", "compression": "zstd"}]


DYING = """
import os, signal, sys
from dataclasses import dataclass
from brokerless.rewriting.convert import Conversion

@dataclass(frozen=True, kw_only=True)
class DyingConversion(Conversion):
    \"\"\"Takes its worker with it the first time, when its new segments are there.\"\"\"
    def work(self, plan, *, dry_run, progress, output=None):
        outcome = super().work(plan, dry_run=dry_run, progress=progress, output=output)
        mark = plan.directory + ".died"
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome
"""
RUN = """
import sys
from pyspark.sql import SparkSession
from brokerless.spark import rewrite
from dying import DyingConversion
spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
verb = DyingConversion(compression="zstd")
print(len(rewrite(spark, verb, *sys.argv[1:], topics=["users"])))
"""


def test_a_worker_that_is_killed_is_replaced(data, tmp_path):
    here = shutil.copytree(data, tmp_path / "here")
    rewrite(Conversion(compression="zstd"), here, topics=["users"])
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "dying.py").write_text(DYING)
    (tmp_path / "code" / "run.py").write_text(RUN)
    path = os.pathsep.join([str(tmp_path / "code"), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(tmp_path / "code" / "run.py"), str(data)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
    assert sorted(path.name for path in data.glob("*.died")) == ["users-0.died", "users-1.died"]
    assert not list(data.glob("*-delete"))
    for log in data.glob("users-*/*.log"):
        assert log.read_bytes() == (here / log.relative_to(data)).read_bytes()


@pytest.mark.parametrize("submits", [False, True])
def test_another_master(data, submits):
    """By --master, or by a spark-submit that runs the command: which hands out its words with its data."""
    damage.flip_bit(next((data / "u-0").glob("*.log")), 70)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
    arguments = ["spark", "check", str(data), "--json"]
    if submits:
        submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
        command = [submit, "--master", "local[1]", str(ROOT / "src/brokerless/cli/__main__.py"), *arguments]
    else:
        command = [sys.executable, "-m", "brokerless.cli", *arguments, "--master", "local[1]"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    findings = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [finding["topic"] for finding in findings] == ["u"]
    assert submits or done.stdout.count("\n") == 1


def test_a_machine_without_java_is_told_so(tmp_path):
    command = [sys.executable, "-m", "brokerless", "spark", "check", str(tmp_path)]
    done = subprocess.run(
        command, env={**os.environ, "JAVA_HOME": "/nowhere"}, capture_output=True, text=True, check=False
    )
    told = "brokerless: Spark needs Java 17 or newer, and finds none: install it, or set JAVA_HOME"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, told)
