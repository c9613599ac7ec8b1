"""Appends with the results of Kafka's own classes: what they store, we store; what they refuse, we refuse likewise."""

import pytest

import brokerless as bl
from brokerless import _native, errors
from support.kafka_answers import broker_cases, producers
from support.log_files import batch, marker
from support.memory_log import DEFAULTS, MemoryLog, T, everything, from_kafka, recovered, state

# Kafka's word -> ours, where it is not the same. What Kafka answers with "unknown server error" is an AppendError.
ERRORS = {
    "IllegalArgumentException": "AppendError",
    "UnsupportedOperationException": "AppendError",
    "KafkaException": "AppendError",
    # it looks into the missing header before its size is checked; here the size is seen first
    "IndexOutOfBoundsException": "CorruptRecordError",
}


def error_class(kafka):
    return getattr(errors, ERRORS.get(kafka, kafka.removesuffix("Exception") + "Error"))


def test_the_cases_are_all_there():
    counts = {
        "validate": 146,
        "append-sequence": 54,
        "txn-lso": 13,
        "txn-index-grouping": 6,
        "roll": 11,
        "index-write": 21,
        "leader-epoch-checkpoint": 11,
        "producer-snapshot": 6,
        "offset-index": 6,
        "time-index": 5,
        "txn-index": 3,
    }
    assert {kind: len(broker_cases(kind)) for kind in counts} == counts


@pytest.mark.parametrize("case", broker_cases("validate"))
def test_one_append(case):
    log = MemoryLog(log_end_offset=case["logEndOffsetBefore"], now=case["now"], **from_kafka(case["config"]))
    data, origin, epoch = bytes.fromhex(case["input"]), case["origin"].lower(), case["leaderEpoch"]
    if case["result"] not in ("OK", "EMPTY"):
        before = everything(log)
        with pytest.raises(error_class(case["result"])) as caught:
            log.append(data, origin=origin, leader_epoch=epoch)
        assert type(caught.value) is error_class(case["result"])
        assert [index for index, _ in getattr(caught.value, "record_errors", [])] == case.get("recordErrors", [])
        assert everything(log) == before
        return
    appended = log.append(data, origin=origin, leader_epoch=epoch)
    assert appended.count == (case["result"] == "OK")
    assert (appended.first_offset, appended.last_offset) == (case["firstOffset"], case["lastOffset"])
    assert (appended.max_timestamp, appended.log_append_time) == (case["maxTimestamp"], case["logAppendTime"])
    assert log.appender.log_end_offset == case["logEndOffset"]
    if "output" in case:
        assert log.bytes.hex() == case["output"]
    assert stored(log.bytes) == [expected_batch(batch) for batch in case.get("batches", [])]


def expected_batch(batch):
    fields = ("baseOffset", "lastOffset", "magic", "maxTimestamp")
    records = [[r["offset"], r["ts"], r.get("key"), r.get("value")] for r in batch["records"] if "type" not in r]
    return [*(batch[name] for name in fields), batch.get("codec", "none"), records]


def stored(data):
    """Return the batches as in `expected_batch`."""
    found = []
    text = lambda content: None if content is None else content.decode()  # noqa: E731
    for header in _native.scan(data)[0].to_pylist():
        decoder = _native.Decoder(["offset", "timestamp", "key", "value"])
        entry = data[header["position"] : header["position"] + header["size"]]
        try:
            rows, _ = decoder.decode(entry)
        except bl.errors.CorruptRecordError:
            rows = None  # a follower takes any body, and the case says it has no record
        records = [] if rows is None else rows.to_pylist()
        found.append(
            [
                *(header[name] for name in ("base_offset", "last_offset", "magic", "max_timestamp", "compression")),
                [[r["offset"], millis(r["timestamp"]), text(r["key"]), text(r["value"])] for r in records],
            ]
        )
    return found


def millis(timestamp):
    return timestamp if timestamp is None else round(timestamp.timestamp() * 1000)


def perform(log, step):
    op = step["op"]
    if op in ("data", "plain", "commit", "abort"):
        return log.append(built(step), origin=step["origin"].lower())
    if op == "reload":
        log.reload()
    elif op == "reload-unclean":
        log.recover()
    elif op == "roll":
        log.roll()
    elif op == "truncateTo":
        log.truncate(step["offset"])
    elif op == "logStart":
        log.move_log_start(step["offset"])
    elif op == "advanceClock":
        log.now += step["ms"]
    elif op == "removeExpiredProducers":
        log.appender.remove_expired_producers(log.now)
    else:
        assert op == "hw"
        log.appender.set_high_watermark(step["offset"])
    return None


def built(step):
    timestamp, offset = step.get("timestamp", T), step.get("baseOffset", 0)
    if step["op"] == "plain":
        return batch(offset, [b"v"] * step["count"], timestamp=timestamp, step=0)
    producer = {"producer_id": step["producerId"], "producer_epoch": step["producerEpoch"]}
    if step["op"] == "data":
        return batch(
            offset,
            [b"v"] * step["count"],
            timestamp=timestamp,
            step=0,
            base_sequence=step["baseSequence"],
            transactional=step["transactional"],
            **producer,
        )
    is_commit, coordinator = step["op"] == "commit", step["coordinatorEpoch"]
    return marker(offset, commit=is_commit, coordinator_epoch=coordinator, timestamp=timestamp, **producer)


