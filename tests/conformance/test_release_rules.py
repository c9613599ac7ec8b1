"""Rules that changed with a release of Kafka: ours, by the release that is named, and those of its broker."""

import shutil

import pytest
from filling import NOW, PRODUCER, write
from kafka import DEFAULT, EACH_RELEASE, NEWEST, Broker, end_transaction, pending_upload

import brokerless as bl
from brokerless import _native
from brokerless.layout.release import Release

INVALID_PRODUCER_EPOCH = 47


@pytest.mark.parametrize("version", EACH_RELEASE)
def test_records_of_a_topic_without_a_policy_are_deleted_where_that_brokers_deletes_them(client, tmp_path, version):
    data = tmp_path / "data"
    with Broker(data, log=tmp_path / "broker.log", version=version) as broker:
        client.create(broker, "t", cleanup_policy="")
        client.produce(broker, "t", 0, 10)
        is_allowed = Release.parse(version).deletes_records_without_policy
        assert is_allowed is (version != DEFAULT)
        if is_allowed:
            client.delete_records(broker, "t", 0, 4)
            assert [row["offset"] for row in client.consume(broker, "t")] == [4, 5, 6, 7, 8, 9]
        else:
            with pytest.raises(AssertionError, match="PolicyViolationException"):
                client.delete_records(broker, "t", 0, 4)
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log = log_dir.log("t", 0)
        if is_allowed:
            assert log.run(bl.Retention(before_offset=6, release=version)).log_start_offset == 6
        else:
            with pytest.raises(ValueError, match=r"brokers of 4\.1 refuse that"):
                log.run(bl.Retention(before_offset=6, release=version))


@pytest.fixture(scope="module")
def transactions(tmp_path_factory):
    """A log directory with open transactions of two producers."""
    data = tmp_path_factory.mktemp("transactions") / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", 2, retention_ms=-1)
        for partition in (0, 1):
            for number in (0, 1):
                options = {"producer_id": PRODUCER + number, "producer_epoch": 3, "base_sequence": 0}
                write(log_dir.log("t", partition), 5, is_transactional=True, **options)
    return data


MARKERS = [(0, 3, 2), (0, 4, 2), (0, 4, 2), (0, 2, 2), (1, 3, 1), (1, 3, 0), (1, 2, 1)]
"""Of which producer, its epoch, and the transaction version."""


def test_the_rules_of_the_newest_broker(client, tmp_path, transactions):
    """Markers of transaction version 2 (KIP-1228), what is yet to be uploaded (KIP-1023), and large records."""
    data, ours = tmp_path / "data", tmp_path / "ours"
    shutil.copytree(transactions, data)
    shutil.copytree(transactions, ours)
    with Broker(data, log=tmp_path / "broker.log", version=NEWEST) as broker:
        sent = [end_transaction(broker, "t", 0, (PRODUCER + n, epoch, True), version) for n, epoch, version in MARKERS]
        assert sent == [INVALID_PRODUCER_EPOCH, 0, 0, INVALID_PRODUCER_EPOCH, 0, 0, INVALID_PRODUCER_EPOCH]
        assert pending_upload(broker, "t", 0) == (0, -1)
        # its first record is of 19 bytes
        for limit in (18, 19):
            client.create(broker, f"most-{limit}", max_decompressed_message_bytes=limit)
        client.produce(broker, "most-18", 0, 1, "plain")
        client.produce(broker, "most-19", 0, 1, "plain", compression_type="gzip")
        with pytest.raises(AssertionError, match="InvalidRecordException"):
            client.produce(broker, "most-18", 0, 1, "plain", compression_type="gzip")
    with bl.open_log_dir(ours, sole_replica=True) as log_dir:
        log = log_dir.log("t", 0)
        for (number, epoch, version), answer in zip(MARKERS, sent, strict=True):
            marker = _native.end_transaction_marker(
                producer_id=PRODUCER + number, producer_epoch=epoch, commit=True, coordinator_epoch=0, timestamp=NOW
            )
            if answer:
                with pytest.raises(bl.errors.InvalidProducerEpochError):
                    log.append(marker, origin="coordinator", transaction_version=version)
            else:
                log.append(marker, origin="coordinator", transaction_version=version)
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        compressed = log_dir.log("most-19", 0)
        batch = next((data / "most-19-0").glob("*.log")).read_bytes()
        compressed.append(batch)
        with pytest.raises(bl.errors.InvalidRecordError, match="record is 19 bytes decompressed"):
            log_dir.log("most-18", 0).append(batch)
    ended = [bl.LogDirs(one).log("t", 0) for one in (ours, data)]
    assert [log.log_end_offset for log in ended] == [14, 14]
    assert ended[0].offsets_for_times(-6).offset == -1
