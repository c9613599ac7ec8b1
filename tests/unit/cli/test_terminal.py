"""Other people's bytes do nothing to a terminal. Those of records reach a pipe unchanged; no name makes up a line."""

import errno
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata

import pytest

import brokerless as bl
from brokerless.cli.terminal import escaped

WILD = "\x1b[2Jé\x9b31m\x7f\n\r\x07\x00"
WRITTEN_OUT = "\\u001B[2Jé\\u009B31m\\u007F"


@pytest.fixture
def data(tmp_path):
    with bl.Producer(tmp_path / "data", "t") as producer:
        row = {"key": WILD.encode(), "value": WILD.encode(), "headers": [(WILD, WILD.encode())]}
        producer.send([row, {"value": b"\x9b31m\xff"}])
    return tmp_path / "data"


def on_a_terminal(*arguments, **environment):
    """Return what the command writes to a terminal, stdout and stderr; without colour, unless `NO_COLOR` is empty."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "brokerless", *map(os.fspath, arguments)],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"} | environment,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError as error:
        # On Linux a terminal that the last process has left ends so.
        if error.errno != errno.EIO:
            raise
    process.wait()
    os.close(ours)
    # The terminal makes \r\n of each line end. If the machine is slow, progress comes and is wiped out again.
    shown = shown.replace(b"\r\n", b"\n")
    return re.sub(rb"(\r[^\x00-\x1f]*)+\r", b"", shown).decode(errors="surrogateescape")


def test_the_first_word_has_a_colour_on_a_terminal_only(data):
    log = next(data.glob("t-0/*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    coloured = on_a_terminal("check", data, NO_COLOR="")
    assert re.search(r"^\x1b\[31merror\x1b\[0m batch-cut ", coloured, re.MULTILINE)
    assert "\x1b[32mnext\x1b[0m: brokerless " in coloured
    plain = re.sub(r"\x1b\[[0-9]+m", "", coloured)
    assert on_a_terminal("check", data) == on_a_terminal("check", data, NO_COLOR="", TERM="dumb") == plain
    assert b"\x1b" not in b"".join([in_a_pipe("check", data).stdout, in_a_pipe("check", data).stderr])


def in_a_pipe(*arguments):
    command = [sys.executable, "-m", "brokerless", *map(os.fspath, arguments)]
    return subprocess.run(command, capture_output=True, check=False)


def is_harmless(text):
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]", text)


def test_json_on_a_terminal_is_the_same_json_without_a_control_character(data):
    shown = on_a_terminal("read", data, "--topic", "t", "--bytes", "utf8")
    assert is_harmless(shown)
    assert WRITTEN_OUT in shown
    piped = in_a_pipe("read", data, "--topic", "t", "--bytes", "utf8").stdout
    assert "\x9b".encode() in piped
    assert b"\x7f" in piped
    assert [json.loads(line) for line in shown.splitlines()] == [json.loads(line) for line in piped.splitlines()]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dump_on_a_terminal(data, form):
    log = data / "t-0/00000000000000000000.log"
    options = ["--records", "--json"] if form == "json" else ["--print-data-log"]
    shown = on_a_terminal("dump", log, *options)
    assert is_harmless(shown)
    assert shown.count(WRITTEN_OUT) == (3 if form == "text" else 4)
    if form == "text":
        # A line a batch or a record: no payload makes up one of its own.
        assert len(shown.splitlines()) == 5
        assert WILD.encode() in in_a_pipe("dump", log, *options).stdout


@pytest.mark.slow
def test_names_on_a_terminal(data):
    odd = data / "odd\x1b[2J\nt-1\t99-0"
    odd.mkdir()
    (odd / f"{0:020}.log").touch()
    for verb, escape in (
        (["offsets", data, "--timestamp", "latest"], r"\x1b"),
        (["ls", data], r"\x1b"),
        (["ls", data, "--json"], r"\u001b"),
    ):
        shown = on_a_terminal(*verb)
        assert is_harmless(shown)
        assert rf"odd{escape}[2J\nt-1\t99-0" in shown
        assert not any(line.startswith("t-1\t") for line in shown.splitlines())
    assert rb"odd\x1b[2J\nt-1\t99-0" + b"\t0\n" in in_a_pipe("offsets", data, "--timestamp", "latest").stdout
    assert rb"odd\x1b[2J\nt-1\t99" in in_a_pipe("ls", data).stdout
    shown = on_a_terminal("read", data / "no\x1b]0;such\x07name")
    assert is_harmless(shown)


FORGED = "error batch-crc all-0: everything is lost"


@pytest.mark.slow
def test_a_name_makes_up_no_line_of_text(data):
    """Whatever verb tells of a partition, a file or a directory of that name."""
    topic, file, folder = f"t\n{FORGED} 1", f"x\n{FORGED} 2", f"y\n{FORGED} 3"
    (data / f"{topic}-0").mkdir()
    log = data / f"{topic}-0/{0:020}.log"
    log.write_bytes((data / f"t-0/{0:020}.log").read_bytes()[:-5])
    (data / f"{topic}-0" / file).touch()
    verbs = [
        ("check",),
        ("ls",),
        ("recover", "--dry-run"),
        ("repair", "--dry-run"),
        ("offsets", "--timestamp", "latest"),
    ]
    verbs += [
        ("read", "--topic", topic),
        ("report", "--output", "-"),
        ("rescue", "--dry-run"),
        ("compact", "--dry-run"),
    ]
    verbs += [("profile",), ("estimate",), ("transactions",), ("groups",), ("producers",)]
    for other in (None, folder):
        if other is not None:
            (data / other).mkdir()
        for verb, *options in verbs:
            done = in_a_pipe(verb, data, *options)
            said = (done.stdout + done.stderr).decode(errors="replace")
            assert not [line for line in said.splitlines() if line.startswith("error batch-crc all-0")], (verb, said)


BAD = b"bad\xff-0"
WRITTEN_BAD = rb"bad\udcff-0"


@pytest.fixture
def with_a_bad_name(data):
    bad = os.fsencode(data) + b"/" + BAD
    os.mkdir(bad)
    source = os.fsencode(data) + b"/t-0/00000000000000000000.log"
    with open(source, "rb") as file, open(bad + b"/00000000000000000000.log", "wb") as copy:
        copy.write(file.read())
    return data


@pytest.mark.slow
def test_a_directory_whose_name_is_not_utf_8_is_named_and_keeps_nothing_from_being_read(with_a_bad_name, monkeypatch):
    data = with_a_bad_name
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")
    for verb, code in (
        (["read", data], 0),
        (["offsets", data, "--timestamp", "latest"], 0),
        (["ls", data], 1),
        (["recover", data, "--dry-run"], 0),
        (["recover", data], 0),
    ):
        done = in_a_pipe(*verb)
        assert (done.returncode, WRITTEN_BAD in done.stderr) == (code, True), done.stderr
        assert b"not UTF-8, and a broker does not see it" in done.stderr
        assert BAD not in done.stdout + done.stderr
    assert bl.LogDirFiles(str(data)).is_clean
    assert sorted(name for name in os.listdir(data) if "aside" in name) == []
    shown = on_a_terminal("read", data)
    assert is_harmless(shown)
    assert "bad\\udcff-0" in shown


def test_a_log_directory_of_any_name(data, tmp_path):
    moved = os.fsencode(tmp_path) + b"/d\xff"
    os.rename(data, moved)
    done = in_a_pipe("read", moved)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    done = in_a_pipe("read", moved + b"/t-7")
    assert (done.returncode, b"does not exist" in done.stderr) == (2, True)


TURNED = "x\u202ey\u2028z\u200b\x85"


@pytest.mark.slow
def test_no_character_that_does_not_show_reaches_a_line_of_text(data):
    """A mark of direction turns a line around, U+2028 ends it, and 0x9b alone begins a sequence on some terminals."""
    names = [os.fsencode(name) for name in (TURNED, f"{TURNED}-0")] + [b"b\x9b31m", b"b\x9b31m-0", b"t-0/b\x9b31m"]
    for name in names:
        os.mkdir(os.fsencode(data) + b"/" + name)
    missing = os.fsencode(data) + b"/none\x9b\xe2\x80\xae"
    verbs = [("check", "--all"), ("check", "--deep"), ("ls",), ("recover", "--dry-run"), ("repair", "--dry-run")]
    verbs += [("rescue", "--dry-run"), ("groups",), ("transactions",), ("producers",), ("dump",)]
    for path in (data, missing):
        for verb, *options in verbs:
            done = in_a_pipe(verb, *options, path)
            said = (done.stdout + done.stderr).decode(errors="surrogateescape")
            assert all(one.isprintable() for one in said.replace("\n", "").replace("\t", "")), (verb, said)
            assert "unexpected" not in said, said
            # One way of writing them out in a line: that of Python.
            assert not re.search(r"\\x[89a-f]|\\u00|\\u[0-9A-F]*[A-F]", said.replace(r"\x85", "")), (verb, said)


def test_every_format_character_is_escaped_on_a_terminal():
    """Of the Unicode that this Python knows."""
    wanted = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    shown = {one: escaped(one) for one in wanted if one not in "\n\t"}
    assert [one for one, text in shown.items() if one == text] == []
    assert all(json.loads(f'"{text}"') == one for one, text in shown.items())
