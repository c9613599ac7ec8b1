"""Erased records are gone from the files, the others are as they were, and the log is one that a broker loads."""

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.errors import CorruptRecordError, UnsupportedFormatError
from brokerless.layout.topic_config import TopicConfig
from brokerless.rewriting.erase import Erasure, find
from brokerless.rewriting.run import rewrite, rewrite_each
from support.drop_batches import Repeating, headers, written
from support.log_files import NOW, batch, marker

COLUMNS = ["offset", "timestamp", "key", "value", "headers", "producerId", "sequence", "leaderEpoch"]
SECRET = b"what-she-wrote"


def erase(path, verb):
    with LogWriter.open(str(path), config=TopicConfig(), is_clean=True) as log:
        return log.run(verb)


def rows(path, isolation_level="read_uncommitted"):
    return [
        row for part in bl.Log(path).read(isolation_level=isolation_level, columns=COLUMNS) for row in part.to_pylist()
    ]


@pytest.fixture
def log(tmp_path):
    """Two segments: anna's records among others, one of them aborted, one open, and one a tombstone."""
    of = {"producer_id": 7, "transactional": True}
    path = written(
        tmp_path / "t-0",
        batch(0, [b"1", SECRET, b"3"], keys=[b"bert", b"anna", b"carl"]),
        batch(3, [SECRET, SECRET], keys=[b"anna", b"anna"], base_sequence=0, **of),
        marker(5, 7, commit=False),
        batch(6, [SECRET, b"8"], keys=[b"anna-2", None], producer_id=8, base_sequence=5),
        batch(8, [None], keys=[b"anna"]),
        batch(9, [SECRET], keys=[b"anna"], base_sequence=2, **of),
        segment_bytes=250,
    )
    assert len(list(path.glob("*.log"))) == 3
    return path


def test_all_records_of_a_key_are_gone_and_no_other(log):
    before = rows(log)
    report = erase(log, Erasure(keys=(b"anna",)))
    assert rows(log) == [row for row in before if row["key"] != b"anna"]
    assert (report.erased_records, report.examined_records) == (5, 9)
    assert report.offset_ranges == ((1, 1), (3, 4), (8, 8), (9, 9))
    assert report.remaining_records == 0
    assert not [p for p in log.iterdir() if p.read_bytes().count(b"anna") > p.read_bytes().count(b"anna-2")]


def test_offsets_markers_and_producers_stay(log):
    before = headers(log)
    kept = [p.read_bytes() for p in sorted(log.glob("*.snapshot"))]
    aborted = [p.read_bytes() for p in log.glob("*.txnindex")]
    end = bl.Log(log).log_end_offset
    erase(log, Erasure(keys=(b"anna",)))
    after = headers(log)
    names = [
        "base_offset",
        "last_offset",
        "producer_id",
        "base_sequence",
        "last_sequence",
        "is_control",
        "is_transactional",
    ]
    assert [[b[name] for name in names] for b in after] == [[b[name] for name in names] for b in before]
    assert [b["records_count"] for b in after] == [2, 0, 1, 2, 0, 0]
    assert all(b["is_valid"] for b in after)
    assert bl.Log(log).log_end_offset == end
    assert [p.read_bytes() for p in log.glob("*.txnindex")] == aborted
    assert len(kept) <= len(list(log.glob("*.snapshot"))) + 1
    assert [row["offset"] for row in rows(log, "read_committed")] == [0, 2, 6, 7]


@pytest.mark.parametrize(("version", "times"), [(0x700, 1), (0, 2)])
def test_a_damaged_transaction_index_is_named_and_the_log_stays(log, version, times):
    """Its entries go into the new segments' indexes: readers would take aborted records for committed ones."""
    [index] = log.glob("*.txnindex")
    index.write_bytes(times * (version.to_bytes(2) + index.read_bytes()[2:]))
    before = {p: p.read_bytes() for p in log.glob("*.log")}
    with pytest.raises((CorruptRecordError, UnsupportedFormatError), match=index.name):
        erase(log, Erasure(keys=(b"anna",)))
    assert {p: p.read_bytes() for p in log.glob("*.log")} == before


