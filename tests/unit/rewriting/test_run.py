"""A verb over the partitions that were named: in place, into a new directory, or only in words."""

import os
import shutil
from dataclasses import dataclass

import pytest

import brokerless as bl
from brokerless.log_dir.recover import recovered
from brokerless.rewriting.convert import Conversion
from brokerless.rewriting.progress_file import ProgressFile
from brokerless.rewriting.run import rewrite, rewrite_each
from support.damage import flip_bit
from support.drop_batches import DropBatches, Repeating
from support.log_files import NOW, batch

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
VERB = DropBatches((1, 4), groups=(2,))
LEFT = [0, 2, 3, 5, 6, 7, 8]


@dataclass(frozen=True)
class Refusing(DropBatches):
    """Refuses once its new segments are written, in partitions other than 0."""

    def work(self, plan, *, dry_run, progress, output=None):
        outcome = super().work(plan, dry_run=dry_run, progress=progress, output=output)
        if not plan[0].endswith("-0"):
            raise ValueError(f"refused: {plan[0]}")
        return outcome


@dataclass(frozen=True)
class Dying(DropBatches):
    """Takes its process with it, its new segments half done."""

    def work(self, plan, *, dry_run, progress):
        super().work(plan, dry_run=dry_run, progress=progress)
        os._exit(9)


@pytest.fixture
def data(tmp_path):
    """A log directory that was left clean: t-0 and t-1 of nine records in segments 0, 3, 6, and u-0."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 2, topic_id=TOPIC_ID, segment_bytes=250, index_interval_bytes=0)
        log_dir.create_topic("u")
        for key in log_dir.partitions():
            for i in range(9):
                log_dir.log(*key).append(batch(0, [b"%d" % i], timestamp=NOW + i))
        log_dir.log("t", 1).first_dirty_offset = 2
        log_dir.log("u", 0).first_dirty_offset = 1
    return tmp_path / "data"


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def values(*path):
    return [int(value) for rows in bl.Log("/".join(map(str, path))).read() for value in rows["value"].to_pylist()]


def names(results):
    return [result.name for result in results]


def test_in_place_only_what_was_named_changes(data):
    before = contents(data)
    results = rewrite(VERB, data, topics=["t"], partitions=[1])
    assert [(result.name, result.report["dropped"]) for result in results] == [("t-1", 2)]
    assert results[0].recovery == ()
    after = contents(data)
    untouched = {name for name in before if not name.startswith("t-1/")} - {"bootstrap.checkpoint"}
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert (values(data, "t-1"), values(data, "t-0")) == (LEFT, list(range(9)))
    assert sorted(name for name in after if name.endswith(".log") and name.startswith("t-1")) == [
        f"t-1/{base:020d}.log" for base in (0, 6)
    ]


def test_into_a_new_directory_the_old_one_stays_as_it_was(data, tmp_path):
    before = contents(data)
    assert names(rewrite(VERB, data, topics=["t"], output=tmp_path / "new")) == ["t-0", "t-1"]
    assert contents(data) == before
    new, old = bl.LogDirs(tmp_path / "new"), bl.LogDirs(data)
    assert [log.name for log in new.logs()] == ["t-0", "t-1"]
    assert values(tmp_path, "new", "t-0") == values(tmp_path, "new", "t-1") == LEFT
    (root,), (was,) = new.roots, old.roots
    assert root.is_clean
    assert (root.cluster_id, root.directory_id, root.node_id) == (was.cluster_id, was.directory_id, was.node_id)
    assert root.recovery_points == {("t", 0): 9, ("t", 1): 9}
    assert root.first_dirty_offsets == {("t", 1): 2}
    assert new.log("t", 0).topic_id == TOPIC_ID
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "new"]


@pytest.mark.filterwarnings("ignore:settings of topics are not known")
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_log_with_other_replicas_is_not_cut_below_its_high_watermark(is_alone, data, tmp_path):
    """They have what would go."""
    (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    (data / "bootstrap.checkpoint").unlink()
    path = shutil.copytree(data / "t-0", tmp_path / "alone/t-0") if is_alone else data / "t-0"
    high_watermark = 9 if is_alone else 6
    assert names(rewrite(bl.Truncation(offset=2), path, dry_run=True)) == ["t-0"]
    with pytest.raises(
        ValueError,
        match=rf"t-0 at 5: other brokers may have .* below the high watermark {high_watermark}. .* sole_replica",
    ):
        rewrite(bl.Truncation(offset=5), path)
    assert values(path) == list(range(9))
    rewrite(bl.Truncation(offset=2), path, output=tmp_path / "t-0")
    assert values(tmp_path, "t-0") == [0, 1]
    if not is_alone:
        rewrite(bl.Truncation(offset=7), path)
        assert values(path) == list(range(7))
    rewrite(bl.Truncation(offset=2, sole_replica=True), path)
    assert values(path) == [0, 1]


def test_a_partition_of_a_log_directory_is_opened_through_it(data, tmp_path):
    with bl.open_log_dir(data, sole_replica=True), pytest.raises(bl.errors.LogInUseError):
        rewrite(VERB, data / "t-0")
    assert names(rewrite(VERB, data / "t-0", output=tmp_path / "t-7")) == ["t-0"]
    assert values(data, "t-0") == list(range(9))
    assert values(tmp_path, "t-7") == LEFT
    assert names(rewrite(VERB, data / "t-0")) == ["t-0"]
    assert values(data, "t-0") == LEFT
    assert bl.LogDirFiles(str(data)).is_clean


def test_a_dry_run_reads_a_directory_that_is_in_use(data):
    """It writes nothing, so a running broker's lock is no reason to refuse it; a warning says what may change."""
    expected = [one.report for one in rewrite(VERB, data, topics=["t"], dry_run=True)]
    before = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.log("t", 0)
        with pytest.warns(UserWarning, match="is in use by a broker or another writer"):
            found = rewrite(VERB, data, topics=["t"], dry_run=True)
    assert [one.report for one in found] == expected
    assert {path: path.read_bytes() for path in before} == before


