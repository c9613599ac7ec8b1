"""Compaction of any log: a dictionary and the marker rules, whatever the memory, the codec and the number of passes."""

import pickle
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless.io import storage
from brokerless.log.segment import segments_in
from brokerless.rewriting.compact.compact import Compaction
from support.kafka_answers import CONSUMED_COLUMNS, as_consumed
from support.log_files import NOW, batch, marker

RETENTION = 1000
SETTINGS = bl.TopicConfig(cleanup_policy="compact", delete_retention_ms=RETENTION, index_interval_bytes=64)
TRANSACTIONAL, IDEMPOTENT = (1, 2), 3

records = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["x", "", None])), min_size=1, max_size=4)
steps = st.one_of(
    st.tuples(st.just("data"), st.sampled_from([None, IDEMPOTENT, *TRANSACTIONAL]), records),
    st.tuples(st.just("end"), st.sampled_from(TRANSACTIONAL), st.booleans()),
    st.tuples(st.just("roll"), st.none(), st.none()),
)
logs = st.tuples(
    st.lists(steps, min_size=1, max_size=24), st.sampled_from(["producer", "gzip", "lz4", "snappy", "zstd"])
)


@dataclass
class Clock:
    now: int = NOW

    def __call__(self):
        return self.now


@dataclass
class Written:
    """A log, and what was put into it: offset, key, value, producer of an open transaction."""

    log: bl.LogWriter
    clock: Clock
    aborted: set = field(default_factory=set)


def write(directory, steps, compression_type="producer", **changes):
    clock = Clock()
    directory.mkdir(exist_ok=True)
    topic = replace(SETTINGS, compression_type=compression_type, **changes)
    log = bl.LogWriter.open(str(directory), config=topic, is_clean=True, now=clock)
    written, sequences, opened = Written(log, clock), {}, {}
    for kind, producer, what in steps:
        if kind == "roll":
            log.roll()
        elif kind == "end":
            log.append(marker(0, producer, commit=what), origin="coordinator")
            if not what:
                written.aborted.update(opened.get(producer, ()))
            opened.pop(producer, None)
        else:
            keys, values = zip(*((key.encode(), value and value.encode()) for key, value in what), strict=True)
            values = [b"" if value == "" else value for value in values]
            first = sequences.get(producer, 0)
            fields = {} if producer is None else {"producer_id": producer, "base_sequence": first}
            if producer in TRANSACTIONAL:
                fields["transactional"] = True
            appended = log.append(batch(0, values, keys=keys, timestamp=NOW, **fields))
            sequences[producer] = first + len(what)
            if producer in TRANSACTIONAL:
                opened.setdefault(producer, []).extend(range(appended.first_offset, appended.last_offset + 1))
    return written


def rows(log, isolation_level="read_uncommitted"):
    found = bl.Log(log.directory).read(columns=CONSUMED_COLUMNS, isolation_level=isolation_level)
    return [(row["offset"], row["key"], row["value"]) for row in as_consumed(found)]


def kept(before, written, end_offset):
    """Return the rows that a compaction up to there leaves, by a dictionary."""
    newest = {key: offset for offset, key, _ in before if offset < end_offset and offset not in written.aborted}
    return [
        (offset, key, value)
        for offset, key, value in before
        if offset >= end_offset or (offset not in written.aborted and newest[key] == offset)
    ]


def values(rows):
    newest = {key: value for _, key, value in rows}
    return {key: value for key, value in newest.items() if value is not None}


def contents(log):
    names = [name for name in storage.list_directory(log.directory) if not name.endswith((".snapshot", "-checkpoint"))]
    return {name: storage.read_all(f"{log.directory}/{name}") for name in names}


def batches(log):
    return [b for s in segments_in(log.directory) for found in s.scan(check_crcs=True) for b in found.to_pylist()]


@pytest.mark.slow
@given(logs)
def test_compaction_is_a_dictionary_and_the_marker_rules(tmp_path_factory, made):
    written = write(tmp_path_factory.mktemp("any") / "t-0", *made)
    log = written.log
    before, committed = rows(log), values(rows(log, "read_committed"))
    report = log.run(Compaction())
    end = report.first_uncleanable_offset
    expected = kept(before, written, end)
    assert rows(log) == expected
    assert values(rows(log, "read_committed")) == committed
    assert report.total("records") - report.total("kept") >= len(before) - len(expected)
    for segment in report.segments:
        parts = ("superseded", "expired", "aborted", "unkeyed", "discarded_markers")
        assert segment.records - segment.kept == sum(getattr(segment, part) for part in parts)
    # once more, at the same time: the same rows
    log.run(Compaction(ignore_checkpoint=True))
    assert rows(log) == expected
    # when their time has come, tombstones go, and markers of what is gone
    for _ in range(4):
        written.clock.now += RETENTION
        log.run(Compaction(ignore_checkpoint=True))
    assert rows(log) == [row for row in expected if row[0] >= end or row[2] is not None]
    assert values(rows(log, "read_committed")) == committed
    fixed = contents(log)
    written.clock.now += RETENTION
    log.run(Compaction(ignore_checkpoint=True))
    assert contents(log) == fixed
    # a marker stays as long as a batch of its transaction does, be it empty
    producers = set()
    for found in batches(log):
        if found["is_control"] and found["records_count"] and found["last_offset"] < end:
            assert found["producer_id"] in producers
        producers.add(found["producer_id"])
    log.close()
    with bl.LogWriter.open(log.directory, config=log.config, is_clean=True, now=written.clock) as again:
        assert again.recovery == []


