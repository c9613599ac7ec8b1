"""Small cases with the results of Kafka's own classes: what they read, we read; what they refuse, we refuse."""

import re

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.layout import checkpoints, file_names
from support.kafka_answers import TIMESTAMP_TYPES, broker_cases, producers, text


def write_log(directory, segments):
    directory.mkdir(parents=True)
    for segment in segments:
        stem = directory / f"{segment['baseOffset']:020d}"
        stem.with_suffix(".log").write_bytes(bytes.fromhex(segment["hex"]))
        if "txnindex" in segment:
            fields = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
            entries = [b"\0\0" + b"".join(e[f].to_bytes(8, "big") for f in fields) for e in segment["txnindex"]]
            stem.with_suffix(".txnindex").write_bytes(b"".join(entries))
    return directory


def test_the_cases_are_all_there():
    counts = {
        "dir-name": 22,
        "index-open": 15,
        "offset-index": 6,
        "time-index": 5,
        "txn-index": 3,
        "producer-snapshot-read": 12,
        "checkpoint-read": 30,
        "partition-metadata-read": 16,
        "clean-shutdown-file": 9,
        "dir-name-make": 6,
        "checkpoint-write": 2,
        "leader-epoch-checkpoint": 11,
        "partition-metadata-write": 1,
        "offset-for-timestamp": 5,
        "read": 1,
    }
    assert {kind: len(broker_cases(kind)) for kind in counts} == counts


@pytest.mark.parametrize("case", broker_cases("dir-name"))
def test_directory_names(case):
    if case["result"] == "OK":
        parsed = file_names.parse_directory_name(case["dir"])
        assert (parsed.topic, parsed.partition) == (case["topic"], case["partition"])
    else:
        with pytest.raises(ValueError, match="not a partition directory"):
            file_names.parse_directory_name(case["dir"])


@pytest.mark.parametrize("case", broker_cases("checkpoint-read"))
def test_checkpoints(case):
    is_epochs = case["file"] == checkpoints.LEADER_EPOCHS
    parse = checkpoints.parse_leader_epochs if is_epochs else checkpoints.parse_offset_checkpoint
    content = case["text"].encode()
    if case["result"] != "OK":
        with pytest.raises(bl.errors.CorruptRecordError):
            parse(content)
    elif is_epochs:
        assert parse(content) == [(entry["epoch"], entry["startOffset"]) for entry in case["entries"]]
    else:
        found = {f"{topic}-{partition}": offset for (topic, partition), offset in parse(content).items()}
        assert found == {entry["partition"]: entry["offset"] for entry in case["entries"]}


@pytest.mark.parametrize("case", broker_cases("partition-metadata-read"))
def test_partition_metadata(case):
    content = case["text"].encode()
    if case["result"] == "OK":
        assert checkpoints.parse_partition_metadata(content) == (case["version"], case["topicId"])
    else:
        with pytest.raises(bl.errors.CorruptRecordError):
            checkpoints.parse_partition_metadata(content)


@pytest.mark.parametrize("case", [case for case in broker_cases("clean-shutdown-file") if "clean" in case.values[0]])
def test_clean_shutdown_marker(case, tmp_path):
    (tmp_path / ".kafka_cleanshutdown").write_text(case["text"])
    root = bl.LogDirFiles(str(tmp_path))
    assert root.is_clean is case["clean"]
    assert root.broker_epoch == case["brokerEpoch"]


@pytest.mark.parametrize("case", broker_cases("dir-name-make"))
def test_names_of_directories_that_do_not_count(case):
    topic = "t" if case["topicLength"] == 1 else "x" * case["topicLength"]
    name = file_names.leftover_directory_name(topic, case["partition"], case["kind"], "0123456789abcdef" * 2)
    assert len(name) == case["length"]
    assert re.sub("xx+", "x*", name).replace("0123456789abcdef" * 2, "<32hex>") == case["pattern"]
    assert file_names.parse_directory_name(name).leftover == case["kind"]


@pytest.mark.parametrize("case", broker_cases("checkpoint-write"))
def test_checkpoints_as_kafka_writes_them(case):
    entries = {(case["topic"], case["partition"]): case["offset"]} if "topic" in case else {}
    assert checkpoints.format_offset_checkpoint(entries) == case["text"].encode()


