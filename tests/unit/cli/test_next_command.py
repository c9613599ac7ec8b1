"""check, recover and repair end with the command that comes next, which can be pasted into a shell."""

import shlex
import shutil

import pytest

import brokerless as bl
from support.damage import cut, flip_bit
from support.log_files import batch


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "a disk"
    with bl.create_log_dir(directory) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        for value in (b"1", b"2", b"3"):
            log.append(batch(0, [value]))
    return directory


def following(result):
    """Return the words of the next command, or None."""
    lines = [line for line in result.err.splitlines() if line.startswith("next: ")]
    assert len(lines) <= 1
    return shlex.split(lines[0].removeprefix("next: ")) if lines else None


def test_each_command_leads_to_the_next_until_all_is_well(data, run, tmp_path):
    cut(data / f"t-0/{0:020d}.log", 100)
    checked = run("check", data)
    assert checked.code == 1
    assert following(checked) == ["brokerless", "repair", str(data), "--dry-run"]
    planned = run(*following(checked)[1:])
    assert following(planned) == ["brokerless", "repair", str(data), "--output", f"{data}.repaired"]
    repaired = run(*following(planned)[1:])
    assert following(repaired) == ["brokerless", "check", f"{data}.repaired"]
    assert run(*following(repaired)[1:]).code == 0


def test_a_sound_directory_needs_no_command(data, run):
    for verb in (["check", data], ["repair", data, "--dry-run"], ["recover", data], ["recover", data, "--dry-run"]):
        result = run(*verb)
        assert result.code == 0, verb
        assert following(result) is None


def test_a_crash_is_recovered(data, run):
    (data / ".kafka_cleanshutdown").unlink()
    # What was synced would be lost.
    (data / "recovery-point-offset-checkpoint").unlink()
    path = data / f"t-0/{0:020d}.log"
    cut(path, path.stat().st_size - 1)
    planned = run("recover", data, "--dry-run")
    assert following(planned) == ["brokerless", "recover", str(data)]
    done = run("recover", data)
    assert following(done) == ["brokerless", "check", str(data)]


def test_json_has_no_next_command(data, run):
    cut(data / f"t-0/{0:020d}.log", 100)
    for verb in (["check", data], ["repair", data, "--dry-run"]):
        assert following(run(*verb, "--json")) is None


def test_a_dry_run_of_a_clean_directory_does_not_ask_for_a_recovery(run, golden):
    """It said "next: brokerless recover" of a directory on which a broker starts."""
    code, out, err = run("recover", golden / "logs/kafka-4.1", "--dry-run")
    assert (code, "a broker will start" in out) == (0, True)
    assert err.splitlines()[-1].endswith(
        "the directory was shut down cleanly, so a broker starts without this recovery"
    )


def test_the_repair_repeats_the_options_of_its_dry_run(data, run, tmp_path):
    """Without --from and --topic, the printed command lost the records that the dry run had promised."""
    other = tmp_path / "other"
    shutil.copytree(data, other)
    cut(data / f"t-0/{0:020d}.log", 100)
    given = ["--topic", "t", "--from", str(other), "--keep-suspect", "--topic", "t*", "--lost", str(tmp_path / "a b")]
    words = following(run("repair", data, *given, "--dry-run"))
    assert words[:3] == ["brokerless", "repair", str(data)]
    assert sorted(words[3:-2]) == sorted(given)
    assert words[-2:] == ["--output", f"{data}.repaired"]
    repaired = run(*words[1:])
    assert (repaired.code, run("check", data.parent / "a disk.repaired", "--against", other).code) == (0, 0)


def test_a_repair_of_indexes_alone_stays_one(data, run):
    (data / f"t-0/{0:020d}.index").write_bytes(b"1234567")
    words = following(run("repair", data, "--indexes-only", "--dry-run"))
    assert "--indexes-only" in words


@pytest.mark.parametrize("into", [["--in-place"], ["--output", "elsewhere"]])
def test_the_repair_goes_where_the_dry_run_would_have_put_it(data, run, into):
    cut(data / f"t-0/{0:020d}.log", 100)
    assert following(run("repair", data, "--dry-run", *into)) == ["brokerless", "repair", str(data), *into]


def test_a_check_leads_to_a_repair_of_the_same_topics(data, run):
    cut(data / f"t-0/{0:020d}.log", 100)
    # --all shows notes here, and means something else in other verbs.
    words = following(run("check", data, "--deep", "--topic=t", "--all"))
    assert words == ["brokerless", "repair", str(data), "--topic", "t", "--dry-run"]
    repaired = following(run("repair", data, "--topic", "t", "--in-place"))
    assert repaired == ["brokerless", "check", str(data), "--topic", "t"]


def test_a_recovery_repeats_the_options_of_its_dry_run(data, run, tmp_path):
    (data / ".kafka_cleanshutdown").unlink()
    path = data / f"t-0/{0:020d}.log"
    cut(path, path.stat().st_size - 1)
    config = tmp_path / "server.properties"
    config.write_text("index.interval.bytes=8192\n")
    given = ["--topic", "t", "--force", "--all", "--broker-config", str(config)]
    words = following(run("recover", data, "--dry-run", *given))
    assert words[:3] == ["brokerless", "recover", str(data)]
    assert sorted(words[3:]) == sorted(given)
    assert following(run("recover", data, *given)) == ["brokerless", "check", str(data), "--topic", "t"]


def test_a_refused_recovery_leads_to_a_repair_of_the_same_topics(data, run):
    flip_bit(data / f"t-0/{0:020d}.log", 100)
    words = following(run("recover", data, "--dry-run", "--topic", "t"))
    assert words[:3] == ["brokerless", "repair", str(data)]
    assert sorted(words[3:]) == ["--dry-run", "--topic", "t"]


def test_groups_repeat_a_time_as_it_was_typed(run):
    """As ms, some times would be refused; and the memory has a default, which need not be repeated."""
    given = ["--as-of", "2030-01-01T00:00", "--group", "billing"]
    words = following(run("groups", "examples/incident", *given))
    assert words == ["brokerless", "groups", "examples/incident", *given, "--offsets"]


def test_a_path_that_looks_like_an_option_stays_a_path(data, run, monkeypatch):
    cut(data / f"t-0/{0:020d}.log", 100)
    monkeypatch.chdir(data.parent)
    data.rename(data.parent / "-data")
    words = following(run("check", "--", "-data"))
    assert words == ["brokerless", "repair", "./-data", "--dry-run"]
    assert run(*words[1:]).code == 3