@pytest.mark.slow
@given(logs, st.sampled_from([24 * 5, 24 * 12, 24 * 40]))
def test_little_memory_costs_passes_and_nothing_else(tmp_path_factory, made, memory):
    one = write(tmp_path_factory.mktemp("much") / "t-0", *made).log
    many = write(tmp_path_factory.mktemp("little") / "t-0", *made).log
    expected, report = one.run(Compaction()), many.run(Compaction(memory=memory))
    assert contents(one) == contents(many)
    assert replace(report, passes=expected.passes) == expected


@given(logs, st.integers(0, 40))
def test_a_newer_record_supersedes_one_from_the_cleaned_part(tmp_path_factory, made, first_dirty):
    written = write(tmp_path_factory.mktemp("dirty") / "t-0", *made)
    log = written.log
    log.first_dirty_offset = min(first_dirty, log.log_end_offset)
    before, dirty = rows(log), log.first_dirty_offset
    end = log.run(Compaction()).first_uncleanable_offset
    if dirty >= end:
        assert rows(log) == before
        return
    newest = {key: o for o, key, _ in before if dirty <= o < end and o not in written.aborted}
    clean = [r for r in before if r[0] < end and r[0] not in written.aborted and newest.get(r[1], -1) <= r[0]]
    assert rows(log) == clean + [r for r in before if r[0] >= end]


def test_a_second_pass_has_nothing_to_do_until_something_is_written(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [("a", "1")])] * 3 + [("roll", None, None)]).log
    first = log.run(Compaction())
    assert (first.passes, first.is_due, first.keys, first.total("superseded")) == (1, True, 1, 2)
    assert log.first_dirty_offset == 3
    assert log.run(Compaction()).passes == 0
    assert log.run(Compaction(roll=True)).passes == 0
    log.append(batch(0, [b"2"], keys=[b"a"]))
    assert log.run(Compaction()).passes == 0
    rolled = log.run(Compaction(roll=True))
    assert (rolled.passes, rolled.is_rolled, rolled.active_bytes) == (1, False, 0)
    # the newest is the last of the range: the batch before it is gone
    assert [row[0] for row in rows(log)] == [3]


@pytest.mark.parametrize("is_at_end", [True, False])
@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_a_last_batch_without_records_is_kept_as_by_the_cleaner_of_the_release(tmp_path, release, is_at_end):
    """Since 4.4 only where it tells where the log ends."""
    tombstone = ("data", None, [("a", None)])
    steps = [("data", None, [("b", "x")]), tombstone, ("roll", None, None), *[tombstone] * (not is_at_end)]
    written = write(tmp_path / "t-0", steps)
    verb = Compaction(release=release, ignore_checkpoint=True)
    written.log.run(verb)
    written.clock.now += RETENTION
    written.log.run(verb)
    left = [(batch["base_offset"], batch["records_count"]) for batch in batches(written.log)]
    emptied = [(1, 0)] if is_at_end or release == "4.3" else []
    assert left == [(0, 1), *emptied, *[(2, 1)] * (not is_at_end)]


def test_a_dry_run_changes_nothing_and_tells_what_a_roll_would_add(tmp_path):
    steps = [("data", None, [("a", "x"), ("b", None)]), ("roll", None, None), ("data", None, [("a", "x")])]
    log = write(tmp_path / "t-0", steps).log
    before, state = contents(log), log.state()
    for roll, expected in ((False, (2, 0)), (True, (3, 1))):
        verb = Compaction(roll=roll)
        outcome = verb.work(verb.plan(state), dry_run=True, progress=lambda _: None)
        assert outcome.replacements == ()
        assert outcome.first_dirty_offset is None
        report = outcome.report
        assert (report.total("records"), report.total("superseded")) == expected
        assert report.is_rolled is roll
        assert ("which roll would add" in report.lines()[-2]) is not roll
    assert contents(log) == before
    assert log.run(Compaction(roll=True)).segments == report.segments


