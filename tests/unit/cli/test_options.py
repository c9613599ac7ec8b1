"""Times as people write them, and progress that only a person sees."""

import io
import sys

import click
import pytest

from brokerless.cli import options
from brokerless.cli.options import Progress, moment

NOON = 1_700_049_600_000
"""2023-11-15T12:00Z."""


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1700000000123", 1700000000123),
        ("2023-11-14T22:13:20.123Z", 1700000000123),
        ("2023-11-14T22:13:20.123", 1700000000123),
        ("2023-11-15T00:13:20.123+02:00", 1700000000123),
        ("2023-11-14", 1699920000000),
        ("1970-01-01T00:00:00.001Z", 1),
        ("20231114", 20231114),
        ("2023-11-14T22:13:20.123001Z", 1700000000124),
        ("2023-11-14T23:59:59.999999", 1700006400000),
        ("latest", -1),
    ],
)
def test_times(text, milliseconds):
    assert moment(latest=-1)(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("now", 0),
        ("-0s", 0),
        ("-250ms", 250),
        ("-90s", 90_000),
        ("-30m", 1_800_000),
        ("-1h", 3_600_000),
        ("-2d", 172_800_000),
        ("-1w", 604_800_000),
    ],
)
def test_times_before_now(monkeypatch, text, ago):
    monkeypatch.setattr("brokerless.io.clock.now_ms", lambda: NOON)
    assert moment()(text) == NOON - ago


@pytest.mark.parametrize(("text", "start"), [("today", 1_700_006_400_000), ("yesterday", 1_699_920_000_000)])
def test_days_begin_at_midnight_in_utc(monkeypatch, text, start):
    monkeypatch.setattr("brokerless.io.clock.now_ms", lambda: NOON)
    assert moment()(text) == start


@pytest.mark.parametrize("text", ["-1", "-1y", "--1h", "- 1h", "-99999w"])
def test_what_is_no_time_before_now(text):
    if text == "-1":
        # Kafka gives negative numbers a meaning of their own.
        assert moment()(text) == -1
    else:
        with pytest.raises(click.BadParameter, match=r"ISO 8601|before 1970"):
            moment()(text)


@pytest.mark.parametrize("text", ["", "noon", "14.11.2023", "2023-11-14T25:00", "1e3"])
def test_what_is_no_time(text):
    with pytest.raises(click.BadParameter, match="ISO 8601"):
        moment()(text)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1700000000", "seconds"),
        ("9999999999", "seconds"),
        ("1700000000000000", "microseconds"),
        ("1700000000000000000", "nanoseconds"),
    ],
)
def test_a_time_in_another_unit_is_refused(text, unit):
    """A rescue up to 1970-01-20 would be an empty cluster."""
    with pytest.raises(click.BadParameter, match=f"{text} looks like {unit}: give ms"):
        moment()(text)
    assert moment()(str(options.LONG_MAX)) == options.LONG_MAX


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress_of(monkeypatch, out, err, *, prints=True):
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(options, "_PROGRESS_SECONDS", 0)
    with Progress(prints=prints) as progress:
        progress("10 records")
        progress("9")
    return err.getvalue()


def test_progress_overwrites_itself_and_leaves_nothing(monkeypatch):
    said = progress_of(monkeypatch, io.StringIO(), Terminal())
    assert "10 records" in said
    assert said.endswith("\r")
    assert said.rpartition("\r")[0].rpartition("\r")[2].strip() == ""


def test_no_progress_where_nobody_looks_or_data_is_shown(monkeypatch):
    assert progress_of(monkeypatch, io.StringIO(), io.StringIO()) == ""
    assert progress_of(monkeypatch, Terminal(), Terminal()) == ""


def test_progress_is_not_hidden_from_a_person_whose_rows_go_to_a_file(monkeypatch):
    assert "10 records" in progress_of(monkeypatch, Terminal(), Terminal(), prints=False)
