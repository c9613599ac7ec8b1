"""A transaction's rows are all committed or none, whoever fails, is killed or is fenced."""

import shutil

import pytest

import brokerless as bl
from brokerless.log_dir import writer
from brokerless.log_dir.transactional_ids import FILE
from support.sent_records import values


def test_only_committed_rows_are_read_committed(tmp_path):
    with bl.Producer(tmp_path / "d", "t", partitions=2, transactional_id="loader") as producer:
        with producer.transaction():
            producer.send([{"key": b"%d" % i, "value": b"kept"} for i in range(20)])
        producer.begin()
        producer.send([{"key": b"%d" % i, "value": b"dropped"} for i in range(20)])
        producer.flush()
        producer.abort()
        with producer.transaction():
            producer.send([{"key": b"%d" % i, "value": b"kept too"} for i in range(20)])
    assert sorted(values(tmp_path / "d", "read_committed")) == [b"kept"] * 20 + [b"kept too"] * 20
    assert len(values(tmp_path / "d")) == 60
    for log in bl.LogDirs(tmp_path / "d").logs():
        assert log.last_stable_offset == log.log_end_offset


def send_and_fail(producer):
    with producer.transaction():
        producer.send([{"value": b"dropped"}])
        producer.flush()
        raise KeyError


def test_an_exception_aborts_the_transaction(tmp_path):
    with bl.Producer(tmp_path / "d", "t", transactional_id="loader") as producer:
        with pytest.raises(KeyError):
            send_and_fail(producer)
        with producer.transaction():
            producer.send([{"value": b"kept"}])
    assert values(tmp_path / "d", "read_committed") == [b"kept"]


