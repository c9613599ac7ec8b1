"""A note reaches the caller once, wherever the caller stands: as a part of a result, or as a Python warning."""

import threading
import warnings

import pytest

import brokerless as bl
from brokerless.io.processes import Processes
from brokerless.io.runner import Threads
from brokerless.layout.lock import Lock
from brokerless.notes import collected, note, notes_to
from brokerless.wording import option, spark, worded_for
from support.damage import flip_bit
from support.log_files import batch, write_segment


def test_without_a_collector_a_note_is_a_warning_at_the_line_of_the_caller(tmp_path):
    """A line of this package tells a user nothing."""
    path = tmp_path / "t-0"
    write_segment(path, 0, [batch(0, [b"v"] * 4)])
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    with pytest.warns(UserWarning, match="t-0 ends at 4, below its start offset 9") as warned:
        end = bl.Log(path).log_end_offset
    assert end == 9
    assert [warning.filename for warning in warned] == [__file__]


def test_the_nearest_collector_has_a_note_alone():
    with collected() as outer:
        note("before")
        with collected() as inner:
            note("inside")
        with collected(forwards=True) as both:
            note("for both")
        note("after")
    assert (outer, inner, both) == (["before", "for both", "after"], ["inside"], ["for both"])


def test_a_note_that_is_handed_on_by_the_outermost_collector_is_a_warning():
    with pytest.warns(UserWarning, match="said") as warned, collected(forwards=True) as notes:
        note("said")
    assert notes == ["said"]
    assert [warning.filename for warning in warned] == [__file__]


def test_an_error_ends_a_collector():
    said = []
    with notes_to(said.append):
        with pytest.raises(KeyError), collected():
            raise KeyError
        note("still heard")
    assert said == ["still heard"]


def test_threads_of_a_pool_say_their_notes_where_their_caller_does():
    with collected() as notes, Threads(2) as threads:
        list(threads.map(note, ["one", "two"]))
    assert sorted(notes) == ["one", "two"]


@pytest.mark.parametrize("call", ["check", "repair"])
def test_a_call_that_runs_meanwhile_keeps_the_filters_of_warnings(tmp_path, call):
    """Filters are those of the process: two threads that set and restore them would lose the application's for good."""
    for name in ("one", "two"):
        write_segment(tmp_path / name / "t-0", 0, [batch(0, [b"v"])])
    before = list(warnings.filters)
    inside, is_over = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)
    seen = []

    def in_turn(name, waits):
        met = []

        def progress(*_):
            seen.append(list(warnings.filters))
            if not met:
                met.append(name)
                inside.wait()
                if waits:
                    is_over.wait()

        if call == "check":
            list(bl.check(tmp_path / name, progress=progress))
        else:
            bl.repair(tmp_path / name, dry_run=True, progress=progress)
        if not waits:
            is_over.wait()

    threads = [threading.Thread(target=in_turn, args=pair) for pair in (("one", True), ("two", False))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen
    assert all(filters == before for filters in seen)
    assert warnings.filters == before


def test_other_calls_keep_their_warnings_while_a_directory_is_served(tmp_path):
    path = tmp_path / "data" / "t-0"
    write_segment(path, 0, [batch(0, [b"v"])])
    before = list(warnings.filters)
    with bl.serve(tmp_path / "data"):
        with pytest.warns(UserWarning, match="of an application"):
            warnings.warn("of an application", stacklevel=1)
        assert warnings.filters == before
    assert warnings.filters == before


def test_results_have_the_notes_of_their_call(tmp_path):
    """A program that reads many directories looks there, not at its warnings."""
    path = tmp_path / "t-0"
    write_segment(path, 0, [batch(0, [b"v"] * 4), batch(4, [b"v"] * 4), batch(8, [b"v"] * 4)])
    flip_bit(path / f"{0:020d}.log", 180)
    with bl.Log(path).read(on_corrupt="skip", columns=["offset"]) as reader:
        list(reader)
    assert reader.notes == [str(lost) for lost in reader.lost] != []
    with pytest.warns(UserWarning, match="lost: offsets 4 to 7"):
        bl.Log(path).read(on_corrupt="skip", columns=["offset"]).read_all()
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"v"]))
    lock = Lock(str(tmp_path / "data" / ".lock"))
    with pytest.warns(UserWarning, match="may change the logs during the dry run"):
        (done,) = bl.rewrite(bl.Truncation(offset=0), tmp_path / "data", topics=["t"], dry_run=True)
    lock.release()
    assert ["in use" in text for text in done.notes] == [True]


def test_calls_in_other_processes_say_their_notes_here_in_the_words_of_the_caller():
    """On a worker's stderr, nobody knows what they belong to."""
    with worded_for(spark), Processes(2) as processes:
        with collected() as notes:
            assert list(processes.map(note, ["one", "two"])) == [None, None]
            future = processes.start(note, "three")
            processes.first_completed([future])
        assert list(processes.map(option, ["sole_replica"])) == ["soleReplica"]
    assert notes == ["one", "two", "three"]
