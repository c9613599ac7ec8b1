"""`convert`: what is asked for, what is refused, and what other forms would take."""

import json

import pytest

import brokerless as bl
from brokerless import _native
from support.log_files import NOW, batch, marker


@pytest.fixture
def data(tmp_path):
    """Topic t with two plain records, topic x with a committed one."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.create_topic("x")
        log_dir.log("t", 0).append_as_follower(batch(0, [b"a" * 500, b"b" * 500], timestamp=NOW))
        of = {"producer_id": 7, "timestamp": NOW}
        log = log_dir.log("x", 0)
        log.append_as_follower(batch(0, [b"a"], base_sequence=0, transactional=True, **of))
        log.append_as_follower(marker(1, 7, commit=True, timestamp=NOW))
    return tmp_path / "data"


def batches(directory):
    return _native.scan((directory / f"{0:020d}.log").read_bytes(), check_crcs=True)[0].to_pylist()


def values(path):
    return [value for rows in bl.Log(path).read() for value in rows["value"].to_pylist()]


def test_in_place(data, run):
    result = run("convert", data, "--topic", "t", "--compression", "zstd", "--in-place")
    assert (result.code, result.err.splitlines()) == (0, ["1 partition done in place"])
    before, after = 1079, batches(data / "t-0")[0]["size"]
    assert result.out.splitlines() == [
        "t-0: 1 of 1 batches converted",
        f"t-0: {before:,} bytes became {after:,} ({after / before:.0%})",
        "t-0: 1 of 1 segment replaced by 1",
        "t-0: settings: segment_bytes=1073741824, compression_zstd_level=3 (default)",
    ]
    assert batches(data / "t-0")[0]["compression"] == "zstd"
    assert values(data / "t-0") == [b"a" * 500, b"b" * 500]


def test_a_log_without_batches_is_said_to_be_empty(tmp_path, run):
    """A broker's start would make the files of such a partition, and so does this."""
    with bl.Producer(tmp_path / "data", "t", partitions=2) as producer:
        producer.send([{"key": b"k", "value": b"v", "partition": 0}])
    result = run("convert", tmp_path / "data", "--topic", "t", "--compression", "zstd", "--in-place")
    assert result.code == 0
    assert result.out.splitlines()[-1] == "t-1: nothing to convert: the log has no batches"
    assert "t-1: first, as when a broker starts: write 00000000000000000000.log (0 bytes)" in result.err


def test_a_dry_run_of_a_copy_makes_none_and_a_copy_of_some_partitions_is_no_data_directory(data, run, tmp_path):
    copied = ("convert", data, "--topic", "t", "--compression", "zstd", "--output", tmp_path / "new")
    assert "would be converted" in run(*copied, "--dry-run").out
    assert not (tmp_path / "new").exists()
    done = run(*copied)
    assert (done.code, done.err.splitlines()[0]) == (0, f"1 partition written to {tmp_path / 'new'}")
    assert f"note: {tmp_path / 'new'} has 1 of the 2 partitions in {data}. A broker that starts there" in done.err
    assert "note" not in run(*copied[:3], "*", *copied[4:-1], tmp_path / "all", "--drop", "producers").err


def test_what_would_be_lost_is_refused_and_then_told(data, run, tmp_path):
    arguments = ("convert", data, "--topic", "x", "--magic", 1)
    refused = run(*arguments, "--output", tmp_path / "new")
    assert (refused.code, refused.out) == (2, "")
    assert "the batch at offset 0 is of producer 7, which magic 1 cannot store: drop producers" in refused.err
    assert not (tmp_path / "new").exists()
    done = run(*arguments, "--drop", "producers", "--output", tmp_path / "new", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert (report["dropped_producers"], report["dropped_control_batches"]) == (1, 1)
    assert values(tmp_path / "new" / "x-0") == [b"a"]
    assert bl.Log(tmp_path / "new" / "x-0").log_end_offset == 2


def test_an_estimate_says_what_each_form_takes(data, run):
    result = run("convert", data, "--topic", "t", "--estimate", "--json")
    assert result.code == 0
    report = json.loads(result.out)
    assert (report["sampled_records"], report["sampled_bytes"]) == (2, 1079)
    forms = {(form["magic"], form["compression"]): form for form in report["forms"]}
    assert len(forms) == 13
    # One message of format 0 takes 26 bytes around key and value, one of format 1 takes 34.
    metadata = {magic: forms[magic, "none"]["metadata_per_record"] for magic in range(3)}
    assert metadata == {0: 26, 1: 34, 2: (1079 - 1000) / 2}
    assert forms[2, "zstd"]["bytes_per_record"] < 100
    text = run("convert", data / "t-0", "--estimate").out.splitlines()
    assert text[0] == "2 records sampled, 539.5 bytes each; in other forms, and metadata of that:"
    assert text[2].split() == ["none", "526.0", "26.0", "534.0", "34.0", "539.5", "39.5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--in-place"], "nothing to convert: one of --magic, --compression, "),
        (["--compression", "zstd"], "give --output DIR or --in-place, or see with --dry-run"),
        (["--magic", 0, "--compression", "zstd", "--dry-run"], "magic 0 does not support zstd"),
        (["--estimate", "--dry-run"], "--estimate changes nothing"),
    ],
)
def test_refused(data, run, options, message):
    result = run("convert", data, "--topic", "t", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
