"""What a commit makes of a log: which files it copies, where it begins a segment, what parts it appends."""

import contextlib
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.io import disk, storage
from brokerless.layout.streaming_epochs import Epoch
from brokerless.log.segment import offset_index, time_index
from brokerless.staging import staged_logs
from brokerless.staging.parts import Encoding
from support.log_files import NOW
from support.write_tasks import bases, begin, send, small_log, values, written


@pytest.fixture
def small(tmp_path):
    return small_log(tmp_path / "d")


def inodes(path):
    return {file.name: file.stat().st_ino for file in (path / "t-0").glob("*.log")}


def test_what_is_small_joins_the_active_segment(small):
    before = inodes(small)
    write, staging = begin(small)
    write.commit(send(staging, 7, timestamp=[NOW]))
    assert bases(small) == [0, 100, 200]
    after = inodes(small)
    # those that did not change were not copied
    assert [name for name in before if before[name] != after[name]] == ["00000000000000000200.log"]
    assert values(small)[-1] == 7
    assert bl.LogDirs(small).log("t", 0).log_end_offset == 251


def test_what_is_large_begins_a_segment(small):
    before = inodes(small)
    written(small, *range(40))
    assert bases(small) == [0, 100, 200, 250]
    assert before.items() <= inodes(small).items()
    assert values(small)[250:] == list(range(40))


def test_a_copied_log_does_not_write_into_the_old_one(small):
    """Until the commit the old files are those of the log, byte for byte."""
    before = {file.name: file.read_bytes() for file in (small / "t-0").iterdir()}
    for number in (1, 40):
        write, staging = begin(small)
        with pytest.raises(bl.errors.RecordTooLargeError):
            write.commit([*send(staging, *range(number)), *send(staging, "1" * 2_000_000)])
        write.abort()
        assert {file.name: file.read_bytes() for file in (small / "t-0").iterdir()} == before
    assert bl.LogDirFiles(str(small)).is_clean
    assert not list(small.glob("*-delete"))


def test_epochs_do_not_copy_a_large_segment_each_time(small, monkeypatch):
    monkeypatch.setattr(staged_logs, "_MOST_FOR_EPOCH", 100)
    for number in range(4):
        write, staging = begin(small)
        write.commit(send(staging, number), epoch=Epoch("q", number))
    assert bases(small) == [0, 100, 200, 250, 252]
    assert values(small)[250:] == [0, 1, 2, 3]


def test_segments_roll_as_appends_roll_them(tmp_path):
    written(tmp_path / "d", *range(1000), config={"segment_bytes": 1 << 20}, encoding=Encoding(batch_size=1000))
    write, staging = begin(tmp_path / "d", encoding=Encoding(batch_size=4000))
    write.commit(send(staging, *(10**30 + number for number in range(40_000))))
    sizes = [segment.size for segment in bl.LogDirs(tmp_path / "d").log("t", 0).segments]
    assert len(sizes) > 1
    assert max(sizes) <= 1 << 20
    assert len(values(tmp_path / "d")) == 41_000


def test_offsets_have_to_be_apart(tmp_path):
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    late, early = send(staging, 7, 9, offset=[7, 9]), send(staging, 2, 3, offset=[2, 3])
    between = send(staging, 8, offset=[8])
    with pytest.raises(ValueError, match="offsets 8 to 8 of t-0 are not all above offset 9"):
        write.commit([*late, *early, *between])
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    write.commit([*send(staging, 7, 9, offset=[7, 9]), *send(staging, 2, 3, offset=[2, 3])])
    assert values(tmp_path / "d") == [2, 3, 7, 9]
    assert bl.LogDirs(tmp_path / "d").log("t", 0).log_end_offset == 10
    write, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    for offsets in ([5, 5], [6, 5]):
        with pytest.raises(ValueError, match="do not rise: sort the rows"):
            send(staging, 1, 2, offset=offsets)


def test_a_part_that_is_cut_is_refused(tmp_path):
    written(tmp_path / "d", 1)
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 2)
    with open(part.path, "r+b") as file:
        file.truncate(part.size - 1)
    with pytest.raises(ValueError, match=f"has {part.size - 1} bytes, but its task wrote {part.size}"):
        write.commit([part])
    assert values(tmp_path / "d") == [1]


def test_a_batch_may_be_longer_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    """Blocks end within batches, within headers, and hold none whole: each row comes once all the same."""
    monkeypatch.setattr(staged_logs, "_BLOCK", 100)
    for first, kept in ((0, {}), (300, {"keep_offsets": True})):
        numbers = list(range(first, first + 300))
        write, staging = begin(tmp_path / "d", encoding=Encoding(batch_size=500, **kept))
        columns = {"offset": pa.array(numbers, pa.int64())} if kept else {}
        write.commit(send(staging, *numbers, **columns))
    assert values(tmp_path / "d") == list(range(600))