@pytest.mark.parametrize("case", broker_cases("leader-epoch-checkpoint"))
def test_leader_epochs_as_kafka_writes_them(case):
    if not case["ops"]:
        assert case["fileText"] == ""  # what was never written to
        return
    entries = [checkpoints.LeaderEpoch(entry["epoch"], entry["startOffset"]) for entry in case["ops"][-1]["entries"]]
    assert checkpoints.format_leader_epochs(entries) == case["fileText"].encode()


@pytest.mark.parametrize("case", broker_cases("partition-metadata-write"))
def test_partition_metadata_as_kafka_writes_it(case):
    assert checkpoints.format_partition_metadata(case["topicId"]) == case["text"].encode()


@pytest.mark.parametrize("case", [c for c in broker_cases("clean-shutdown-file") if "clean" not in c.values[0]])
def test_the_marker_as_kafka_writes_it(case):
    assert checkpoints.format_clean_shutdown(case["brokerEpoch"]) == case["text"].encode()


@pytest.mark.parametrize("case", broker_cases("offset-index"))
def test_offset_index_look_ups(case):
    index = _native.OffsetIndex(bytes.fromhex(case["hex"]), case["baseOffset"])
    assert len(index) == case["entries"]
    assert index.last_offset == case["lastOffset"]
    for lookup in case["lookup"]:
        assert index.lookup(lookup["offset"]) == (lookup["foundOffset"], lookup["position"])
    for bound in case["fetchUpperBoundOffset"]:
        assert index.upper_bound(bound["position"], bound["size"]) == bound["offset"]


@pytest.mark.parametrize("case", broker_cases("time-index"))
def test_time_index_look_ups(case):
    index = _native.TimeIndex(bytes.fromhex(case["hex"]), case["baseOffset"])
    assert len(index) == case["entries"]
    for lookup in case["lookup"]:
        assert index.lookup(lookup["timestamp"]) == (lookup["foundTimestamp"], lookup["offset"])


@pytest.mark.parametrize("case", broker_cases("txn-index"))
def test_transaction_index_collect(case):
    index = _native.TransactionIndex(bytes.fromhex(case["hex"]), case["baseOffset"])
    for collect in case["collect"]:
        found = [(e["producerId"], e["firstOffset"], e["lastOffset"]) for e in collect["found"]]
        assert index.collect(collect["fetchOffset"], collect["upperBound"]) == (found, collect["complete"])
    assert_sanity(index, case["sanityCheck"])


@pytest.mark.parametrize("case", broker_cases("index-open"))
def test_an_index_file_opened_as_it_is(case):
    content, base_offset = bytes.fromhex(case["hex"]), case["baseOffset"]
    if case["file"] == "index":
        index = _native.OffsetIndex(content, base_offset, raw=True)
        assert (len(index), index.last_offset) == (case["entries"], case["lastOffset"])
    elif case["file"] == "timeindex":
        index = _native.TimeIndex(content, base_offset, raw=True)
        assert (len(index), index.last_entry) == (case["entries"], (case["lastTimestamp"], case["lastOffset"]))
    elif "read" in case:
        with pytest.raises(bl.errors.UnsupportedFormatError):
            _native.TransactionIndex(content, base_offset).entries()
        return
    else:
        index = _native.TransactionIndex(content, base_offset)
        assert len(index) == index.entries().num_rows == case["entries"]
    assert_sanity(index, case["sanityCheck"])


def assert_sanity(index, result):
    if result == "OK":
        index.sanity_check()
    else:
        with pytest.raises(bl.errors.CorruptRecordError):
            index.sanity_check()


@pytest.mark.parametrize("case", broker_cases("producer-snapshot-read"))
def test_producer_snapshots(case):
    content = bytes.fromhex(case["hex"])
    if case["result"] != "OK":
        with pytest.raises(bl.errors.CorruptRecordError):
            _native.producer_snapshot(content)
        return
    assert _native.producer_snapshot(content).to_pylist() == producers(case["entries"])


def times_cases():
    cases = {param.values[0]["name"]: param.values[0] for param in broker_cases("offset-for-timestamp")}
    for name, case in cases.items():
        _, _, other = case.get("segmentsAsIn", f"/{name}").partition("/")
        segments = cases[other].get("segments", [{"baseOffset": 0, "hex": ""}])
        yield pytest.param(case, segments, id=name)