def test_a_link_to_a_partition_is_the_partition(data, tmp_path):
    """Its lock, its checkpoints and its topic's settings are those of where it is, whatever the link is called."""
    link = tmp_path / "other-7"
    link.symlink_to(data / "t-0")
    with bl.open_log_dir(data, sole_replica=True), pytest.raises(bl.errors.LogInUseError):
        rewrite(VERB, link)
    assert names(rewrite(VERB, link, dry_run=True)) == names(rewrite(VERB, link)) == ["t-0"]
    assert values(data, "t-0") == LEFT
    assert link.is_symlink()


def test_a_link_in_a_log_directory_to_a_partition_of_another(data, tmp_path):
    """Who has that one open writes there."""
    bl.create_log_dir(tmp_path / "a").close()
    (tmp_path / "a/t-0").symlink_to(data / "t-0")
    with bl.open_log_dir(data, sole_replica=True), pytest.raises(bl.errors.LogInUseError):
        rewrite(VERB, tmp_path / "a/t-0")
    assert names(rewrite(VERB, tmp_path / "a/t-0")) == ["t-0"]
    assert values(data, "t-0") == LEFT


def test_a_name_that_is_nowhere_beside_a_partition_that_is_there(data, tmp_path):
    with pytest.raises(ValueError, match="unknown topic 'typo'"):
        rewrite(VERB, data / "t-0", topics=["t", "typo"])
    with pytest.raises(ValueError, match="unknown partition 7"):
        rewrite(VERB, data / "t-0", topics=["t"], partitions=[0, 7])
    assert values(data, "t-0") == list(range(9))


@pytest.mark.parametrize("named", [{"topics": ["u"]}, {"topics": ["t"], "partitions": [1]}, {"partitions": [1]}])
def test_a_partition_that_is_not_what_else_was_named(data, named):
    with pytest.raises(ValueError, match="t-0 is not among the named topics and partitions"):
        rewrite(VERB, data / "t-0", **named)
    assert names(rewrite(VERB, data / "t-0", topics=["t"], partitions=[0])) == ["t-0"]


