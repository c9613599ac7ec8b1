"""`offsets` gives the broker's answers."""

import json

import pytest

import brokerless as bl
from support.kafka_answers import read_json_lines

WORDS = {-1: "latest", -2: "earliest", -3: "max-timestamp", -4: "earliest-local", -5: "latest-tiered"}


@pytest.mark.parametrize("partition", ["codec-mixed-0", "log-append-time-0", "txn-open-0", "trimmed-delete-records-0"])
def test_golden(partition, golden, run):
    for line in read_json_lines(golden / "expected/kafka-4.1" / partition / "offsets_for_times.jsonl"):
        result = run(
            "offsets",
            golden / "logs/kafka-4.1" / partition,
            *("--timestamp", WORDS.get(line["query"], line["query"])),
            *("--isolation-level", line["isolation"], "--json"),
        )
        topic, _, number = partition.rpartition("-")
        answer = {"offset": line["offset"], "timestamp": line["timestamp"], "leader_epoch": line["leaderEpoch"]}
        assert json.loads(result.out) == {"topic": topic, "partition": int(number)} | answer, line


def test_text_has_a_line_a_partition(golden, run):
    result = run("offsets", golden / "logs/kafka-4.1", "--topic", "multi-partition", "--timestamp", "earliest")
    assert result.out == "".join(f"multi-partition-{partition}\t0\n" for partition in range(4))


def test_no_offset_is_a_dash_in_text_and_minus_one_in_json(golden, run):
    arguments = "offsets", golden / "logs/kafka-4.1/headers-0", "--timestamp", 4102444800000
    assert run(*arguments).out == "headers-0\t-\n"
    answer = json.loads(run(*arguments, "--json").out)
    assert (answer["offset"], answer["timestamp"], answer["leader_epoch"]) == (-1, -1, None)


def test_a_time_before_1970_is_none_of_the_numbers_that_stand_for_something_else(golden, run):
    path = golden / "logs" / "kafka-4.1" / "headers-0"
    refused = run("offsets", path, "--timestamp", "1969-12-31T23:59:59.999")
    assert (refused.code, "is before 1970" in refused.err) == (2, True)


def test_what_is_yet_to_be_uploaded_is_none_or_not_known(golden, run, tmp_path):
    """-1 of a tiered log would say that nothing of it is ever uploaded."""
    path = golden / "logs" / "kafka-4.1" / "headers-0"
    assert run("offsets", path, "--timestamp", "earliest-pending-upload").out == "headers-0\t-\n"
    assert run("offsets", path, "--timestamp", "-6").out == "headers-0\t-\n"
    path = golden / "logs" / "kafka-4.1-tiered" / "tiered-txn-0"
    refused = run("offsets", path, "--timestamp", "earliest-pending-upload")
    assert (refused.code, "which segments from offset 182 on are not uploaded yet" in refused.err) == (2, True)
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t", remote_storage_enable=True)
    refused = run("offsets", data, "--timestamp", "earliest-pending-upload")
    assert (refused.code, "t-0 is tiered" in refused.err) == (2, True)


def test_offsets_of_a_tiered_log_name_remote_storage(golden, run):
    path = golden / "logs" / "kafka-4.1-tiered" / "tiered-txn-0"
    by_time = run("offsets", path, "--timestamp", 0)
    assert (by_time.code, by_time.out) == (0, "tiered-txn-0\t182\n")
    assert (
        by_time.err == "note: tiered-txn-0 has no offsets 0 to 181 here: they are in remote storage, or were deleted\n"
    )
    assert run("offsets", path, "--timestamp", "latest").err == ""


def test_internal_topics_are_looked_up_only_by_name(golden, run):
    data = golden / "logs/kafka-4.1"
    assert "__" not in run("offsets", data, "--timestamp", "latest").out
    named = run("offsets", data, "--topic", "__consumer_offsets", "--timestamp", "latest")
    assert named.out.startswith("__consumer_offsets-")
