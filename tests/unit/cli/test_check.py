"""`check` and `finding`: a line for each fault, and an exit code for the worst."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from brokerless.checking.codes import CODES
from brokerless.checking.finding import Finding
from support import damage
from support.log_files import batch, write_segment

INCIDENT = Path(__file__).parents[3] / "examples/incident"


@pytest.fixture
def log(tmp_path):
    log = write_segment(tmp_path / "data" / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])
    (tmp_path / "data/t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return log


def test_exit_codes_tell_the_worst(log, run, tmp_path):
    data = tmp_path / "data"
    assert run("check", data)[:] == (0, "", "no findings\n")
    (data / "t-0/notes.txt").write_text("x")
    result = run("check", data)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("0 errors, 0 warnings, 1 note; --all shows the notes. `brokerless finding CODE`")
    assert run("check", data, "--all").out.startswith(f"note file-foreign {data}/t-0/notes.txt: ")
    (data / "t-0/leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    assert run("check", data).code == 3
    damage.flip_bit(log, 100)
    result = run("check", data)
    assert result.code == 1
    assert result.out.splitlines()[0].startswith(f"error batch-crc {log}:69: record batch crc mismatch: stored ")
    assert result.out.splitlines()[0].endswith("; lost: offsets 1 to 1")


def test_json_has_the_cure(log, run, tmp_path):
    damage.flip_bit(log, 100)
    (line,) = run("check", tmp_path / "data", "--json").out.splitlines()
    found = json.loads(line)
    assert (found["code"], found["severity"], found["start_offset"]) == ("batch-crc", "error", 1)
    assert found["cure"] == CODES["batch-crc"].cure


def test_levels(log, run, tmp_path):
    damage.flip_bit(log, 100)
    assert run("check", tmp_path / "data", "--quick").code == 0
    assert run("check", tmp_path / "data", "--deep").code == 1


def test_a_finding_is_explained(run):
    result = run("finding", "batch-crc")
    assert result.code == 0
    assert result.out.startswith("batch-crc (error): a batch has a wrong checksum\nbroker:  After an unclean")
    assert len(run("finding").out.splitlines()) == len(CODES) + 1
    refused = run("finding", "batch-src")
    assert (refused.code, "batch-crc" in refused.err) == (2, True)


def test_two_directories_are_compared(log, run, tmp_path):
    data = tmp_path / "data"
    other = write_segment(tmp_path / "other/t-0", 0, [batch(at, [b"v"]) for at in range(7)])
    result = run("check", data, "--against", tmp_path / "other")
    assert (result.code, result.err) == (3, "1 ahead\n")
    assert result.out == "ahead t-0 at offset 7, leader epoch 0: the shorter log ends at offset 7\n"
    assert run("check", data, "--against", data)[:] == (0, "", "1 equal\n")
    assert run("check", data, "--against", data, "--all").out == "equal t-0\n"
    damage.flip_bit(other, 100)
    (line,) = run("check", data, "--against", tmp_path / "other", "--json").out.splitlines()
    assert json.loads(line)["status"] == "damaged"
    assert run("check", data, "--against", tmp_path / "other").code == 1
    for wrong in (("--deep", "--against", data), (tmp_path / "other", "--against", data), ("--records",)):
        assert run("check", data, *wrong).code == 2


def test_a_cure_that_is_no_verb_is_printed_with_its_values(run):
    result = run("check", INCIDENT)
    assert (result.code, result.out.count("\n")) == (1, 1)
    cure = "--topic payments --partition 1 --start-offset 7`"
    assert [line.endswith(cure) for line in result.err.splitlines() if line.startswith("cure of ")] == [True]


def test_what_no_verb_mends_leads_to_the_report(run):
    """The check finds one story of three: the report has those of the groups too."""
    result = run("check", INCIDENT)
    assert f"next: brokerless report {INCIDENT} --output report.html" in result.err.splitlines()
    assert "next: " not in run("check", INCIDENT / "payments-1").err


def test_a_hanging_transaction_is_listed_with_its_cure(run):
    result = run("transactions", INCIDENT, "--hanging")
    cure = "abort --topic payments --partition 1 --start-offset 7`"
    assert [line.endswith(cure) for line in result.err.splitlines() if line.startswith("cure of ")] == [True]
    assert "cure of" not in run("transactions", INCIDENT, "--hanging", "--json").err


def test_a_repair_leads_to_no_check_that_would_repeat_it(run, tmp_path):
    shutil.copytree(INCIDENT, tmp_path / "data")
    (tmp_path / "data/meta.properties").unlink()
    result = run("repair", tmp_path / "data", "--output", tmp_path / "to")
    assert re.findall("cure of ([a-z-]+):", result.err) == ["ids-missing", "transaction-hanging"]
    assert "next:" not in result.err


@pytest.mark.parametrize("topic", ["$(reboot)", "a`b`", "a b; c", "it's"])
def test_a_name_in_a_cure_is_one_word_of_the_command(topic):
    found = Finding(code="transaction-hanging", path="x", message="", topic=topic, partition=1, start_offset=7)
    command = re.search(r"`(kafka-transactions\.sh .*)`$", found.cure)[1]
    words = shlex.split(command)
    assert words[words.index("--topic") + 1] == topic
    assert "'" in command


def test_a_cure_without_values_keeps_its_placeholders():
    assert Finding(code="transaction-hanging", path="x", message="").cure == CODES["transaction-hanging"].cure


def test_a_dry_run_of_a_rescue_leads_to_the_rescue(run, tmp_path, monkeypatch):
    """Paths are as they were given, and what is left is printed with its cure."""
    shutil.copytree(INCIDENT, tmp_path / "disk")
    shutil.rmtree(tmp_path / "disk/__cluster_metadata-0")
    shutil.rmtree(tmp_path / "disk/orders-2")
    damage.flip_bit(tmp_path / "disk/payments-0" / f"{0:020d}.log", 500)
    monkeypatch.chdir(tmp_path)
    planned = run("rescue", "disk", "--dry-run")
    assert "next: brokerless rescue disk --output disk.rescued" in planned.err.splitlines()
    done = run("rescue", "disk", "--output", "new")
    for result in (planned, done):
        assert "cure of transaction-hanging: " in result.err
        assert str(tmp_path) not in result.out + result.err
        # No metadata name the partition. The groups do.
        named = "doubt: orders-2: no disk has this partition, and no metadata name it, but 3 groups committed offsets"
        assert f"{named} in it: billing, search, shipping." in result.out
    assert "in new.lost" in done.err


def test_a_read_of_a_log_that_has_lost_its_snapshot_says_what_it_returns(run, tmp_path):
    """A broker serves the rows of the open transaction, too, and neither knows it."""
    shutil.copytree(INCIDENT, tmp_path / "data")
    asked = ("read", tmp_path / "data", "--topic", "payments", "--partition", 1, "--isolation-level", "read_committed")
    before = run(*asked)
    assert "no producer snapshot" not in before.err
    for path in (tmp_path / "data/payments-1").glob("*.snapshot"):
        path.unlink()
    after = run(*asked)
    assert len(after.out.splitlines()) > len(before.out.splitlines())
    assert "payments-1 has no producer snapshot" in after.err
    assert "open from offset 7 on as committed, and so does this read" in after.err


def test_places_are_told_as_the_path_was_given(run, tmp_path, monkeypatch):
    shutil.copytree(INCIDENT, tmp_path / "data")
    damage.flip_bit(tmp_path / "data/orders-0" / f"{0:020d}.log", 4000)
    monkeypatch.chdir(tmp_path)
    for verb in ("ls", "check", "read"):
        result = run(verb, "data", "--topic", "orders")
        assert f"data/orders-0/{0:020d}.log:" in result.out + result.err
        assert str(tmp_path) not in result.out + result.err


def test_what_is_lost_is_said_once_and_at_no_position(run, tmp_path):
    shutil.copytree(INCIDENT, tmp_path / "data")
    damage.remove(tmp_path / "data/.kafka_cleanshutdown")
    damage.cut(tmp_path / "data/orders-0" / f"{0:020d}.log", -100)
    (line,) = [one for one in run("check", tmp_path / "data").out.splitlines() if "records-missing" in one]
    assert ("lost: " in line, ".log:0" in line) == (False, False)
    assert line.endswith("so offsets 80 to 199 are lost")
    read = run("read", tmp_path / "data", "--topic", "orders", "--partition", 0)
    assert (read.code, ".log:0" in read.err) == (1, False)
    assert "so offsets 80 to 199 are lost (" in read.err
