"""A segment written to take others' place: its files hold what a recovery would make, and nothing is left behind."""

import pytest

from brokerless.io import storage
from brokerless.layout.topic_config import TopicConfig
from brokerless.rewriting.cleaned_segment import CleanedSegment

LOG = "00000000000000000007.log.cleaned"
NAMES = [f"00000000000000000007.{kind}.cleaned" for kind in ("index", "log", "timeindex")]


@pytest.fixture
def segment(tmp_path):
    return CleanedSegment(str(tmp_path), 7, TopicConfig())


def test_an_empty_segment_has_empty_files_and_no_transaction_index(segment, tmp_path):
    segment.finish(modified_ns=1_500_000_000_000_000_000)
    assert sorted(storage.list_directory(str(tmp_path))) == NAMES
    assert [(tmp_path / name).read_bytes() for name in NAMES] == [b"", b"", b""]
    assert (tmp_path / LOG).stat().st_mtime_ns == 1_500_000_000_000_000_000


def test_what_an_earlier_attempt_left_is_replaced(tmp_path):
    (tmp_path / LOG).write_bytes(b"left")
    CleanedSegment(str(tmp_path), 7, TopicConfig()).finish()
    assert (tmp_path / LOG).read_bytes() == b""


def test_abandoned_leaves_nothing(segment, tmp_path):
    segment.abandon()
    segment.abandon()
    assert storage.list_directory(str(tmp_path)) == []
