"""Samples are the records at both ends of a log, as short text that does nothing."""

import pytest

import brokerless as bl
from brokerless.reporting import samples
from support import damage
from support.log_files import batch, write_segment
from support.state_records import commit_key, commit_value, write_records

HOSTILE = "</script><script>alert(1)</script>\u202e\x9b"


def found(path, number=2):
    return bl.report(path, samples=number).tables["samples"].to_pylist()


def test_both_ends_of_a_log(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v%d" % at], keys=[b"k"]) for at in range(10)])
    rows = found(tmp_path)
    assert [(row["place"], row["offset"], row["value"]) for row in rows] == [
        ("first", 0, "v0"),
        ("first", 1, "v1"),
        ("latest", 8, "v8"),
        ("latest", 9, "v9"),
    ]


@pytest.mark.parametrize("count", range(6))
def test_a_short_log_shows_each_record_once(tmp_path, count):
    write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"]) for at in range(count)])
    offsets = [row["offset"] for row in found(tmp_path)]
    assert offsets == (list(range(count)) if count <= 4 else [0, 1, 3, 4])


def test_the_latest_records_of_a_compacted_log(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(at * 1000, [b"v"], keys=[b"%d" % at]) for at in range(10)])
    assert [row["key"] for row in found(tmp_path)] == ["0", "1", "8", "9"]


def test_damage_does_not_stop_the_report(tmp_path):
    log = write_segment(tmp_path / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])
    damage.flip_bit(log, 30)
    assert [row["offset"] for row in found(tmp_path)] == [8, 9]


def test_bytes_that_are_no_text_are_digits(tmp_path):
    values = [b"\xff\x01", b"\x00\x00", "ä".encode(), b"", None]
    write_segment(tmp_path / "t-0", 0, [batch(0, values)])
    assert [row["value"] for row in found(tmp_path, 5)] == ["0xff01", "0x0000", "ä", "", None]


@pytest.mark.parametrize("value", [b"x" * (3 << 20), b"\xff" * (3 << 20), "ä".encode() * (1 << 20)])
def test_a_large_value_is_cut(tmp_path, value):
    write_segment(tmp_path / "t-0", 0, [batch(0, [value])])
    (row,) = found(tmp_path)
    assert row["value_bytes"] == len(value)
    assert len(row["value"]) <= 201
    assert row["value"].endswith("…")


def test_foreign_text_is_text(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [HOSTILE.encode()], keys=[HOSTILE.encode()])])
    html = bl.report(tmp_path, samples=1).html
    assert html.count("<script>") == 1
    assert "\u202e" not in html
    assert "\x9b" not in html


def test_topics_that_may_hold_credentials_have_none(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(0))])
    assert {row["topic"] for row in found(tmp_path)} == {"t"}


def test_few_partitions_have_samples_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "MOST_PARTITIONS", 3)
    for topic in ("t", "u"):
        for partition in range(3):
            write_segment(tmp_path / f"{topic}-{partition}", 0, [batch(0, [b"v"])])
    made = bl.report(tmp_path, samples=1)
    places = {(row["topic"], row["partition"]) for row in made.tables["samples"].to_pylist()}
    assert places == {("t", 0), ("u", 0), ("t", 1)}
    assert "3 partitions of 6 have samples" in made.html


def test_without_the_option_no_record_is_shown(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"secret"])])
    made = bl.report(tmp_path)
    assert made.tables["samples"].num_rows == 0
    assert "secret" not in made.html


@pytest.mark.parametrize("number", [-1, 21])
def test_the_number_is_bounded(tmp_path, number):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"v"])])
    with pytest.raises(ValueError, match="expected 0 to 20"):
        bl.report(tmp_path, samples=number)
