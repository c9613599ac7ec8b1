"""check, recover and repair end with the command that comes next, which can be pasted into a shell."""

import shlex

import pytest

import brokerless as bl
from support.damage import cut
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