def test_a_part_that_ends_within_a_batch_is_refused(tmp_path):
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 1)
    with open(part.path, "r+b") as file:
        file.truncate(part.size - 1)
    with pytest.raises(ValueError, match="ends in the middle of a batch"):
        write.commit([replace(part, size=part.size - 1)])


def test_a_part_that_is_cut_while_it_is_read(small, monkeypatch):
    write, staging = begin(small)
    (part,) = send(staging, 1)
    size = storage.File.size

    def cut_behind_it(file):
        found = size(file)
        if found == part.size:
            os.truncate(part.path, found - 1)
        return found

    monkeypatch.setattr(storage.File, "size", cut_behind_it)
    with pytest.raises(ValueError, match="was truncated while it was read"):
        write.commit([part])


@pytest.mark.parametrize("resumes", [False, True])
def test_a_part_in_the_log_is_kept_only_for_a_write_that_can_be_gone_on_with(tmp_path, resumes):
    """All of them would be held twice until the end of the commit; and what fails could not be gone on with."""
    write, staging = begin(tmp_path / "d", resumes=resumes)
    parts = [*send(staging, 1), *send(staging, 2)]
    content = Path(parts[1].path).read_bytes()
    os.truncate(parts[1].path, len(content) - 1)
    with pytest.raises(ValueError, match="but its task wrote"):
        write.commit(parts)
    assert [Path(part.path).exists() for part in parts] == [resumes, True]
    if resumes:
        Path(parts[1].path).write_bytes(content)
        write.begin()
        write.commit(parts)
        assert values(tmp_path / "d") == [1, 2]


def test_a_part_that_stays_is_no_reason_to_write_again(tmp_path, monkeypatch):
    """A file system in the net may refuse to remove what somebody still reads."""
    write, staging = begin(tmp_path / "d")
    (part,) = send(staging, 1)
    remove = disk.remove

    def refuses(path):
        if path == part.path:
            monkeypatch.setattr(disk, "remove", remove)
            raise PermissionError(path)
        remove(path)

    monkeypatch.setattr(disk, "remove", refuses)
    write.commit([part])
    assert values(tmp_path / "d") == [1]


def test_a_copy_does_not_make_up_times(tmp_path):
    """Spark has null for a time beyond its range: a row without one gets the present time."""
    _, staging = begin(tmp_path / "d", encoding=Encoding(keep_offsets=True))
    with pytest.raises(ValueError, match="1 rows that keep their offsets have no timestamp"):
        send(staging, 1, 2, offset=[1, 2], timestamp=[NOW, None])


@pytest.fixture
def in_place(monkeypatch):
    """However small batches are."""
    monkeypatch.setattr(staged_logs, "_LEAST_BATCH", 1)


ENCODINGS = {
    "small batches": Encoding(batch_size=200),
    "one batch": Encoding(),
    "zstd": Encoding(compression="zstd"),
    "idempotent": Encoding(idempotent=True, batch_size=200),
    "transactional": Encoding(transactional=True, batch_size=200),
    "offsets": Encoding(keep_offsets=True, batch_size=200),
}
LINEAGE = ["key", "value", "offset", "timestamp", "timestampType", "leaderEpoch", "compression", "isTransactional"]


def lineage(path):
    log = bl.LogDirs(path).log("t", 0)
    return [row for rows in log.read(columns=LINEAGE, isolation_level="read_committed") for row in rows.to_pylist()]


def send_two(staging, first=0):
    """Two tasks write 40 rows each, as large as a segment should be at least, and those offsets that they may keep."""
    return [
        part
        for at in (first, first + 100)
        for part in send(
            staging,
            *range(at, at + 40),
            key=[zlib.crc32(b"%d" % (at + i)).to_bytes(4, "big") for i in range(40)],
            timestamp=[NOW + at + i for i in range(40)],
            offset=range(300 + at, 340 + at),
        )
    ]