def test_blank_leaves_keys_and_tombstones(log):
    before = rows(log)
    report = erase(log, Erasure(keys=(b"anna",), blank=True))
    blanked = [{**row, "value": b"" if row["key"] == b"anna" and row["value"] else row["value"]} for row in before]
    assert rows(log) == blanked
    assert (report.erased_records, report.erased_bytes) == (4, 4 * len(SECRET))
    # Nothing is left to be done.
    assert erase(log, Erasure(keys=(b"anna",), blank=True)).replaced_segments == 0


def test_prefixes_and_headers_match_too(tmp_path, log):
    assert [row["key"] for row in _after(log, Erasure(key_prefixes=(b"anna",)))] == [b"bert", b"carl", None]
    encoded = _with_headers([("user", None), ("user", b"anna")], [("user", b"bert")], [("User", b"anna")], [])
    path = written(tmp_path / "h-0", encoded)
    assert [row["offset"] for row in _after(path, Erasure(headers=((b"user", b"anna"),)))] == [1, 2, 3]


def _after(path, verb):
    erase(path, verb)
    return rows(path)


def _with_headers(*records):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "value": pa.array([b"v"] * len(records), pa.binary()),
        "headers": pa.array([[{"key": k, "value": v} for k, v in record] for record in records], kind),
    }
    return _native.Encoder(partition_leader_epoch=0).encode(pa.record_batch(columns), timestamp=NOW)


def test_only_segments_that_hold_any_are_replaced(log):
    inodes = {p.name: p.stat().st_ino for p in log.glob("*.log")}
    report = erase(log, Erasure(keys=(b"bert",)))
    changed = {p.name for p in log.glob("*.log") if p.stat().st_ino != inodes[p.name]}
    assert changed == {f"{0:020d}.log"}
    assert (report.segments, report.replaced_segments) == (3, 1)
    assert report.bytes_after == sum(p.stat().st_size for p in log.glob("*.log"))


def test_older_states_beside_the_log_are_named(log):
    gone = log.parent / f"t-0.{'ab' * 16}-delete"
    (log.parent / f"t-1.{'ab' * 16}-delete").mkdir()
    gone.mkdir()
    report = erase(log, Erasure(keys=(b"anna",)))
    assert report.leftovers == (str(gone),)
    # Work that may be repeated has a directory of its own beside the log, which is removed at the end.
    (done,) = rewrite_each(Erasure(keys=(b"carl",)), [log], runner=Repeating())
    assert (done.report.erased_records > 0, done.report.leftovers) == (True, (str(gone),))
    assert f"not searched: {gone}" in report.lines()


def test_nothing_found_changes_nothing(log):
    before = {p.name: p.read_bytes() for p in log.iterdir()}
    report = erase(log, Erasure(keys=(b"nobody",)))
    assert (report.erased_records, report.replaced_segments, report.offset_ranges) == (0, 0, ())
    assert {p.name: p.read_bytes() for p in log.glob("*.log")} == {
        name: content for name, content in before.items() if name.endswith(".log")
    }


def test_a_dry_run_says_the_same_and_changes_nothing(log):
    before = {p.name: p.read_bytes() for p in log.iterdir()}
    (planned,) = rewrite(Erasure(keys=(b"anna",)), log, dry_run=True)
    assert {p.name: p.read_bytes() for p in log.iterdir()} == before
    (done,) = rewrite(Erasure(keys=(b"anna",)), log)
    assert replace(planned.report, remaining_records=0) == done.report
    assert planned.report.remaining_records is None
    assert json.loads(json.dumps(done.report.to_dict()))["erased_records"] == 5


def test_what_goes_is_plain_and_can_be_found_elsewhere(log):
    verb = pickle.loads(pickle.dumps(Erasure(keys=(b"anna",))))
    found = pickle.loads(pickle.dumps(find(verb, bl.Log(log).segments)))
    assert [(segment.records, segment.bits) for segment in found] == [(3, b"\x1a"), (1, b"\x08"), (1, b"\x01")]


