"""The records of internal topics, against Kafka's own serializers and JSON converters."""

import json
import re
import subprocess
import sys
from pathlib import Path

import messages
import pyarrow as pa
import pytest
from kafka import BUILD, DEFAULT, EACH_KRAFT_RELEASE, EACH_RELEASE, NEWEST, OLDER, java
from messages import OLDEST

from brokerless import _native
from brokerless.inspection.dump import Dump
from brokerless.inspection.record_contents import StateContents
from support import state_records
from support.state_records import DECODERS

pytestmark = pytest.mark.conformance

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "state-records.jsonl"


def decoded(records):
    """Return what the core makes of records of one topic, a dict each."""
    keys = pa.array([record["key"] for record in records], pa.binary())
    values = pa.array([record["value"] for record in records], pa.binary())
    return _native.state_records(records[0]["topic"], keys, values).to_pylist()


@pytest.mark.parametrize("release", [OLDEST, *EACH_KRAFT_RELEASE])
def test_each_type_and_version_is_what_kafka_says(release):
    by_topic = {}
    for record in messages.records(release, range(30)):
        # Before 4.1, share groups were no feature of a release. Kafka changed their records without a new version.
        if release >= "4.1" or not record["name"].startswith("Share"):
            by_topic.setdefault(record["topic"], []).append(record)
    assert len(by_topic) >= (1 if release == OLDEST else 4)
    for records in by_topic.values():
        for ours, record in zip(decoded(records), records, strict=True):
            assert ours["unknown"] is None, record
            assert (ours["type"], ours["version"]) == (record["type"], record["version"])
            assert ours["name"].removeprefix("Legacy") == record["name"].removeprefix("Legacy")
            assert json.loads(ours["key"] or "null") == record["key_json"], record
            assert json.loads(ours["value"]) == record["value_json"], record
            if record["topic"] == "__cluster_metadata" and release != OLDEST:
                encoded = _native.metadata_record(ours["name"], ours["version"], ours["value"].encode())
                assert encoded == record["value"], record


@pytest.mark.parametrize("release", EACH_RELEASE)
def test_messages_inside_of_records(release):
    known = messages.definitions(release)
    asked = [
        (name, version, messages.random_message(known[name], version, seed))
        for seed in range(50)
        for name in messages.messages.EMBEDDED
        for version in range(known[name].versions[0], known[name].versions[1] + 1)
    ]
    for (name, version, _), (data, said) in zip(asked, messages.written(release, asked), strict=True):
        assert json.loads(_native.embedded_json(name, data, version)) == said
        assert json.loads(_native.embedded_json(name, version.to_bytes(2) + data)) == said


def test_the_tables_are_those_of_the_jars():
    """A new release changes them: run the tool again, as it says itself."""
    libraries = [BUILD / release / "lib" for release in (OLDEST, *OLDER, DEFAULT, NEWEST)]
    libraries += sorted((BUILD / "messages").iterdir())
    command = [sys.executable, messages.TOOL, *libraries]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made == (ROOT / "rust/core/src/state/messages.rs").read_text()
    command.insert(2, "--requests")
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made == (ROOT / "rust/core/src/state/requests.rs").read_text()


def test_the_golden_records_are_what_kafka_writes():
    """`python tests/conformance/messages.py` writes them."""
    assert GOLDEN.read_text().splitlines() == list(messages.golden())


def said_by_tool(path, *options):
    """Return the text of the newest release's tool for a file."""
    tool = [*java(NEWEST), "-Dstdout.encoding=UTF-8", "org.apache.kafka.tools.DumpLogSegments"]
    return subprocess.run([*tool, "--files", path, *options], capture_output=True, check=True).stdout.decode()


def dumped(topic, path):
    """Return the text of the newest release's tool for a log, and ours."""
    ours = b"".join(Dump(contents=StateContents(topic)).text(str(path))).decode()
    return said_by_tool(path, DECODERS[topic]), ours


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_a_dump_of_a_brokers_log_is_that_of_kafkas_tool(topic):
    said, ours = dumped(topic, ROOT / f"examples/incident/{topic}-0/00000000000000000000.log")
    assert ours == said


@pytest.mark.parametrize("path", ["data/codec-mixed-0/*.log", "incident/orders-0/*.log", "incident/payments-1/*index"])
@pytest.mark.parametrize("option", ["deep_iteration", "print_data_log"])
def test_a_dump_is_also_that_of_the_newest_tool(path, option):
    """The other tests compare it with that of the default release."""
    paths = sorted((ROOT / "examples").glob(path))
    assert paths
    for one in paths:
        ours = b"".join(Dump(**{option: True}).text(str(one))).decode()
        assert ours == said_by_tool(one, f"--{option.replace('_', '-')}")


@pytest.mark.parametrize("topic", DECODERS)
def test_a_dump_of_each_type_and_version_is_that_of_kafkas_tool(topic, tmp_path):
    """Also of tombstones. Where a record does not decode, the reasons may differ."""
    if topic == "__remote_log_metadata":
        # The tool refuses records with random fields.
        segments = [(1, 0, None, True), (2, 1, b"abc", True), (1, 1, None, False), (1, 3, b"x", False)]
        values = [
            state_records.remote_segment(one, state, custom=custom, is_new=new) for one, state, custom, new in segments
        ]
        records = [(None, value) for value in values]
    else:
        known = [one for one in messages.records(NEWEST, range(10)) if one["topic"] == topic]
        records = [(one["key"], one["value"]) for one in known]
        records += [(one["key"], None) for one in known if one["key"] is not None]
    records += [(key, value[:-1]) for key, value in records if value]
    path = state_records.write_records(tmp_path, topic, records)
    without_reasons = re.compile(r"(?<=skipping\.) .*")
    said, ours = (without_reasons.sub("", text) for text in dumped(topic, path))
    assert ours == said
