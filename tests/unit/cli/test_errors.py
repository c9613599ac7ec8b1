"""Usage errors and missing things: exit 2, a line that says what to do, no traceback."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import brokerless as bl
from brokerless.cli import command
from brokerless.cli.command import as_flag
from brokerless.io import disk
from brokerless.notes import note
from support.damage import flip_bit
from support.state_records import write_records

IN_A_STORE = "s3://bucket/logs"


@pytest.mark.parametrize(
    "arguments",
    [
        ["rescue", IN_A_STORE, "--output", "new"],
        ["rescue", "{}", "--output", IN_A_STORE],
        ["rescue", "{}", "--output", "new", "--lost", IN_A_STORE],
        ["repair", IN_A_STORE, "--output", "new"],
        ["repair", IN_A_STORE, "--dry-run"],
        ["repair", "{}", "--output", IN_A_STORE],
        ["repair", "{}", "--from", IN_A_STORE, "--output", "new"],
        ["read", "{}", "--output", IN_A_STORE],
        ["recover", IN_A_STORE],
        ["report", "{}", "--output", IN_A_STORE],
        ["produce", IN_A_STORE, "--topic", "t"],
        ["erase", "{}", "--topic", "nulls", "--key", "k", "--output", IN_A_STORE],
        ["compact", IN_A_STORE, "--topic", "t", "--dry-run"],
    ],
)
def test_what_would_write_to_an_object_store_refuses_it_by_name(arguments, golden, run, tmp_path, monkeypatch):
    """Not with the error of a local path of that name, and before any work."""
    monkeypatch.chdir(tmp_path)
    result = run(*(argument.replace("{}", str(golden / "logs/kafka-4.1")) for argument in arguments))
    assert (result.code, result.out) == (2, "")
    assert f"{IN_A_STORE} is in an object store, which brokerless only reads" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read", "/nonexistent"], "does not exist"),
        (["read"], "Missing argument 'PATH...'"),
        (["raed"], "No such command 'raed'"),
        (["repair", "{}", "--in-place", "--output", "x"], "give --in-place or --output, not both"),
        (["read", "{}", "--topic", "codec-zsdt"], "did you mean 'codec-zstd'?"),
        (["read", "{}", "--topic", "codec-zstd", "--partition", "7"], "unknown partition 7"),
        (["read", "{}/codec-zstd-0", "--end-offset", "-1"], "is not an offset"),
        (["read", "{}/codec-zstd-0", "--start-offset", "501"], "501"),
        (["read", "{}/codec-zstd-0", "--start-timestamp", "noon"], "ISO 8601"),
        (["offsets", "{}/codec-zstd-0"], "Missing option '--timestamp'"),
        (["offsets", "{}/codec-zstd-0", "--timestamp", "newest"], "max-timestamp"),
        (["dump", "{}/codec-zstd-0/partition.metadata", "--files", "{}/none.log"], "does not exist"),
        (["dump"], "no file: name files"),
    ],
)
def test_could_not_run(arguments, message, golden, run):
    result = run(*(argument.replace("{}", str(golden / "logs/kafka-4.1")) for argument in arguments))
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("arguments", "usage", "message"),
    [
        (["raed"], "brokerless [OPTIONS] COMMAND", "No such command 'raed'."),
        (["read", "{}", "--nonsense"], "brokerless read [OPTIONS]", "No such option"),
        (["read", "{}", "--limit", "x"], "brokerless read [OPTIONS]", "Invalid value for '--limit'"),
        (["truncate", "{}", "--output", "new"], None, "--timestamp or --offset is needed"),
        (["read", "{}", "--topic", "codec-zsdt"], None, "unknown topic 'codec-zsdt'"),
        (["raed\nbrokerless: fine"], "brokerless [OPTIONS] COMMAND", r"No such command"),
    ],
)
def test_each_error_is_a_line_that_begins_with_the_name_of_the_program(arguments, usage, message, golden, run):
    """A script that looks for errors in a log finds those of usage too, and no foreign text makes such a line."""
    result = run(*(argument.replace("{}", str(golden / "logs/kafka-4.1")) for argument in arguments))
    assert result.code == 2
    lines = result.err.splitlines()
    (error,) = [line for line in lines if line.startswith("brokerless: ")]
    assert error.startswith(f"brokerless: {message}")
    assert not [line for line in lines if line.startswith("Error")]
    if usage:
        assert lines[0].startswith(f"Usage: {usage}")
        assert lines[1].startswith("Try `brokerless ")
        assert lines.index(error) == 3


_TOO_LARGE = "9" * 23


@pytest.mark.parametrize(
    "arguments",
    [
        ["read", "{}", "--limit"],
        ["read", "{}", "--start-offset"],
        ["read", "{}", "--start-timestamp"],
        ["ls", "{}", "--partition"],
        ["compact", "{}", "--dry-run", "--delete-retention-ms"],
        ["compact", "{}", "--dry-run", "--min-compaction-lag-ms"],
        ["compact", "{}", "--dry-run", "--memory"],
        ["convert", "{}", "--dry-run", "--batch-size"],
        ["convert", "{}", "--dry-run", "--compression", "gzip", "--compression-level"],
        ["retain", "{}", "--dry-run", "--retention-ms"],
        ["retain", "{}", "--dry-run", "--retention-bytes"],
        ["retain", "{}", "--dry-run", "--before-offset"],
        ["dump", "{}/00000000000000000000.log", "--max-bytes"],
    ],
)
@pytest.mark.parametrize("number", [_TOO_LARGE, _TOO_LARGE * 200])
def test_a_number_that_no_log_holds_is_a_usage_error(arguments, number, golden, run):
    path = str(golden / "logs/kafka-4.1/codec-zstd-0")
    result = run(*(argument.replace("{}", path) for argument in arguments), number)
    assert (result.code, result.out) == (2, "")
    assert f"Invalid value for '{arguments[-1]}'" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["read", "--limit"],
        ["read", "--end-timestamp"],
        ["compact", "--dry-run", "--drop-null-keys", "--delete-retention-ms"],
        ["compact", "--dry-run", "--drop-null-keys", "--min-compaction-lag-ms"],
        ["compact", "--dry-run", "--drop-null-keys", "--memory"],
        ["retain", "--dry-run", "--retention-ms"],
        ["retain", "--dry-run", "--retention-bytes"],
    ],
)
def test_the_largest_number_is_a_number(arguments, golden, run):
    verb, *options = arguments
    assert run(verb, golden / "logs/kafka-4.1/codec-zstd-0", *options, 2**63 - 1).code == 0


@pytest.mark.parametrize("verb", [[], ["ls"], ["read"], ["dump"], ["offsets"]])
def test_help_teaches_by_examples(verb, run):
    result = run(*verb, "--help")
    assert result.code == 0
    assert result.out.count("\n  brokerless ") >= 3


def test_version(run):
    assert run("--version").out.startswith("brokerless, version ")


def test_a_warning_is_one_line_without_python_in_it(copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "codec-zstd-0")
    (root / "log-start-offset-checkpoint").write_text("garbage\n")
    result = run("read", root, "--limit", "1")
    assert (result.code, result.out.count("\n"), result.err.count("\n")) == (0, 1, 2)
    assert "hint: run `brokerless repair`" in result.err
    assert result.err.startswith("warning: ")
    assert "log-start-offset-checkpoint" in result.err
    assert ".py" not in result.err


def test_a_column_that_is_no_bytes(run, tmp_path):
    pq.write_table(pa.table({"key": [1.5], "value": ["v"]}), tmp_path / "rows.parquet")
    result = run("produce", tmp_path / "data", "--topic", "t", "--input", tmp_path / "rows.parquet")
    assert (result.code, result.err) == (
        2,
        "brokerless: column key has type double, expected binary or string: cast it first\n",
    )


def fail(error):
    def _run(_arguments):
        raise error

    return _run


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "brokerless: not enough memory\n"),
        (pa.ArrowNotImplementedError("no such cast"), "brokerless: no such cast\n"),
        (AttributeError("no such thing"), "unexpected AttributeError"),
        (OverflowError("too large"), "unexpected OverflowError"),
    ],
)
def test_whatever_fails_is_no_traceback(error, message, run, monkeypatch):
    monkeypatch.setattr(command, "_run", fail(error))
    result = run("ls")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err
    assert "Traceback" not in result.err


def test_what_an_interrupt_came_to_is_an_interrupt(run, monkeypatch):
    error = OSError("the connection that it was to be stopped by is gone")
    error.__context__ = KeyboardInterrupt()
    monkeypatch.setattr(command, "_run", fail(error))
    assert run("ls") == (130, "", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("verb", ["ls", *(pytest.param(verb, marks=pytest.mark.slow) for verb in ("read", "dump"))])
def test_closed_streams_do_not_matter(closed, verb, golden):
    path = golden / "logs/kafka-4.1/codec-zstd-0"
    arguments = {"ls": [path], "read": [path, "--bytes", "utf8"], "dump": [path / f"{0:020}.log"]}[verb]
    command = [sys.executable, "-m", "brokerless", verb, *arguments]
    result = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *command], capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert (result.stdout == b"") == (closed != "2>&-")


def test_what_cannot_be_told_is_told_by_the_exit_code(golden):
    command = [sys.executable, "-m", "brokerless", "read", golden / "logs/kafka-4.1", "--bytes", "utf8"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
        assert (result.returncode, result.stderr) == (2, b"brokerless: [Errno 28] No space left on device\n")
        assert subprocess.run([*command, "--nonsense"], stdout=full, stderr=full, check=False).returncode == 2


@pytest.mark.parametrize("module", ["click", "pyarrow"])
def test_an_interrupt_of_an_import_is_no_traceback(module, golden, tmp_path):
    (tmp_path / module).with_suffix(".py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nsignal.raise_signal(signal.SIGINT)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "brokerless", "read", golden / "logs/kafka-4.1"]
    result = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (128 + signal.SIGINT, b"", b"")


def test_messages_name_options_as_they_are_typed(run, tmp_path):
    """Another verb may have the same option under another name, and a file may have the name of an option."""
    assert as_flag("sole_replica") == "--sole-replica"
    assert as_flag("on_corrupt", "skip") == "--on-corrupt skip"
    assert as_flag("next_producer_id") == "next_producer_id"
    data = tmp_path / "sole_replica"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t")
    # As in a directory that a cluster was started on.
    (data / "bootstrap.checkpoint").unlink()
    pq.write_table(pa.table({"value": ["v"]}), tmp_path / "rows.parquet")
    result = run("produce", data, "--topic", "t", "--input", tmp_path / "rows.parquet")
    assert f"{data} belongs to cluster" in result.err
    assert "If no other replica matters, give --sole-replica" in result.err


def test_a_message_that_is_shown_elsewhere_names_options_as_they_are_typed_too(run, copied):
    """What a comparison says of damage."""
    root = copied("kafka-4.1", "codec-none-0", "codec-zstd-0")
    damaged = root.parent / "damaged"
    shutil.copytree(root, damaged)
    flip_bit(min((damaged / "codec-none-0").glob("*.log")), 100)
    result = run("check", root, "--against", damaged)
    assert "(--on-corrupt skip)" in result.out
    assert "on_corrupt" not in result.out + result.err


@pytest.mark.parametrize("option", ["--read-log", "--commits"])
def test_no_file_named_dash_is_made(tmp_path, run, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "data", "t", [(b"k", b"v")])
    result = run("serve", "data", "--listen", "127.0.0.1:0", option, "-")
    assert result.code == 2
    assert f"{option}': this option does not accept - for stdin or stdout: name a file" in result.err
    assert not os.path.exists("-")


def test_a_note_is_printed_once_and_agrees_with_the_cure(tmp_path, run):
    """Each object that reads the file has the doubt."""
    write_records(tmp_path, "__consumer_offsets", [(b"k", b"v")])
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=x\n")
    for verb in (["serve", "--as-of", "nonsense"], ["producers"], ["recover", "--dry-run"], ["ls"], ["transactions"]):
        result = run(verb[0], tmp_path, *verb[1:])
        assert result.err.count("the file is ignored") <= 1
        assert "move it aside" not in result.out + result.err
    assert "the file is ignored" in run("recover", tmp_path, "--dry-run").err
    assert "hint: write it again with version, cluster.id, node.id" in run("recover", tmp_path, "--dry-run").err


def test_one_note_is_printed_once(tmp_path, run, monkeypatch):
    def twice(*_, **__):
        for _ in range(2):
            note("the same doubt")
        return []

    monkeypatch.setattr("brokerless.state.groups.group_rows", twice)
    write_records(tmp_path, "t", [(b"k", b"v")])
    assert run("groups", tmp_path).err == "warning: the same doubt\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["repair", IN_A_STORE, "--output", "new"],
        ["repair", "{}", "--from", IN_A_STORE, "--output", "new"],
        ["rescue", IN_A_STORE, "--output", "new"],
    ],
)
def test_what_is_in_a_store_is_to_be_copied(tmp_path, run, arguments):
    result = run(*[one.format(tmp_path) for one in arguments])
    assert result.code == 2
    assert (
        f"{IN_A_STORE} is in an object store, which brokerless only reads: copy it to a local directory" in result.err
    )


@pytest.mark.parametrize(
    "arguments",
    [["repair", "{}", "--output", IN_A_STORE], ["read", "{}", "--output", IN_A_STORE], ["recover", IN_A_STORE]],
)
def test_what_goes_to_a_store_is_written_locally_first(golden, run, arguments):
    result = run(*[one.format(golden / "logs/kafka-4.1") for one in arguments])
    assert result.code == 2
    way = (
        "copy it to a local directory"
        if arguments[0] == "recover"
        else "name a local path, and copy the result from there"
    )
    assert f"{IN_A_STORE} is in an object store, which brokerless only reads: {way}" in result.err


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["repair", "{}", "--to", "new"], "--to is now --output"),
        (["rescue", "{}", "--to=new"], "--to is now --output"),
        (["groups", "{}", "--at", "2024-05-01"], "--at is now --as-of"),
        (["rescue", "{}", "--until", "2024-05-01"], "--until is now --as-of for a time, --end-offset for an offset"),
        (["serve", "{}", "--until", "4"], "--until is now --as-of for a time, --end-offset for an offset"),
        (["serve", "{}", "--isolation", "read_committed"], "--isolation is now --isolation-level"),
        (["serve", "{}", "--max-memory", "128"], "--max-memory is now --memory"),
    ],
)
def test_an_option_that_was_renamed_names_the_new_one(golden, run, arguments, answer):
    result = run(*[one.format(golden / "logs/kafka-4.1") for one in arguments])
    assert result.code == 2
    assert f"\nbrokerless: {answer}\n" in result.err


def test_a_directory_that_cannot_be_written_says_that_nothing_was_changed(tmp_path, run, copied):
    path = copied("kafka-4.1")
    with mock.patch.object(disk, "create", side_effect=OSError(errno.EROFS, "Read-only file system", f"{path}/.lock")):
        result = run("recover", path)
    assert result.code == 2
    assert f"brokerless: Read-only file system: {path}/.lock\n" in result.err
    assert "nothing was changed, because the directory could not be locked" in result.err


def test_one_thing_has_no_plural(tmp_path, run):
    write_records(tmp_path / "data", "t", [(b"k", b"v")])
    assert "1 of 1 partition would be repaired" in run("repair", tmp_path / "data", "--dry-run").err
    options = ["--retention-bytes", "1", "--cleanup-policy", "delete", "--dry-run"]
    assert "of 1 segment would be deleted" in run("retain", tmp_path / "data/t-0", *options).out


def test_a_copy_that_cannot_be_made_is_named_as_given(run, monkeypatch, tmp_path):
    """The error named a hidden directory beside it: `ro/x-0.f3b6...-delete`."""
    copied = shutil.copytree("examples/incident", tmp_path / "data")
    (copied / "replication-offset-checkpoint").write_text("x")
    make = disk.make_directory

    def make_if_allowed(path, access=None):
        if path.endswith("-delete"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        make(path, access)

    monkeypatch.setattr(disk, "make_directory", make_if_allowed)
    result = run("repair", copied, "--output", tmp_path / "ro")
    assert result.code == 2
    assert f"brokerless: Permission denied: {tmp_path}/ro\n" in result.err
    assert "-delete" not in result.err


def test_a_checkpoint_that_is_written_again_says_what_is_lost(run, tmp_path):
    copied = shutil.copytree("examples/incident", tmp_path / "data")
    (copied / "replication-offset-checkpoint").write_text("x")
    assert (
        "write replication-offset-checkpoint again, because it cannot be read: its high watermarks are lost, and a "
        "broker determines them again\n"
    ) in run("repair", copied, "--dry-run").out


def test_a_path_in_the_place_of_a_view_is_answered_with_the_views(golden, run):
    result = run("cluster", golden / "logs/kafka-4.1")
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()][:3] == ["brokers", "controllers", "topics"]
    assert result.err == f"next: brokerless cluster topics {golden / 'logs/kafka-4.1'}\n"


def test_a_port_that_is_taken_is_said_with_the_option(golden, run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("serve", golden / "logs/kafka-4.1", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert result.code == 2
    assert "cannot listen" in result.err
    assert "choose another address with --listen HOST:PORT" in result.err


def test_partitions_alone_lack_no_ids_of_a_broker(golden, run, tmp_path):
    shutil.copytree(golden / "logs/kafka-4.1/codec-none-0", tmp_path / "parts/codec-none-0")
    result = run("ls", tmp_path / "parts")
    assert (result.code, "does not start" in result.err) == (0, False)