@pytest.mark.parametrize("log_dir", ["kafka-2.8-v0", "kafka-2.8-v1", "kafka-2.8-mixed", "kafka-4.1"])
def test_logs_of_real_brokers_lose_one_key(golden, copied, log_dir):
    erased = 0
    for source in sorted((golden / "logs" / log_dir).iterdir()):
        keys = [row["key"] for row in rows(source) if row["key"]] if source.is_dir() and source.name[0] != "_" else []
        if not keys:
            continue
        path = copied(log_dir, source.name)
        before, end = rows(path), bl.Log(path).log_end_offset
        report = erase(path, Erasure(keys=(keys[-1],)))
        # messages beside one that goes become a batch, with a leader epoch
        found = [{**row, "leaderEpoch": row["leaderEpoch"] or 0} for row in rows(path)]
        assert found == [{**row, "leaderEpoch": row["leaderEpoch"] or 0} for row in before if row["key"] != keys[-1]]
        assert all(batch["partition_leader_epoch"] >= 0 for batch in headers(path) if batch["magic"] == 2)
        assert bl.Log(path).log_end_offset == end, source.name
        assert all(b["is_valid"] for b in headers(path))
        erased += report.erased_records
    assert erased > 5


def test_damage_is_met_and_the_log_stays(log):
    path = log / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="crc mismatch"):
        erase(log, Erasure(keys=(b"anna",)))
    assert path.read_bytes() == content
    assert not list(log.glob("*.cleaned"))


@pytest.mark.parametrize(
    ("selection", "message"), [({}, "nothing to erase"), ({"key_prefixes": (b"",)}, "empty key prefix")]
)
def test_a_selection_that_cannot_be_meant_is_refused(selection, message):
    with pytest.raises(ValueError, match=message):
        Erasure(**selection)


@pytest.mark.parametrize(
    "selection", [{"keys": ("a",)}, {"keys": b"a"}, {"key_prefixes": b"a"}, {"keys": "a"}, {"headers": (("h", "v"),)}]
)
def test_what_is_to_be_erased_is_named_in_bytes(selection):
    (option,) = selection
    with pytest.raises(TypeError, match=f"{option}: a tuple of bytes is expected, .* not (str|bytes)"):
        Erasure(**selection)


def test_a_selection_comes_in_any_collection():
    """A list, a set or what is read from a file."""
    assert Erasure(keys={b"a"}, key_prefixes=iter([b"p"]), headers=[[b"h", b"v"]]) == Erasure(
        keys=(b"a",), key_prefixes=(b"p",), headers=((b"h", b"v"),)
    )
    with pytest.raises(TypeError, match="a name and a value"):
        Erasure(headers=((b"h",),))


def test_digests_tell_selections_apart():
    selections = [
        {"keys": (b"ab",)},
        {"keys": (b"a", b"b")},
        {"key_prefixes": (b"ab",)},
        {"headers": ((b"a", b"b"),)},
        {"headers": ((b"ab", b""),)},
    ]
    assert len({Erasure(**selection).digest() for selection in selections}) == len(selections)


@given(
    st.lists(st.lists(st.sampled_from([None, b"a", b"ab", b"b"]), min_size=1, max_size=5), max_size=8), st.booleans()
)
def test_erasing_removes_the_records_of_the_given_keys_only(keys_of_batches, blank):
    data, offset = b"", 0
    for keys in keys_of_batches:
        data += batch(offset, [b"v%d" % i for i in range(len(keys))], keys=keys)
        offset += len(keys)
    scan = _native.ErasureScan(keys=[b"a"], blank=blank)
    assert scan.feed(data, 0) == len(data)
    found = scan.take()
    erasure = _native.SegmentErasure(blank=blank)
    erasure.begin(found.bits, b"", 1 << 31)
    output = _native.SegmentOutput(0, index_interval_bytes=4096, segment_index_bytes=1 << 20)
    assert erasure.feed(data, 0, output) == len(data)
    assert erasure.finish(output)
    before, after = decoded(data), decoded(bytes(output.take()[0]))
    if blank:
        assert after == [{**row, "value": b"" if row["key"] == b"a" else row["value"]} for row in before]
    else:
        assert after == [row for row in before if row["key"] != b"a"]
    assert found.records == sum(row["key"] == b"a" for row in before)


def decoded(data):
    found, consumed = _native.Decoder(["offset", "key", "value"]).decode(data)
    assert consumed == len(data)
    return found.to_pylist() if found is not None else []