def test_records_without_a_key_are_not_dropped_unasked(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [("a", "x")])], cleanup_policy="delete").log
    log.append(batch(0, [b"1", b"2"]))
    log.roll()
    before = contents(log)
    asked = {"cleanup_policy": "compact"}
    with pytest.raises(ValueError, match="2 of its records have no key, the first of them at offset 1"):
        log.run(Compaction(**asked))
    assert contents(log) == before
    assert log.run(Compaction(**asked, drop_null_keys=True)).total("unkeyed") == 2
    assert [row[0] for row in rows(log)] == [0]


def size(log):
    return sum(segment.size for segment in segments_in(log.directory))


def test_what_is_too_young_stays(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [("a", "x")])] * 2 + [("roll", None, None)]).log
    report = log.run(Compaction(min_compaction_lag_ms=1))
    assert (report.passes, report.limit) == (0, "min_compaction_lag")
    assert log.run(Compaction()).total("superseded") == 1


def test_a_log_that_no_cleaner_would_take_up_is_left_alone_if_asked(tmp_path):
    steps = [("data", None, [("a", "x"), ("b", "x"), ("c", "x")]), ("roll", None, None)]
    log = write(tmp_path / "t-0", [*steps, ("data", None, [("a", "x")]), ("roll", None, None)]).log
    log.first_dirty_offset = 3
    report = log.run(Compaction(only_due=True))
    assert (report.passes, report.is_due) == (0, False)
    assert report.skip_reason == "not_dirty"
    assert report.lines()[0] == "not due: 0.44 of its bytes are dirty, and a broker compacts only above 0.5"
    assert report.bytes_before == report.bytes_after == size(log)
    assert log.run(Compaction()).total("superseded") == 1


@pytest.mark.parametrize("policy", ["delete", ""])
def test_a_topic_that_no_cleaner_looks_at_is_refused_unless_the_policy_is_overridden(tmp_path, policy):
    """All records of a key count there, and its older ones would be gone for good."""
    steps = [("data", None, [("a", "x")])] * 2 + [("roll", None, None)]
    log = write(tmp_path / "t-0", steps, cleanup_policy=policy).log
    before = contents(log)
    with pytest.raises(ValueError, match=f"the cleanup.policy of its topic is {policy or 'empty'}, so a broker keeps"):
        log.run(Compaction())
    with pytest.raises(ValueError, match='give cleanup_policy="compact"'):
        log.run(Compaction(cleanup_policy="delete"))
    assert contents(log) == before
    assert log.run(Compaction(cleanup_policy="compact,delete")).total("superseded") == 1


def test_a_topic_that_no_cleaner_looks_at_is_not_due(tmp_path):
    """Its older records with a key are records like the others."""
    steps = [("data", None, [("a", "x")])] * 2 + [("roll", None, None)]
    log = write(tmp_path / "t-0", steps, cleanup_policy="delete").log
    report = log.run(Compaction(only_due=True))
    assert (report.passes, report.is_due, report.skip_reason) == (0, False, "cleanup_policy")
    assert report.lines()[0].startswith("not due: cleanup.policy is delete")
    done = log.run(Compaction(cleanup_policy="compact"))
    assert (done.is_due, done.bytes_before, done.bytes_after) == (True, report.bytes_before, size(log))
    assert done.bytes_after < done.bytes_before


@pytest.mark.parametrize("position", [8, 16, 17, 21, 60, 66])
def test_damage_is_met_before_anything_is_changed(tmp_path, position):
    log = write(tmp_path / "t-0", [("data", None, [("a", "x")])] * 3 + [("roll", None, None)]).log
    path = f"{log.directory}/{0:020}.log"
    content = bytearray(storage.read_all(path))
    content[len(content) // 3 + position] ^= 0x40
    with open(path, "wb") as file:
        file.write(content)
    before = contents(log)
    with pytest.raises((bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError)) as error:
        log.run(Compaction())
    assert (error.value.path, error.value.position) == (path, len(content) // 3)
    assert contents(log) == before


def test_a_segment_cut_at_any_byte_is_refused(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [("a", "x")])] * 2 + [("roll", None, None)]).log
    path = f"{log.directory}/{0:020}.log"
    content = storage.read_all(path)
    for cut in range(1, len(content)):
        if cut != len(content) // 2:
            with open(path, "wb") as file:
                file.write(content[:cut])
            with pytest.raises(bl.errors.CorruptRecordError, match="is cut"):
                log.run(Compaction())


def test_plans_and_what_comes_of_them_can_be_sent_elsewhere(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [("a", "x")])] * 3 + [("roll", None, None)]).log
    verb = pickle.loads(pickle.dumps(Compaction()))
    plan = pickle.loads(pickle.dumps(verb.plan(pickle.loads(pickle.dumps(log.state())))))
    outcome = pickle.loads(pickle.dumps(verb.work(plan, dry_run=False, progress=lambda _: None)))
    log.enforce(outcome)
    assert [row[0] for row in rows(log)] == [2]


