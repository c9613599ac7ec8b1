"""`erase`: keys however they are given, a report that proves it, and a warning about what it does not reach."""

import base64
import json
import os

import pytest

import brokerless as bl
from support.log_files import NOW, batch

KEYS = [b"anna", b"bert", b"\xff\x00", b"anna-2"]


@pytest.fixture
def data(tmp_path):
    """Topic t: a record of each key."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append_as_follower(batch(0, [b"v"] * len(KEYS), keys=KEYS, timestamp=NOW))
    return tmp_path / "data"


def rows(data):
    return [
        tuple(row.values()) for part in bl.Log(data / "t-0").read(columns=["key", "value"]) for row in part.to_pylist()
    ]


def keys(data):
    return [key for key, _ in rows(data)]


def test_in_place_with_a_report_and_a_warning(data, run):
    result = run("erase", data, "--topic", "t", "--key", "anna", "--key", "nobody", "--in-place")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[:3] == [
        "t-0: 1 of 4 records erased (5 bytes)",
        "t-0: 1 of 1 segment replaced",
        "t-0: offsets 0",
    ]
    assert lines[3].startswith("t-0: selection sha256 ")
    # The metadata of the new cluster name one node.
    assert "replicas" not in result.err
    assert keys(data) == KEYS[1:]


def test_other_brokers_may_have_what_was_erased_where_nothing_says_that_there_is_none(data, run):
    (data / "bootstrap.checkpoint").unlink()
    result = run("erase", data, "--topic", "t", "--key", "anna", "--in-place")
    assert "replicas on other brokers may still have these records" in result.err
    result = run("erase", data, "--topic", "t", "--key", "anna", "--in-place", "--sole-replica")
    assert "replicas" not in result.err


@pytest.mark.parametrize("is_ours", [True, False])
def test_produce_and_erase_agree_on_other_replicas(is_ours, tmp_path, run):
    """A directory that no cluster has taken yet has none, and one of which nothing is known may have some."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"key": "anna", "value": "1"}')
    with bl.create_log_dir(tmp_path / "d", kraft=False) as log_dir:
        log_dir.create_topic("t")
    if not is_ours:
        (tmp_path / "d/meta.properties").unlink()
    for verb, options in (("produce", ["--input", rows]), ("erase", ["--key", "a", "--in-place"])):
        assert ("replicas" in run(verb, tmp_path / "d", "--topic", "t", *options).err) == (not is_ours)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"anna\r\nbert\n\n", "utf8"),
        (b"\xef\xbb\xbf616e6e61\n62657274", "hex"),
        (b"\xef\xbb\xbfYW5uYQ==\nYmVydA==", "base64"),
    ],
)
def test_a_file_of_keys_a_line_each(data, run, tmp_path, content, form):
    (tmp_path / "keys").write_bytes(content)
    options = ["--keys-from", tmp_path / "keys", "--bytes", form, "--in-place", "--json"]
    result = run("erase", data, "--topic", "t", *options)
    report = json.loads(result.out)
    assert (report["erased_records"], report["offset_ranges"], report["remaining_records"]) == (2, [[0, 1]], 0)
    assert keys(data) == KEYS[2:]


def test_a_byte_order_mark_that_may_be_a_keys_is_not_guessed_about(data, run, tmp_path):
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbfanna\n")
    result = run("erase", data, "--topic", "t", "--keys-from", tmp_path / "keys", "--in-place")
    assert result.code == 2
    assert "begins with a byte order mark. Remove the mark" in result.err
    assert keys(data) == KEYS


def test_a_dry_run_proves_nothing(data, run):
    result = run("erase", data, "--topic", "t", "--key", "anna", "--dry-run", "--json")
    report = json.loads(result.out)
    assert (report["erased_records"], report["remaining_records"]) == (1, None)


@pytest.mark.parametrize(("form", "key"), [("hex", "ff00"), ("base64", base64.b64encode(b"\xff\x00").decode())])
def test_keys_that_are_no_text(data, run, form, key):
    assert run("erase", data, "--topic", "t", "--key", key, "--bytes", form, "--in-place").code == 0
    assert keys(data) == [b"anna", b"bert", b"anna-2"]


def test_blank(data, run):
    result = run("erase", data, "--topic", "t", "--key-prefix", "anna", "--blank", "--in-place")
    assert result.out.splitlines()[0] == "t-0: 2 of 4 records lost their value (2 bytes)"
    assert rows(data) == [(b"anna", b""), (b"bert", b"v"), (b"\xff\x00", b"v"), (b"anna-2", b"")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to erase: one of --key, --keys-from, --key-prefix, --header is needed"),
        (["--header", "user"], "'user' is not a header: give NAME=VALUE"),
        (["--key", "xyz", "--bytes", "hex"], "'xyz' is not hex"),
    ],
)
def test_refused(data, run, options, message):
    result = run("erase", data, "--topic", "t", "--in-place", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert keys(data) == KEYS


@pytest.mark.parametrize("option", ["--key", "--key-prefix"])
def test_a_key_that_is_no_text_is_taken_as_the_shell_gives_it(option, data, run):
    key = os.fsdecode(KEYS[2])
    assert run("erase", data, "--topic", "t", option, key, "--in-place").code == 0
    assert keys(data) == [KEYS[0], KEYS[1], KEYS[3]]


def test_a_key_that_is_no_text_is_explained(data, run):
    result = run("compact", data, "--explain", os.fsdecode(KEYS[3][:4] + b"\xff"), "--topic", "t")
    assert (result.code, "hexadecimal" in result.err) == (0, False)


def test_bytes_that_cannot_be_name_their_option(run, tmp_path):
    with bl.Producer(tmp_path / "d", "t") as producer:
        producer.send([{"value": b"x"}])
    options = ("erase", tmp_path / "d", "--topic", "t", "--dry-run", "--bytes", "hex")
    for name, value in {"--key": "zz", "--key-prefix": "zz", "--header": "h=zz"}.items():
        refused = run(*options, name, value)
        assert refused.code == 2
        assert f"Invalid value for {name}: 'zz' is not hex" in refused.err
    refused = run("compact", tmp_path / "d", "--explain", "zz", "--topic", "t", "--bytes", "hex")
    assert "Invalid value for --explain: 'zz' is not hex" in refused.err
