"""What a consumer gets of a damaged batch, of a directory that was shut down cleanly: the findings say this."""

import json
import shutil
import subprocess

import pytest
from kafka import NEWEST, Broker

import brokerless as bl
from brokerless.checking.codes import CODES
from support.damage import flip_bit, overwrite

RECORDS = 300


def batches(directory):
    return [row for rows in bl.Log(directory).scan() for row in rows.to_pylist()]


def flip_a_value(path, batch):
    """One bit of the last value: the batch is as before, but for its checksum."""
    flip_bit(path, batch["position"] + batch["size"] - 3)


def flip_the_length(path, batch):
    overwrite(path, batch["position"] + 8, b"\xff" * 4)


def zero_the_batch(path, batch):
    overwrite(path, batch["position"], bytes(batch["size"]))


HARM = {"batch-crc": flip_a_value, "batch-framing": flip_the_length, "batch-zeros": zero_the_batch}


def with_kcat(broker, topic, *options):
    """Return what kcat prints of a topic, and its errors."""
    command = ["kcat", "-b", broker.at, "-C", "-t", topic, "-o", "beginning", "-e", "-J", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, errors="replace")
    except subprocess.TimeoutExpired as late:
        out, err = ((part or b"").decode(errors="replace") for part in (late.stdout, late.stderr))
        return [json.loads(line) for line in out.splitlines()], f"{err} timed out"
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def needed(of_kcat):
    if of_kcat is None:
        pytest.skip("NOT TESTED: kcat is missing; install your system's kcat package")
    return of_kcat


@pytest.fixture(scope="module")
def fetched(client, tmp_path_factory):
    """What the clients get, by code: the offset of the damage, the rows before it, Kafka's own consumer, kcat."""
    root = tmp_path_factory.mktemp("fetch")
    data = root / "data"
    with Broker(data, log=root / "before.log", version=NEWEST) as broker:
        for code in HARM:
            client.create(broker, code, internal_segment_bytes=2500)
            client.produce(broker, code, 0, RECORDS, batch_size=400)
    bad = {}
    for code, harm in HARM.items():
        directory = data / f"{code}-0"
        bad[code] = batches(directory)[2]
        harm(bl.Log(directory).segments[0].path, bad[code])
        assert code in {one.code for one in bl.check(data, topics=[code])}
    found = {}
    with Broker(data, log=root / "after.log", version=NEWEST) as broker:
        for code in HARM:
            of_java = client.consume_to_damage(broker, code)
            of_kcat = with_kcat(broker, code) if shutil.which("kcat") else None
            found[code] = (bad[code], of_java, of_kcat)
    return found


@pytest.mark.parametrize("code", HARM)
def test_kafkas_own_consumer_stops_at_the_batch(fetched, code):
    bad, (rows, error), _ = fetched[code]
    assert [row["offset"] for row in rows] == list(range(bad["base_offset"]))
    assert "KafkaException" in error
    assert "with an error" in CODES[code].reader


def test_a_consumer_that_verifies_no_checksum_takes_the_wrong_bytes(fetched):
    """The broker serves them: it verifies nothing of what it sends from its disk."""
    _, _, of_kcat = fetched["batch-crc"]
    rows, said = needed(of_kcat)
    assert [row["offset"] for row in rows] == list(range(RECORDS))
    assert "ERROR" not in said
    assert "serves the batch as it is" in CODES["batch-crc"].broker


@pytest.mark.parametrize("code", ["batch-framing", "batch-zeros"])
def test_no_consumer_gets_past_what_is_no_batch(fetched, code):
    """At zeros, some releases of librdkafka end with a failed assertion, before what they got is printed."""
    bad, _, of_kcat = fetched[code]
    rows, said = needed(of_kcat)
    assert all(row["offset"] < bad["base_offset"] for row in rows)
    assert said
    assert "a fetch of this batch fails" in CODES[code].broker