def commit_and_number(write, sent):
    """Commit parts, and return the numbers of their files, which no other file may have meanwhile."""
    with contextlib.ExitStack() as held:
        files = {os.fstat(held.enter_context(open(part.path, "rb")).fileno()).st_ino for part in sent}
        write.commit(sent)
    return files


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_large_part_becomes_a_segment_in_place(tmp_path, encoding, in_place, monkeypatch):
    found = []
    for name in ("in place", "copied"):
        path = small_log(tmp_path / name)
        if name == "copied":
            monkeypatch.setattr(staged_logs, "_LEAST_BATCH", 1 << 30)
        write, staging = begin(path, encoding=encoding)
        sent = send_two(staging)
        files = commit_and_number(write, sent)
        assert len(files & set(inodes(path).values())) == (2 if name == "in place" else 0)
        found.append(lineage(path))
        for segment in bl.LogDirs(path).log("t", 0).segments:
            offset_index(segment).sanity_check()
            time_index(segment).sanity_check()
        # what is small joins the last of them
        write, staging = begin(path)
        write.commit(send(staging, 7, timestamp=[NOW]))
        assert values(path)[-1] == 7
        with bl.open_log_dir(path, sole_replica=True) as log_dir:
            assert not log_dir.log("t", 0).is_broken
    assert found[0] == found[1]
    assert len(found[0]) == 250 + 80


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_segment_begins_with_a_part_in_place_and_others_join_it(tmp_path, encoding, in_place, monkeypatch):
    found = []
    for name in ("in place", "copied"):
        if name == "copied":
            monkeypatch.setattr(staged_logs, "_LEAST_BATCH", 1 << 30)
        write, staging = begin(tmp_path / name, encoding=encoding)
        files = commit_and_number(write, send_two(staging))
        assert len(files & set(inodes(tmp_path / name).values())) == (1 if name == "in place" else 0)
        for segment in bl.LogDirs(tmp_path / name).log("t", 0).segments:
            offset_index(segment).sanity_check()
            time_index(segment).sanity_check()
        found.append((bases(tmp_path / name), lineage(tmp_path / name)))
    assert found[0] == found[1]
    # a marker has the time of the commit, long after that of the rows
    assert (len(found[0][0]), len(found[0][1])) == (2 if encoding.transactional else 1, 80)


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup_policy": "compact"},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "lz4"},
        {"segment_ms": 20},
        {"message_timestamp_after_max_ms": 10**15},
    ],
    ids=str,
)
def test_a_part_that_a_broker_would_look_into_is_appended(tmp_path, settings, in_place):
    write, staging = begin(
        tmp_path / "d", config={"segment_bytes": 1000, **settings}, encoding=Encoding(batch_size=200)
    )
    sent = send_two(staging)
    files = commit_and_number(write, sent)
    is_plain = "message_timestamp_after_max_ms" in settings
    assert bool(files & set(inodes(tmp_path / "d").values())) == is_plain
    assert values(tmp_path / "d") == [*range(40), *range(100, 140)]


@pytest.mark.parametrize("at", [0, 16, 26, -1], ids=["offset", "magic", "checksummed", "record"])
def test_a_large_part_that_is_damaged_does_not_come_into_force(small, in_place, at):
    write, staging = begin(small)
    (part,) = send(staging, *range(40))
    content = bytearray(Path(part.path).read_bytes())
    content[at] ^= 0x40
    Path(part.path).write_bytes(content)
    with pytest.raises((bl.errors.CorruptRecordError, bl.errors.AppendError)):
        write.commit([part])
    assert bases(small) == [0, 100, 200]


@pytest.mark.parametrize("is_another_users", [False, True])
def test_a_part_that_others_may_use_than_the_log_is_copied(small, in_place, monkeypatch, is_another_users):
    """The broker might not be allowed to write to it, or who reads the log to read it."""
    write, staging = begin(small)
    (part,) = send(staging, *range(40))
    if is_another_users:
        monkeypatch.setattr(staged_logs, "_access", lambda path: path == part.path)
    else:
        os.chmod(part.path, 0o666)
    assert not commit_and_number(write, [part]) & set(inodes(small).values())
    assert len({file.stat().st_mode for file in (small / "t-0").glob("*.log")}) == 1
    assert values(small)[250:] == list(range(40))


def test_parts_that_are_looked_into_share_segments(tmp_path, in_place):
    write, staging = begin(tmp_path / "d", config={"segment_bytes": 2000, "cleanup_policy": "compact"})
    write.commit([*send_two(staging), *send_two(staging, 200)])
    assert len(bases(tmp_path / "d")) == 2
    assert len(values(tmp_path / "d")) == 160


def test_a_refused_part_leaves_nothing_of_the_others(small, in_place):
    before = {file.name: file.read_bytes() for file in (small / "t-0").iterdir()}
    write, staging = begin(small)
    sent = send_two(staging)
    sent.append(replace(sent[0], size=sent[0].size - 1))
    with pytest.raises((ValueError, FileNotFoundError)):
        write.commit(sent)
    assert {file.name: file.read_bytes() for file in (small / "t-0").iterdir()} == before