def test_a_partition_that_was_copied_elsewhere(data, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copytree(data / "t-0", tmp_path / "elsewhere" / "t-0")
    before = contents(copy)
    assert names(rewrite(VERB, copy, dry_run=True)) == ["t-0"]
    assert names(rewrite(VERB, copy, output=tmp_path / "elsewhere" / "new")) == ["t-0"]
    assert contents(copy) == before
    assert names(rewrite(VERB, copy)) == ["t-0"]
    assert values(copy) == values(tmp_path, "elsewhere", "new") == LEFT
    assert sorted(path.name for path in copy.parent.iterdir()) == ["new", "t-0"]


def test_a_copy_takes_an_interrupted_swap_for_what_it_is(data, tmp_path):
    """By the lower `.cleaned` file the `.swap` is not complete: without it, the copy would lose the last segment."""
    (data / ".kafka_cleanshutdown").unlink()
    for kind in ("log", "index", "timeindex"):
        (data / "t-0" / f"{3:020d}.{kind}.cleaned").touch()
        (data / "t-0" / f"{6:020d}.{kind}.swap").write_bytes(b"")
    rewrite(VERB, data, topics=["t"], output=tmp_path / "new")
    assert values(tmp_path, "new", "t-0") == LEFT


def test_a_start_offset_that_no_file_holds_is_told(data, tmp_path):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.log("t", 0).run(bl.Retention(before_offset=4))
    (result,) = rewrite(VERB, data / "t-0", output=tmp_path / "copy")
    assert result.unkept_log_start_offset == 4
    (result,) = rewrite(VERB, data, topics=["t"], partitions=[0], output=tmp_path / "new")
    assert result.unkept_log_start_offset is None
    assert bl.LogDirFiles(str(tmp_path / "new")).log_start_offsets == {("t", 0): 4}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_dry_run_changes_nothing(data, is_clean):
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    before = contents(data)
    dry = rewrite(VERB, data, topics=["t"], dry_run=True)
    assert contents(data) == before
    done = rewrite(VERB, data, topics=["t"])
    assert [(result.name, result.report) for result in dry] == [(result.name, result.report) for result in done]


def test_a_log_that_would_first_be_cut_is_refused_and_left_alone(data):
    """The verb may refuse it then, and has to have changed nothing."""
    (data / ".kafka_cleanshutdown").unlink()
    with (data / "t-0" / f"{6:020d}.log").open("ab") as file:
        file.write(b"cut")
    before = contents(data)
    for dry_run in (True, False):
        with pytest.raises(bl.errors.CorruptRecordError, match=r"needs recovery first.*brokerless recover"):
            rewrite(VERB, data, topics=["t"], dry_run=dry_run)
    assert contents(data) == before
    list(recovered(str(data)))
    rewrite(VERB, data, topics=["t"])
    assert values(data, "t-0") == LEFT


def test_a_dry_run_says_nothing_of_a_log_that_is_refused(data):
    """Cut under the clean-shutdown marker: a broker would lose data without a word."""
    os.truncate(data / "t-0" / f"{6:020d}.log", 30)
    with pytest.raises(bl.errors.CorruptRecordError):
        rewrite(VERB, data, topics=["t"])
    with pytest.raises(bl.errors.CorruptRecordError):
        rewrite(VERB, data, topics=["t"], dry_run=True)


def test_a_copy_of_one_partition_goes_by_its_topics_settings(tmp_path):
    """Else limits that a dry run says do not apply empty the copy."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=250, cleanup_policy="compact")
        for i in range(9):
            log_dir.log("t", 0).append(batch(0, [b"%d" % i], keys=[b"k"]))
    verb = bl.Retention(retention_bytes=0)
    (dry,) = rewrite(verb, tmp_path / "data" / "t-0", dry_run=True)
    (done,) = rewrite(verb, tmp_path / "data" / "t-0", output=tmp_path / "copy")
    assert done.report == dry.report
    assert values(tmp_path, "copy") == list(range(9))


@pytest.mark.parametrize(
    "verb",
    [
        bl.Compaction(roll=True, drop_null_keys=True, cleanup_policy="compact"),
        bl.Truncation(offset=3),
        bl.Truncation(timestamp=NOW + 3),
    ],
)
def test_a_dry_run_reports_the_same_of_a_preallocated_segment(tmp_path, verb):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 12, preallocate=True)
        log_dir.log("t", 0).append(batch(0, [b"x"], timestamp=NOW))
        log_dir.log("t", 0).roll()
    (dry,) = rewrite(verb, tmp_path / "data", topics=["t"], dry_run=True)
    (done,) = rewrite(verb, tmp_path / "data", topics=["t"], output=tmp_path / "copy")
    assert done.report == dry.report


@pytest.mark.parametrize(
    "verb", [bl.Retention(retention_bytes=200), bl.Conversion(magic=1, drop=frozenset({"producers"}))]
)
def test_what_is_preallocated_counts_for_nothing(tmp_path, verb):
    """Else its zeros are more than what is to be kept, and all that is kept goes; or they are taken for damage."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", segment_bytes=1 << 12, preallocate=True)
        for i in range(5):
            log_dir.log("t", 0).append(batch(0, [b"%d" % i], timestamp=NOW + i))
            log_dir.log("t", 0).roll()
    (dry,) = rewrite(verb, tmp_path / "data", topics=["t"], dry_run=True)
    (done,) = rewrite(verb, tmp_path / "data", topics=["t"])
    assert done.report == dry.report
    assert values(tmp_path, "data", "t-0") == list(range(5))[2 if isinstance(verb, bl.Retention) else 0 :]