def test_a_new_segment_without_a_slot_left_in_an_index_goes_on_in_another(tmp_path):
    steps = [("data", None, [(key, "x")]) for key in "abcdefgh"]
    steps += [("data", 1, [("b", "x")]), ("end", 1, False), ("data", None, [("c", None)]), ("data", 1, [("d", "x")])]
    steps += [("end", 1, True), ("data", 1, [("e", "x")]), ("end", 1, False), ("roll", None, None)]
    written = write(tmp_path / "t-0", steps)
    log = written.log
    before, committed = rows(log), rows(log, "read_committed")
    # three entries are left for the offset index, and of the time index's two the last is for the largest timestamp
    tiny = replace(log.config, segment_index_bytes=24, index_interval_bytes=0)
    log.close()
    with bl.LogWriter.open(log.directory, config=tiny, is_clean=True, now=written.clock) as log:
        dry = rewritten_by(Compaction(), log, dry_run=True)
        report = log.run(Compaction())
        assert (dry.total("cleaned_bytes"), dry.total("kept")) == (report.total("cleaned_bytes"), report.total("kept"))
        expected = kept(before, written, report.first_uncleanable_offset)
        assert rows(log) == expected
        assert rows(log, "read_committed") == [row for row in committed if row in expected]
        new = segments_in(log.directory)[:-1]
        assert len(new) > 3
        assert report.total("cleaned_bytes") == sum(segment.size for segment in new)
        # an aborted transaction is in the index of the segment that holds its marker
        markers = {b["last_offset"] for b in batches(log) if b["is_control"]}
        assert {9, 14} <= markers
        with_index = [segment.base_offset for segment in new if segment.has_transaction_index]
        assert [max(s.base_offset for s in new if s.base_offset <= marker) for marker in (9, 14)] == with_index
    # what a recovery makes of it is the same: Kafka does not start where an index overflows
    with bl.LogWriter.open(log.directory, config=tiny, is_clean=False, now=written.clock) as again:
        assert rows(again) == expected


def rewritten_by(verb, log, *, dry_run):
    return verb.work(verb.plan(log.state()), dry_run=dry_run, progress=lambda _: None).report


def test_offsets_that_do_not_rise_are_damage(tmp_path):
    log = write(tmp_path / "t-0", [("data", None, [(key, "x")]) for key in "abcde"] + [("roll", None, None)]).log
    path = f"{log.directory}/{0:020}.log"
    content = bytearray(storage.read_all(path))
    size = len(content) // 5
    content[size : size + 8] = (1001).to_bytes(8, "big")
    with open(path, "wb") as file:
        file.write(content)
    before = contents(log)
    with pytest.raises(
        bl.errors.CorruptRecordError, match="offset 1001 is not below 5, where the segment has to end"
    ) as error:
        log.run(Compaction())
    assert (error.value.path, error.value.position, error.value.base_offset) == (path, size, 1001)
    assert contents(log) == before


NO_INDEX = {
    "removed": lambda path: path.unlink(),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "another producer's": lambda path: path.write_bytes(path.read_bytes()[:9] + b"\x07" + path.read_bytes()[10:]),
    "from the first offset on": lambda path: path.write_bytes(
        path.read_bytes()[:10] + bytes(8) + path.read_bytes()[18:]
    ),
}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("harm", NO_INDEX.values(), ids=NO_INDEX)
def test_markers_say_which_records_were_aborted_whatever_the_transaction_index_says(tmp_path, harm, dry_run):
    """Else aborted records, which nobody reads, take the place of the committed ones with their keys."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", cleanup_policy="compact")
        with bl.Producer(log_dir, "t", transactional_id="x") as producer:
            with producer.transaction():
                producer.send([{"key": b"%d" % number, "value": b"committed"} for number in range(10)])
            producer.begin()
            producer.send([{"key": b"%d" % number, "value": b"aborted"} for number in range(5)])
            producer.flush()
            producer.abort()
    (index,) = (tmp_path / "data" / "t-0").glob("*.txnindex")
    harm(index)
    compact = Compaction(roll=True, release="4.1", min_compaction_lag_ms=0)
    (done,) = bl.rewrite(compact, tmp_path / "data", topics=["t"], dry_run=dry_run)
    assert (done.report.total("aborted"), done.report.total("kept")) == (5, 12)
    rows = bl.Log(tmp_path / "data" / "t-0").read(isolation_level="read_committed", columns=["value"])
    assert [row["value"] for part in rows for row in part.to_pylist()] == [b"committed"] * 10