@pytest.mark.parametrize("case", broker_cases("append-sequence", "txn-lso"))
def test_a_sequence_of_appends(case):
    log = MemoryLog()
    high_watermark = None
    if case["case"] == "txn-lso" and case["name"] != "spec-scenario":
        high_watermark = 0
    log.appender.set_high_watermark(high_watermark)
    for step in case["steps"]:
        if step["result"] in ("OK", "DUPLICATE"):
            appended = perform(log, step)
            if step["op"] == "hw":
                high_watermark = step["offset"]
            if appended is not None:
                assert (appended.first_offset, appended.last_offset) == (step["firstOffset"], step["lastOffset"])
                assert appended.is_duplicate is (step["result"] == "DUPLICATE")
                assert appended.log_append_time == step.get("logAppendTime", -1)
        else:
            before = everything(log)
            with pytest.raises(error_class(step["result"])):
                perform(log, step)
            assert everything(log) == before
        if step["op"].startswith("reload") or step["op"] == "truncateTo":
            # as checkpointed, which another appender is told again
            log.appender.set_high_watermark(high_watermark)
        assert state(log) == {name: step[name] for name in state(log)}, step
    found = log.appender.producers.entries().to_pylist()
    assert found == sorted(producers(case["producers"]), key=lambda entry: entry["producer_id"])
    assert txn_entries(log) == case["txnindex"]


def txn_entries(log):
    names = {
        "producerId": "producer_id",
        "firstOffset": "first_offset",
        "lastOffset": "last_offset",
        "lastStableOffset": "last_stable_offset",
    }
    return [
        {"segment": base} | {kafka: entry[ours] for kafka, ours in names.items()}
        for base, files in sorted(log.segments.items())
        for entry in _native.TransactionIndex(files["txnindex"], base).entries().to_pylist()
    ]


@pytest.mark.parametrize("case", broker_cases("txn-index-grouping"))
def test_transaction_index_entries_depend_on_what_is_appended_together(case):
    log = MemoryLog()
    for data in case["appendCalls"]:
        log.append(bytes.fromhex(data), origin=case["origin"].lower())
    assert log.segments[0]["txnindex"].hex() == case["hex"]


@pytest.mark.parametrize("case", broker_cases("index-write"))
def test_index_entries(case):
    log = MemoryLog(**from_kafka(case["config"]))
    for data in case["appendCalls"]:
        log.append(bytes.fromhex(data), origin="replication")
    log.close()
    files = log.segments[0]
    assert files["index"].hex() == case["indexHexAfterClose"]
    assert files["timeindex"].hex() == case["timeindexHexAfterClose"]
    recovery = recovered(files["log"], 0, config=log.config)
    assert (recovery.index, recovery.timeindex) == (bytes(files["index"]), bytes(files["timeindex"]))


@pytest.mark.parametrize("case", broker_cases("roll"))
def test_rolls(case):
    log = MemoryLog(**from_kafka(case.get("config", {})))
    if "batchOffsets" in case:
        requests = [batch(offset, [b"v"]) for offset in case["batchOffsets"]]
        origin = "replication"
    else:
        timestamps = case.get("batchTimestamps") or [T] * case["batches"]
        requests = [batch(0, [b"1"], keys=[b"a"], timestamp=timestamp) for timestamp in timestamps]
        origin = "client"
    assert {len(request) for request in requests} == {case.get("batchSize", len(requests[0]))}
    for request in requests:
        log.append(request, origin=origin)
    bases = sorted(base for base, files in log.segments.items() if files["log"])
    assert bases == case["segmentBases"]


@pytest.mark.parametrize("case", broker_cases("leader-epoch-checkpoint"))
def test_leader_epochs(case):
    epochs = _native.LeaderEpochs()
    for op in case["ops"]:
        if op["result"] != "OK":
            with pytest.raises(ValueError, match="neither may be negative"):
                epochs.assign(op["epoch"], op["startOffset"])
        elif op["op"] == "assign":
            epochs.assign(op["epoch"], op["startOffset"])
        elif op["op"] == "clear":
            epochs.clear()
        else:
            cut = {"truncateFromEnd": epochs.truncate_from_end, "truncateFromStart": epochs.truncate_from_start}
            cut[op["op"]](op["offset"])
        assert epochs.entries() == [(entry["epoch"], entry["startOffset"]) for entry in op["entries"]]
    for end in case["endOffsetFor"]:
        found = epochs.end_offset_for(end["requested"], case["logEndOffset"])
        assert found == (end["epoch"], end["endOffset"]), end
    for found in case["epochForOffset"]:
        begun = [epoch for epoch, start in epochs.entries() if start <= found["offset"]]
        assert (begun[-1] if begun else None) == found["epoch"], found


@pytest.mark.parametrize("case", broker_cases("producer-snapshot"))
def test_snapshots_hold_what_kafkas_hold(case):
    content = bytes.fromhex(case["hex"])
    state = _native.Producers.from_snapshot(content, now=0, producer_id_expiration_ms=DEFAULTS["segment_ms"])
    again = state.to_snapshot()
    entries = sorted(producers(case["entries"]), key=lambda entry: entry["producer_id"])
    assert _native.producer_snapshot(again).to_pylist() == entries
    if [e["producerId"] for e in case["entries"]] == [e["producer_id"] for e in entries]:
        assert again == content


@pytest.mark.parametrize("case", broker_cases("offset-index", "time-index", "txn-index"))
def test_truncated_indexes(case):
    classes = {
        "offset-index": _native.OffsetIndex,
        "time-index": _native.TimeIndex,
        "txn-index": _native.TransactionIndex,
    }
    content = bytes.fromhex(case["hex"])
    for step in case["truncate"]:
        length = classes[case["case"]](content, case["baseOffset"]).length_below(step["truncateTo"])
        content = content[:length]
        assert content.hex() == step["hex"], step
