"""What opening a log for writing does to its files: the same as Kafka's loader, case by case."""

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.append.writer import LogWriter
from brokerless.layout import file_names
from brokerless.layout.topic_config import TopicConfig
from brokerless.recovery.loader import load
from support.kafka_answers import broker_cases, producers
from support.log_files import batch

NOW = 1_700_000_000_000
# What Kafka does silently, and we only do when told: see `losses`.
SILENT = {
    "clean-truncated-mid-batch",
    "index-last-entry-beyond-log-clean",
    "log-file-short-name",
    "log-start-beyond-leo",
}


def config_of(case):
    names = {
        "index.interval.bytes": "index_interval_bytes",
        "segment.index.bytes": "segment_index_bytes",
        "segment.bytes": "segment_bytes",
        "preallocate": "preallocate",
    }
    values = {names[key]: value for key, value in case["config"].items()}
    if "preallocate" in values:
        values["preallocate"] = values["preallocate"] == "true"
    return TopicConfig(remote_storage_enable=False, **values)


def write_files(case, directory):
    directory.mkdir()
    for name, content in case["files"].items():
        if isinstance(content, dict):
            (directory / name).write_bytes(bytes.fromhex(content["hex"]) + bytes(content["zeroPad"]))
        else:
            (directory / name).write_bytes(bytes.fromhex(content))


def load_case(case, directory):
    return load(
        str(directory),
        config_of(case),
        is_clean=case["clean"],
        recovery_point=case["recoveryPoint"],
        log_start_offset=case["logStartCheckpoint"] or None,
        now=case["now"],
    )


def indexes(directory, base_offset):
    index = _native.OffsetIndex(
        (directory / file_names.segment_file(base_offset, file_names.INDEX)).read_bytes(), base_offset, raw=True
    )
    times = _native.TimeIndex(
        (directory / file_names.segment_file(base_offset, file_names.TIMEINDEX)).read_bytes(), base_offset, raw=True
    )
    entries = [[row["offset"], row["position"]] for row in index.entries().to_pylist()]
    return entries, [[row["timestamp"], row["offset"]] for row in times.entries().to_pylist()]


def assert_state(state, loaded, directory):
    assert loaded.log_start_offset == state["logStartOffset"]
    assert loaded.log_end_offset == state["logEndOffset"]
    assert loaded.recovery_point == state["recoveryPoint"]
    assert loaded.base_offsets == [segment["baseOffset"] for segment in state["segments"]]
    for segment in state["segments"]:
        base_offset = segment["baseOffset"]
        log = directory / file_names.segment_file(base_offset, file_names.LOG)
        assert log.stat().st_size == segment["size"]
        found, times = indexes(directory, base_offset)
        # of very long indexes, the case holds the first two entries
        assert found[: len(segment["index"])] == segment["index"]
        assert len(found) == segment.get("indexEntries", len(segment["index"]))
        assert times[: len(segment["timeindex"])] == segment["timeindex"]
        assert len(times) == segment.get("timeindexEntries", len(segment["timeindex"]))
        txnindex = directory / file_names.segment_file(base_offset, file_names.TXNINDEX)
        content = txnindex.read_bytes().hex() if txnindex.exists() else ""
        assert content == segment.get("txnindexHex", "")
    assert [list(entry) for entry in loaded.leader_epochs.entries()] == state["epochs"]
    found = sorted(loaded.producers.entries().to_pylist(), key=lambda producer: producer["producer_id"])
    assert found == sorted(producers(state["producers"]), key=lambda producer: producer["producer_id"])


def test_the_cases_are_all_there():
    assert len(broker_cases("load")) == 103


@pytest.mark.parametrize("case", [param for param in broker_cases("load") if param.values[0]["result"] == "OK"])
def test_files_and_state_after_loading_are_kafkas(case, tmp_path):
    directory = tmp_path / "t-0"
    write_files(case, directory)
    loaded = load_case(case, directory)
    assert bool(loaded.losses) is (case["name"] in SILENT), loaded.losses
    loaded.changes.apply()
    live = [name for name in case["filesAfter"] if not name.endswith(".deleted") or ".checkpoint" in name]
    assert kafkas_files(directory) == sorted(live)
    assert_state(case["state"], loaded, directory)