@pytest.mark.parametrize(("case", "segments"), list(times_cases()))
def test_offset_for_timestamp(case, segments, tmp_path):
    directory = write_log(tmp_path / "t-0", segments)
    epochs = {}
    for segment in segments:
        for batch in segment.get("batches", []):
            epochs.setdefault(batch["leaderEpoch"], batch["baseOffset"])
    lines = [f"{epoch} {start}\n" for epoch, start in epochs.items()]
    (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {case.get('logStartOffset', 0)}\n")
    log = bl.Log(directory)
    for lookup in case.get("lookups", [{"timestamp": -3, "offset": None}]):
        answer = log.offsets_for_times(lookup["timestamp"])
        if lookup["offset"] is None:
            # only a file's modification time could be late enough here, and then nothing in it is
            assert answer == (-1, -1, None), lookup
        else:
            epoch = lookup.get("leaderEpoch", 0)
            assert answer == (lookup["offset"], lookup["foundTimestamp"], None if epoch < 0 else epoch), lookup


@pytest.mark.parametrize("case", broker_cases("read"))
def test_reads_start_with_the_right_batch_and_leave_out_aborted_ones(case, tmp_path):
    log = bl.Log(write_log(tmp_path / "t-0", case["segments"]))
    assert (log.log_end_offset, log.last_stable_offset) == (case["logEndOffset"], case["lastStableOffset"])
    records = {
        f"{batch['baseOffset']}-{batch['lastOffset']}": batch
        for segment in case["segments"]
        for batch in segment["batches"]
    }
    for read in case["reads"]:
        if "error" in read:
            with pytest.raises(bl.errors.OffsetOutOfRangeError) as caught:
                log.read(start_offset=read["offset"], isolation_level=read["isolation"])
            assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, case["logEndOffset"])
            continue
        is_committed = read["isolation"] == "read_committed"
        expected = [
            (record["offset"], text(record["key"].encode()), text(record["value"].encode()))
            for batch in (records[name] for name in read["batches"])
            if not batch.get("control") and not (is_committed and batch.get("producerId") == 1)
            for record in batch["records"]
            if record["offset"] >= read["offset"]
        ]
        reader = log.read(read["offset"], isolation_level=read["isolation"], columns=["offset", "key", "value"])
        rows = [(r["offset"], text(r["key"]), text(r["value"])) for batch in reader for r in batch.to_pylist()]
        # Kafka's read ends with its segment or its byte limit, ours with the log
        assert rows[: len(expected)] == expected, read
        if read["bytes"] == 0:
            assert rows == []


def test_timestamp_types_have_kafkas_ids():
    assert TIMESTAMP_TYPES == {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def clean_loads():
    """Return those that Kafka loads without recovery: with it, it may change what is there, which a reader does not."""
    return [param for param in broker_cases("load") if param.values[0]["clean"] and param.values[0]["result"] == "OK"]


# Of what a broker deletes.
@pytest.mark.filterwarnings("ignore:t-0 ends at .* below its start offset:UserWarning")
@pytest.mark.parametrize("case", clean_loads())
def test_a_reader_sees_what_kafkas_load_leaves(case, tmp_path):
    """Leftovers of cleanings, splits and deletions count as they do for a broker that starts, and nothing changes."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    for name, content in case["files"].items():
        if isinstance(content, dict):
            (directory / name).write_bytes(bytes.fromhex(content["hex"]) + bytes(content["zeroPad"]))
        else:
            (directory / name).write_bytes(bytes.fromhex(content))
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    start = case["logStartCheckpoint"]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n" if start else "0\n0\n")
    before = sorted(path.name for path in directory.iterdir())
    log = bl.Log(directory)
    state = case["state"]
    found = [
        (segment.base_offset, [f"{b['base_offset']}-{b['last_offset']}" for s in segment.scan() for b in s.to_pylist()])
        for segment in log.segments
    ]
    ends = (log.log_start_offset, log.log_end_offset)
    # Kafka starts an empty segment where there is none
    kept = [(segment["baseOffset"], segment["batches"]) for segment in state["segments"] if segment["size"]]
    if state["segments"][0]["baseOffset"] == start > 0 and not kept:
        assert ends == (start, start)
        assert [rows.num_rows for rows in log.read()] == []
    else:
        assert [segment for segment in found if segment[1]] == kept
        # a broker that trusts an index entry behind the file's end loses the log's end; a reader does not
        misled = {"index-last-entry-beyond-log-clean": 5, "clean-truncated-mid-batch": 2}
        assert log.log_end_offset == misled.get(case["name"], state["logEndOffset"])
    assert sorted(path.name for path in directory.iterdir()) == before