def test_a_new_producer_with_the_id_fences_the_old_one_and_aborts_what_it_left(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        old = bl.Producer(directory, "t", transactional_id="loader")
        old.begin()
        old.send([{"value": b"dropped"}])
        old.flush()
        new = bl.Producer(directory, "t", transactional_id="loader")
        assert new.producer_id == old.producer_id
        old.send([{"value": b"never"}])
        with pytest.raises(bl.errors.InvalidProducerEpochError, match="newer producer: epoch 0, now 1"):
            old.commit()
        with new.transaction():
            new.send([{"value": b"kept"}])
    assert values(tmp_path / "d", "read_committed") == [b"kept"]
    assert values(tmp_path / "d") == [b"dropped", b"kept"]


def test_a_commit_that_a_crash_cut_short_is_finished_when_the_directory_is_opened(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        producer = bl.Producer(directory, "t", partitions=2, transactional_id="loader")
        producer.begin()
        producer.send([{"value": b"%d" % i, "partition": i % 2} for i in range(10)])
        producer.flush()
        states = directory.transactional_ids._states
        states["loader"].outcome = "commit"  # decided, and then the power failed
        directory.transactional_ids._write()
    with bl.open_log_dir(tmp_path / "d"):
        pass
    assert len(values(tmp_path / "d", "read_committed")) == 10
    assert b'"open"' in (tmp_path / "d" / FILE).read_bytes()


def test_a_transaction_is_needed_and_only_one(tmp_path):
    with bl.Producer(tmp_path / "d", "t", transactional_id="loader") as producer:
        with pytest.raises(ValueError, match="call begin first"):
            producer.send([{"value": b"a"}])
        producer.begin()
        with pytest.raises(ValueError, match="open already"):
            producer.begin()
        producer.abort()
        with pytest.raises(ValueError, match="no transaction is open"):
            producer.commit()
    with bl.Producer(tmp_path / "d", "t") as plain, pytest.raises(ValueError, match="not a transactional producer"):
        plain.begin()


def test_a_transaction_with_a_refused_row_is_aborted(tmp_path):
    """An open one would hold back everything behind it, for a broker that knows nothing of its producer."""

    def send_nowhere(producer):
        with producer.transaction():
            producer.send([{"value": b"dropped"}])
            producer.flush()
            producer.send([{"value": b"nowhere", "partition": 9}])
            producer.flush()

    producer = bl.Producer(tmp_path / "d", "t", transactional_id="loader")
    with producer, pytest.raises(ValueError, match="no partition 9"):
        send_nowhere(producer)
    log = bl.LogDirs(tmp_path / "d").log("t", 0)
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2)
    assert values(tmp_path / "d", "read_committed") == []


def test_a_commit_that_failed_halfway_is_finished_and_not_aborted(tmp_path):
    with bl.create_log_dir(tmp_path / "d") as directory:
        producer = bl.Producer(directory, "t", partitions=2, transactional_id="loader")
        producer.begin()
        producer.send([{"value": b"%d" % i, "partition": i} for i in range(2)])
        second = directory.log("t", 1)
        real = type(second).append

        def append(log, *arguments, origin="client", **options):
            if log is second and origin == "coordinator":
                raise ZeroDivisionError
            return real(log, *arguments, origin=origin, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(second), "append", append)
            with pytest.raises(ZeroDivisionError):
                producer.commit()
        producer.close()
        bl.Producer(directory, "t", transactional_id="loader").close()
    assert values(tmp_path / "d", "read_committed") == [b"0", b"1"]


def test_transactional_ids_are_read_under_the_lock(tmp_path, monkeypatch):
    """What the last holder of the lock wrote must be seen: else its epoch is given twice."""
    with bl.Producer(tmp_path / "d", "t", transactional_id="loader"):
        pass
    path = tmp_path / "d" / FILE
    real = writer.Lock

    def lock(name):
        path.write_text(path.read_text().replace('"producer_epoch": 0', '"producer_epoch": 7'))
        return real(name)

    monkeypatch.setattr(writer, "Lock", lock)
    with bl.open_log_dir(tmp_path / "d") as directory:
        assert directory.transactional_ids.start("loader")[1] == 8


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"version":0,"transactional_ids":{"x":{"producer_id":"a","producer_epoch":0,"outcome":"open","partitions":[]}}}',
        '{"version":0,"transactional_ids":{"x":{"producer_id":1,"producer_epoch":0,"outcome":"no","partitions":[]}}}',
        '{"version":0,"transactional_ids":{"x":{"producer_id":1e9,"producer_epoch":0,"outcome":"open","partitions":[]}}}',
    ],
)
def test_a_damaged_file_of_transactional_ids_is_refused_as_such(tmp_path, content):
    with bl.Producer(tmp_path / "d", "t"):
        pass
    (tmp_path / "d" / FILE).write_text(content)
    with pytest.raises(bl.errors.CorruptRecordError, match="transactional ids cannot be read"):
        bl.open_log_dir(tmp_path / "d")
    assert bl.LogDirFiles(str(tmp_path / "d")).is_clean


def test_a_transaction_whose_producer_was_killed_is_aborted_when_the_directory_is_opened(tmp_path):
    """Else it would hold back everything behind it, until somebody takes its id again."""
    directory = bl.create_log_dir(tmp_path / "d")
    producer = bl.Producer(directory, "t", partitions=2, transactional_id="loader")
    producer.begin()
    producer.send([{"value": b"dropped", "partition": i} for i in range(2)])
    producer.flush()
    directory._unlock()  # as a kill leaves it
    with bl.open_log_dir(tmp_path / "d"):
        pass
    for log in bl.LogDirs(tmp_path / "d").logs(["t"]):
        assert log.last_stable_offset == log.log_end_offset == 2
    assert values(tmp_path / "d", "read_committed") == []


def test_a_deleted_partition_needs_no_marker(tmp_path):
    directory = bl.create_log_dir(tmp_path / "d", kraft=False)
    producer = bl.Producer(directory, "t", partitions=2, transactional_id="loader")
    producer.begin()
    producer.send([{"value": b"dropped", "partition": i} for i in range(2)])
    producer.flush()
    directory._unlock()
    shutil.rmtree(tmp_path / "d" / "t-1")
    with bl.open_log_dir(tmp_path / "d") as again:
        assert again.log("t", 0).last_stable_offset == 2