def test_a_dry_run_makes_no_directory_for_a_partition_that_was_only_created(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 2)
        log_dir.log("t", 0)
    before = contents(tmp_path / "data")
    assert names(rewrite(DropBatches(()), tmp_path / "data", topics=["t"], dry_run=True)) == ["t-0"]
    assert contents(tmp_path / "data") == before
    assert names(rewrite(DropBatches(()), tmp_path / "data", topics=["t"])) == ["t-0", "t-1"]


def test_processes_give_the_same_result_as_one(data, tmp_path):
    shutil.copytree(data, tmp_path / "other")
    read = {}

    def progress(name, count):
        read[name] = read.get(name, 0) + count

    one = rewrite(VERB, data, topics=["t"])
    two = rewrite(VERB, tmp_path / "other", topics=["t"], jobs=2, progress=progress)
    assert sorted(two, key=lambda result: result.name) == one
    assert read == {"t-0": 6 * 69, "t-1": 6 * 69}
    for name in ("t-0", "t-1"):
        assert contents(tmp_path / "other" / name) == contents(data / name)


@pytest.mark.parametrize("fails", [True, False])
def test_work_that_is_done_twice_counts_once(data, tmp_path, fails):
    shutil.copytree(data, tmp_path / "other")
    rewrite(VERB, data, topics=["t"])
    list(rewrite_each(VERB, [tmp_path / "other"], topics=["t"], runner=Repeating(fails=fails)))
    for name in ("t-0", "t-1"):
        assert contents(tmp_path / "other" / name) == contents(data / name)
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == sorted(path.name for path in data.iterdir())


def test_attempts_at_what_is_refused_are_removed(data):
    before = contents(data)
    with pytest.raises(ValueError, match=r"refused: .*/t-1"):
        list(rewrite_each(Refusing((1, 4), (2,)), [data], topics=["t"], partitions=[1], runner=Repeating()))
    assert contents(data / "t-1") == {name[4:]: content for name, content in before.items() if name.startswith("t-1/")}
    assert not list(data.glob("t-1.*"))


