"""Errors say what, where and what next, and survive the way from a worker to its driver."""

import pickle

import pytest

import brokerless as bl
from brokerless import _native, errors
from brokerless.arguments import unknown, unknown_partition
from brokerless.cli.command import as_flag
from brokerless.errors import located
from brokerless.wording import python, spark, worded_for


def test_a_message_names_file_position_and_offset_before_the_details():
    error = bl.errors.CorruptRecordError("record batch crc mismatch: stored 1, computed 2", position=7, base_offset=3)
    with pytest.raises(bl.errors.CorruptRecordError) as caught, located("/data/t-0/00000000000000000000.log"):
        raise error
    first, hint = str(caught.value).splitlines()
    assert first == (
        "record batch crc mismatch at /data/t-0/00000000000000000000.log:7 (base_offset 3): stored 1, computed 2"
    )
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("error_class", [bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError])
def test_what_is_wrong_with_a_log_comes_with_what_can_be_done_in_the_words_of_each_face(error_class):
    """Somebody at the command line cannot type an argument of Python, nor an option of Spark."""
    error = error_class("x", path="00000000000000000000.log")
    words = {python: '(on_corrupt="skip")', spark: '(.option("onCorrupt", "skip"))', as_flag: "(--on-corrupt skip)"}
    for face, expected in words.items():
        with worded_for(face):
            what, hint = str(error).splitlines()
        assert (what, expected in hint) == ("x at 00000000000000000000.log", True)
        assert error.remedy.worded(face) == hint.removeprefix("hint: ")
    assert words[python] in str(error)
    error.face = spark
    assert words[spark] in str(pickle.loads(pickle.dumps(error)))


def test_the_advice_about_a_batch_that_is_too_large_can_be_followed(tmp_path):
    with bl.Producer(tmp_path / "d", "t", compression="zstd") as producer:
        producer.send([{"value": bytes(4096)}])
    log = f"t-0/{0:020d}.log"
    with pytest.raises(bl.errors.UnsupportedFormatError) as caught:
        _native.Decoder(["value"], max_batch_bytes=1000).decode((tmp_path / "d" / log).read_bytes(), 0)
    what, _, advice = str(caught.value).partition(": ")
    assert what.startswith("batch decompresses to more than max_batch_bytes (1000) at")
    assert advice.startswith('Conversion(compression="none") in Python, with a larger max_batch_bytes')
    bl.rewrite(
        bl.Conversion(compression="none", max_batch_bytes=5000), tmp_path / "d", topics=["t"], output=tmp_path / "copy"
    )
    content = (tmp_path / "copy" / log).read_bytes()
    rows, _ = _native.Decoder(["value"], max_batch_bytes=1000).decode(content, 0)
    assert rows["value"].to_pylist() == [bytes(4096)]


def test_the_innermost_path_stays():
    with pytest.raises(bl.errors.CorruptRecordError) as caught, located("outer"), located("inner"):
        raise bl.errors.CorruptRecordError("x")
    assert caught.value.path == "inner"


def test_no_hint_about_batches_where_there_are_none():
    assert str(bl.errors.CorruptRecordError("index: 'x'", path="0.index")) == "index at 0.index: 'x'"
    said, hint = str(
        bl.errors.CorruptRecordError("not an int32: 'x'", path="d/t-0/leader-epoch-checkpoint")
    ).splitlines()
    assert said == "not an int32 at d/t-0/leader-epoch-checkpoint: 'x'"
    assert hint == "hint: run `brokerless repair`, or remove the file: a broker rebuilds it from the batches"


@pytest.mark.parametrize(
    "error",
    [
        bl.errors.CorruptRecordError("crc: 1", path="p", position=1, base_offset=2, next_position=3),
        bl.errors.UnsupportedFormatError("magic", position=1),
        bl.errors.OffsetOutOfRangeError("offset 9", log_start_offset=1, log_end_offset=5),
        errors.LogInUseError("locked"),
        errors.AppendError("unknown", position=1),
        errors.InvalidTimestampError("record 1", position=0, base_offset=0, record_errors=[(1, "too old")]),
    ],
)
def test_errors_are_pickled_with_all_they_say(error):
    if isinstance(error, errors.AppendError):
        error.log = "orders-1"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_unknown_name_comes_with_the_nearest_or_with_what_there_is():
    assert str(unknown("topic", "ordres", ["orders"])) == "unknown topic 'ordres': did you mean 'orders'?"
    assert str(unknown("topic", "x", [])) == "unknown topic 'x': there is none"
    assert str(unknown("column", "zz", "aaaa")) == "unknown column 'zz': there is a"
    assert str(unknown("topic", "zzz", "abcdefghi")) == "unknown topic 'zzz': there are a, b, c, d, e, f, g, h, i"
    listed = "unknown topic 'zzz': there are a, b, c, d, e, f, g, h and 2 others; `brokerless ls` lists them"
    assert str(unknown("topic", "zzz", "abcdefghij")) == listed


@pytest.mark.parametrize(
    ("known", "there_are"),
    [
        ([], "is none"),
        ([3], "is 3"),
        ([10, 9, 0, 2, 1], "are 0 to 2, 9 to 10"),
        (range(0, 20, 2), "are 0, 2, 4, 6, 8, 10, 12, 14, ..."),
    ],
)
def test_an_unknown_partition_comes_with_those_there_are(known, there_are):
    """By number, and not the one that is spelt alike."""
    assert str(unknown_partition(77, known)) == f"unknown partition 77: there {there_are}"