def kafkas_files(directory):
    """Return the names in a directory, but for what a broker would have deleted and we set aside."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith(file_names.SET_ASIDE))


def opened_loads():
    """Return those that are opened: not where a broker would lose data, which is refused."""
    cases = [(param, param.values[0]) for param in broker_cases("load")]
    return [param for param, case in cases if case["result"] == "OK" and case["name"] not in SILENT]


@pytest.mark.parametrize("case", opened_loads())
def test_files_after_opening_and_closing_are_kafkas(case, tmp_path):
    directory = tmp_path / "t-0"
    write_files(case, directory)
    writer = LogWriter.open(
        str(directory),
        config=config_of(case),
        is_clean=case["clean"],
        recovery_point=case["recoveryPoint"],
        log_start_offset=case["logStartCheckpoint"] or None,
        recover=True,
        now=lambda: case["now"],
    )
    writer.close()
    assert kafkas_files(directory) == sorted(case["filesAfterClose"])


@pytest.mark.parametrize("case", [param for param in broker_cases("load") if param.values[0]["name"] in SILENT])
def test_what_a_broker_would_lose_silently_is_refused_and_left_alone(case, tmp_path):
    directory = tmp_path / "t-0"
    write_files(case, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(bl.errors.CorruptRecordError, match=r"would lose|records are missing"):
        LogWriter.open(
            str(directory),
            config=config_of(case),
            is_clean=case["clean"],
            log_start_offset=case["logStartCheckpoint"] or None,
        )
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("case", [param for param in broker_cases("load") if param.values[0]["result"] != "OK"])
def test_where_a_broker_refuses_to_start_we_say_so_and_change_nothing(case, tmp_path):
    directory = tmp_path / "t-0"
    write_files(case, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(bl.BrokerlessError, match="a broker does not start"):
        load_case(case, directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def segments_of_a_producer(directory):
    """Make three segments of one idempotent producer, a batch each, and damage behind the first."""
    directory.mkdir()
    with LogWriter.open(str(directory), config=TopicConfig(), is_clean=True) as log:
        for sequence in range(3):
            log.append(batch(0, [b"v"], timestamp=NOW, producer_id=1, producer_epoch=0, base_sequence=sequence))
            log.roll()
    with (directory / file_names.segment_file(0, file_names.LOG)).open("ab") as file:
        file.write(bytes(100))


def test_damage_before_segments_with_producer_snapshots(tmp_path):
    """The snapshot at the end of the damaged segment is the next one's too, which goes: both touch the file.

    Wherever a crash comes in between, the next start ends with the same files, and not with a gap.
    """

    def load_here(directory):
        return load(str(directory), TopicConfig(), is_clean=False, recovery_point=0, log_start_offset=0, now=NOW)

    segments_of_a_producer(tmp_path / "whole")
    changes = load_here(tmp_path / "whole").changes
    count = len(changes.steps)
    changes.apply()
    found = {name: (tmp_path / "whole" / name).read_bytes() for name in kafkas_files(tmp_path / "whole")}
    # As Kafka's own loader leaves it.
    assert sorted(found) == [
        *(file_names.segment_file(0, kind) for kind in (file_names.INDEX, file_names.LOG, file_names.TIMEINDEX)),
        file_names.segment_file(1, file_names.SNAPSHOT),
        "leader-epoch-checkpoint",
    ]
    for steps in range(count):
        crashed = tmp_path / str(steps)
        segments_of_a_producer(crashed)
        changes = load_here(crashed).changes
        del changes.steps[steps:]
        changes.apply()
        again = load_here(crashed)
        again.changes.apply()
        assert again.log_end_offset == 1
        assert {name: (crashed / name).read_bytes() for name in kafkas_files(crashed)} == found
        # Of what went nothing is lost.
        aside = b"".join(path.read_bytes() for path in sorted(crashed.glob(f"{file_names.SET_ASIDE}*")))
        assert [header["base_offset"] for header in _native.scan(aside)[0].to_pylist()] == [1, 2]