def test_a_partition_alone_has_its_attempts_beside_it(data, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copytree(data / "t-0", tmp_path / "elsewhere" / "t-0")
    list(rewrite_each(VERB, [copy], runner=Repeating()))
    assert values(copy) == LEFT
    assert [path.name for path in copy.parent.iterdir()] == ["t-0"]


def test_several_log_directories(data, tmp_path):
    """A topic may be in any of them; one that has none of the topics is not even locked."""
    other = shutil.copytree(data, tmp_path / "other")
    shutil.rmtree(other / "u-0")
    with bl.create_log_dir(tmp_path / "none"):
        results = list(rewrite_each(VERB, [data, other, tmp_path / "none"], topics=["t", "u"], partitions=[0]))
    assert names(results) == ["t-0", "u-0", "t-0"]
    assert values(data, "t-0") == values(other, "t-0") == LEFT
    with pytest.raises(ValueError, match="unknown topic 'v'"):
        list(rewrite_each(VERB, [data, other], topics=["t", "v"]))


def test_a_resumed_rewrite_does_not_repeat_finished_partitions(data, tmp_path):
    """Unless something has been written to it since."""
    state = str(tmp_path / "done.jsonl")
    with pytest.raises(ValueError, match="refused"):
        list(rewrite_each(Refusing((1, 4), (2,)), [data], topics=["t"], progress_file=ProgressFile(state, "drop")))
    assert values(data, "t-0") == LEFT
    again = ProgressFile(state, "drop")
    assert names(rewrite_each(VERB, [data], topics=["t"], progress_file=again)) == ["t-1"]
    assert again.skipped == 1
    assert names(rewrite_each(VERB, [data], topics=["t"], progress_file=ProgressFile(state, "other work"))) == [
        "t-0",
        "t-1",
    ]
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log_dir.log("t", 0).append(batch(0, [b"9"], timestamp=NOW))
    assert names(rewrite_each(VERB, [data], topics=["t"], progress_file=ProgressFile(state, "other work"))) == ["t-0"]


def test_a_ledger_whose_last_line_was_cut(data, tmp_path):
    state = tmp_path / "done.jsonl"
    list(rewrite_each(VERB, [data], topics=["t"], progress_file=ProgressFile(str(state), "drop")))
    state.write_bytes(state.read_bytes()[:-20])
    assert names(rewrite_each(VERB, [data], topics=["t"], progress_file=ProgressFile(str(state), "drop"))) == ["t-1"]
    assert names(rewrite_each(VERB, [data], topics=["t"], progress_file=ProgressFile(str(state), "drop"))) == []
    state.write_text("something else\n")
    with pytest.raises(bl.errors.CorruptRecordError, match=r"line 1 is no line of a resume file.* at .*done\.jsonl"):
        ProgressFile(str(state), "drop")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("to", ["new", None])
def test_what_fails_leaves_the_logs_as_they_were(data, tmp_path, jobs, to):
    before = contents(data)
    with pytest.raises(ValueError, match=r"refused: .*/t-1"):
        rewrite(Refusing((1, 4), (2,)), data, topics=["t"], jobs=jobs, output=to and tmp_path / to)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert not list(data.rglob("*.cleaned"))
    assert values(data, "t-1") == list(range(9))
    # with the other in a process of its own, either may come to its end first
    assert values(data, "t-0") in ([LEFT] if (to, jobs) == (None, 1) else [LEFT, list(range(9))])
    if to:
        assert contents(data) == before
    assert bl.LogDirFiles(str(data)).is_clean


def test_a_worker_that_is_killed_leaves_the_logs_as_they_were(data):
    with pytest.raises(OSError, match="a worker process ended: it was killed, perhaps for lack of memory"):
        rewrite(Dying((1, 4), (2,)), data, topics=["t"], jobs=2)
    assert values(data, "t-0") == values(data, "t-1") == list(range(9))
    assert not list(data.rglob("*.cleaned"))
    assert bl.LogDirFiles(str(data)).is_clean


@pytest.mark.parametrize(
    ("topics", "partitions", "message"),
    [
        (None, None, "no topic named: .* as --topic orders; '[*]' stands for all"),
        (["tt"], None, "unknown topic 'tt': did you mean 't'"),
        (["u"], [1], "unknown partition 1: there is 0"),
        (["__cluster_metadata"], None, "unknown topic '__cluster_metadata'"),
    ],
)
def test_topics_and_partitions_that_cannot_be_rewritten_are_refused(data, topics, partitions, message):
    (data / "__cluster_metadata-0").mkdir()
    with pytest.raises(ValueError, match=message):
        rewrite(VERB, data, topics=topics, partitions=partitions)


def test_a_copy_never_overwrites_nor_lands_in_a_partition(data, tmp_path):
    (tmp_path / "new").mkdir()
    with pytest.raises(FileExistsError):
        rewrite(VERB, data, topics=["t"], output=tmp_path / "new")
    with pytest.raises(FileNotFoundError, match=r"create it first: .*missing'$"):
        rewrite(VERB, data, topics=["t"], output=tmp_path / "missing" / "new")
    with pytest.raises(ValueError, match="neither a log directory nor a partition"):
        rewrite(VERB, tmp_path / "new")
    with bl.open_log_dir(data, sole_replica=True), pytest.raises(bl.errors.LogInUseError):
        rewrite(VERB, data, topics=["t"], output=tmp_path / "newer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "new"]


@pytest.mark.parametrize(("named", "topics"), [(".", ["t"]), ("t-0", None)])
def test_an_error_of_a_copy_names_what_was_copied(data, tmp_path, named, topics):
    log = min((data / "t-0").glob("*.log"))
    flip_bit(log, -1)
    with pytest.raises(bl.errors.CorruptRecordError) as raised:
        rewrite(Conversion(compression="zstd"), data / named, topics=topics, output=tmp_path / "new")
    assert os.path.samefile(raised.value.path, log)
    assert "-delete" not in str(raised.value)


@pytest.mark.parametrize("tail", ["zeros", "part of a batch"])
@pytest.mark.parametrize(
    "operation",
    [
        bl.Conversion(compression="zstd"),
        bl.Compaction(cleanup_policy="compact"),
        bl.Retention(before_offset=1),
        bl.Erasure(keys=(b"a",)),
        bl.Truncation(offset=1),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_a_dry_run_beside_a_writer_takes_a_batch_that_is_being_appended_for_none(tmp_path, operation, tail):
    with bl.create_log_dir(tmp_path / "d") as log_dir:
        log_dir.create_topic("t")
        log = log_dir.log("t", 0)
        log.append(batch(0, [b"x", b"y"]))
        file = tmp_path / "d" / "t-0" / f"{0:020d}.log"
        whole = file.read_bytes()
        file.write_bytes(whole + (bytes(5000) if tail == "zeros" else whole[:30]))
        with pytest.warns(UserWarning, match="in use"):
            (done,) = bl.rewrite(operation, tmp_path / "d", topics=["t"], dry_run=True)
        assert done.name == "t-0"
        damaged = bytearray(whole)
        damaged[-1] ^= 1
        file.write_bytes(damaged + whole)
        with pytest.warns(UserWarning, match="in use"), pytest.raises(bl.errors.LogInUseError, match="try again"):
            bl.rewrite(operation, tmp_path / "d", topics=["t"], dry_run=True)
        file.write_bytes(whole)


def test_a_time_index_with_garbage_does_not_stop_a_truncation(tmp_path):
    """A broker could not close the log: nothing goes behind an entry with a later time (TimeIndex.maybeAppend)."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", index_interval_bytes=0)
        for at in range(10):
            log_dir.log("t", 0).append(batch(0, [b"v"], timestamp=NOW + at))
    path = tmp_path / "data/t-0/00000000000000000000.timeindex"
    entries = path.read_bytes()
    path.write_bytes(b"".join(b"\x39" * 8 + entries[at + 8 : at + 12] for at in range(0, len(entries), 12)))
    list(bl.rewrite(bl.Truncation(offset=6), tmp_path / "data", topics=["t"], output=tmp_path / "to"))
    assert [one for one in bl.check(tmp_path / "to", level="deep") if one.severity != "note"] == []
    assert bl.Log(tmp_path / "to/t-0").log_end_offset == 6
