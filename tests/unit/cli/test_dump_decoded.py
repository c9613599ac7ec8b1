"""`brokerless dump` with decoded keys and values: by `--decode`, and by kafka-dump-log's decoders.

The expected texts of Kafka's own records are those of its tool; a conformance test compares them with it.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brokerless as bl
from brokerless import _native
from brokerless.inspection.dump import Dump
from brokerless.inspection.record_contents import DecodedContents
from support import log_files, state_records
from support.state_records import DECODERS

SAMPLES = [
    json.loads(line) for line in (Path(__file__).parents[2] / "data/state-records.jsonl").read_text().splitlines()
]
STATUS = "transactionStatus"


def written(directory, topic, records):
    """Write records into a partition of a topic; return the path of the log."""
    return state_records.write_records(directory, topic, records)


def shown(result):
    """Return what the lines of the records show after their metadata."""
    assert (result.code, result.err) == (0, "")
    return re.findall(r"^\| .* headerKeys: \[\] (.*)$", result.out, re.MULTILINE)


def records(result):
    """Return the records in JSON."""
    return [record for line in result.out.splitlines() for record in json.loads(line)["records"]]


@pytest.mark.parametrize("topic", DECODERS)
def test_each_type_of_record_has_kafkas_json_in_kafkas_order(topic, run, tmp_path):
    samples = [sample for sample in SAMPLES if sample["topic"] == topic]
    contents = [[one and bytes.fromhex(one) for one in (sample["key"], sample["value"])] for sample in samples]
    path = written(tmp_path, topic, contents)
    result = run("dump", path, DECODERS[topic], "--json")
    found = records(result)
    assert (result.code, result.err, len(found)) == (0, "", len(samples))
    for record, sample in zip(found, samples, strict=True):
        assert (record["key_bytes"], record["value_bytes"], record["decode_error"]) == (None, None, None)
        if sample["key"] is None:
            assert record["key"] is None
            assert isinstance(record["value"]["type"], str)
            version = sample["version"]
        else:
            assert record["key"] == {"type": str(sample["type"]), "data": sample["key_json"]}
            version = str(sample["version"])
        assert record["value"]["version"] == version
        data, expected = record["value"]["data"], sample["value_json"]
        if STATUS in expected:
            data = {**data, STATUS: expected[STATUS]}
        assert json.dumps(data) == json.dumps(expected)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"])
def test_the_text_shows_what_the_json_shows(topic, run):
    path = f"examples/incident/{topic}-0/00000000000000000000.log"
    of_json = [record for record in records(run("dump", path, "--json", DECODERS[topic])) if "key" in record]
    lines = [line for line in run("dump", path, DECODERS[topic]).out.splitlines() if " payload: " in line]
    assert len(lines) == len(of_json) > 10
    for line, record in zip(lines, of_json, strict=True):
        key, _, payload = line.partition(" payload: ")
        assert json.loads(payload if payload != "<DELETE>" else "null") == record["value"]
        if record["key"] is not None:
            assert json.loads(key.partition(" key: ")[2]) == record["key"]


def test_records_of_transactions_name_their_state(run, tmp_path):
    key = state_records.transaction_key("t")
    values = [state_records.transaction_value(7, status, [("a", 0)]) for status in (1, 9)]
    path = written(tmp_path, "__transaction_state", [(key, value) for value in values])
    data = (
        '{"producerId":7,"producerEpoch":0,"transactionTimeoutMs":60000,"transactionStatus":"%s",'
        '"transactionPartitions":[{"topic":"a","partitionIds":[0]}],'
        f'"transactionLastUpdateTimestampMs":{log_files.NOW},"transactionStartTimestampMs":{log_files.NOW}}}'
    )
    assert shown(run("dump", path, "--transaction-log-decoder")) == [
        f'key: {{"type":"0","data":{{"transactionalId":"t"}}}} payload: {{"version":"0","data":{data % status}}}'
        for status in ("Ongoing", "9")
    ]


def test_members_of_a_classic_group_show_their_subscription(run, tmp_path):
    whole = state_records.group_value(3, [("m", ["orders"], {"orders": [0, 2]})])
    at = whole.index(state_records.text("orders"))
    other = whole.replace(state_records.text("consumer"), state_records.text("connect_"))
    cut = whole[: at - 6] + b"\x7f\x7f" + whole[at - 4 :]  # a version of the subscription that Kafka does not know
    path = written(tmp_path, "__consumer_offsets", [(state_records.group_key("g"), one) for one in (whole, cut, other)])
    members = [
        json.loads(line.partition(" payload: ")[2])["data"]["members"][0]
        for line in shown(run("dump", path, "--offsets-decoder"))
    ]
    assert members[0]["subscription"] == {"topics": ["orders"], "userData": None}
    assert members[0]["assignment"] == {
        "assignedPartitions": [{"topic": "orders", "partitions": [0, 2]}],
        "userData": None,
    }
    assert isinstance(members[1]["subscription"], str)
    assert members[1]["assignment"] == members[0]["assignment"]
    assert all(isinstance(members[2][name], str) for name in ("subscription", "assignment"))


def test_what_does_not_decode_is_told_and_the_rest_follows(run, tmp_path):
    key, value = state_records.commit_key("g", "t", 0), state_records.commit_value(5)
    contents = [(key, None), (key, value[:-3]), (b"\x7f\0", b"\xff"), (key[:-1], value), (None, value), (key, value)]
    path = written(tmp_path, "__consumer_offsets", contents)
    of_key = '{"type":"1","data":{"group":"g","topic":"t","partition":0}}'
    of_value = f'{{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":{log_files.NOW}}}'
    assert shown(run("dump", path, "--offsets-decoder")) == [
        f"key: {of_key} payload: <DELETE>",
        "key: Error at offset 1, skipping. value: commitTimestamp: 8 bytes needed, 5 left",
        "key: Unknown record type 32512 at offset 2, skipping.",
        "key: Error at offset 3, skipping. key: partition: 4 bytes needed, 3 left",
        "key: Error at offset 4, skipping. no key",
        f'key: {of_key} payload: {{"version":"3","data":{of_value}}}',
    ]
    found = records(run("dump", path, "--offsets-decoder", "--json", "--bytes", "hex"))
    assert [(one["key_bytes"], one["value_bytes"]) for one in found] == [
        (None, None),
        (key.hex(), value[:-3].hex()),
        ("7f00", "ff"),
        (key[:-1].hex(), value.hex()),
        (None, value.hex()),
        (None, None),
    ]
    assert [one["decode_error"] for one in found] == [
        None,
        "value: commitTimestamp: 8 bytes needed, 5 left",
        "unknown type 32512",
        "key: partition: 4 bytes needed, 3 left",
        "no key",
        None,
    ]
    assert (found[0]["key"], found[0]["value"]) == (json.loads(of_key), None)


def test_a_record_of_the_metadata_that_does_not_decode_is_a_payload(run, tmp_path):
    value = bytes.fromhex("0109000000000000000000000000000000000100")  # RemoveTopicRecord
    path = written(tmp_path, "__cluster_metadata", [(None, one) for one in (value, value[:-1], b"\1\x7f\0", None)])
    assert shown(run("dump", path, "--cluster-metadata-decoder")) == [
        'payload: {"type":"REMOVE_TOPIC_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}}',
        "payload: Error at 1, skipping. value: data ends inside a varint",
        "payload: Error at 2, skipping. unknown type 127",
        "payload: Error at 3, skipping. no value",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (b"1048576.0", "1048576.0"),
        (b"10485760.0", "1.048576E7"),
        (b"-2.25e300", "-2.25E300"),
        (b"1e-7", "1.0E-7"),
        (b"0.001", "0.001"),
        (b"-0.0", "-0.0"),
    ],
)
def test_quotas_are_javas_numbers(number, text, run, tmp_path):
    entity = b'[{"entityType":"user","entityName":",\\"value\\":1e9,\\"remove\\":"}]'
    fields = b'{"entity":%s,"key":"consumer_byte_rate","value":%s,"remove":false}' % (entity, number)
    path = written(tmp_path, "__cluster_metadata", [(None, _native.metadata_record("ClientQuotaRecord", 0, fields))])
    (line,) = shown(run("dump", path, "--cluster-metadata-decoder"))
    assert line.endswith(f'"key":"consumer_byte_rate","value":{text},"remove":false}}}}')


def test_records_of_remote_segments_are_javas_objects(run, tmp_path):
    """As in Kafka's tool, which has no JSON of them."""
    values = [
        state_records.remote_segment(1, 1, custom=b"abc", is_new=True),
        state_records.remote_segment(1, 3),
        bytes.fromhex("010200a752289537434a41b4e2cffbb8a2a5a00874776f000000010001000000000000002a0000000700"),
    ]
    path = written(tmp_path, "__remote_log_metadata", [(None, value) for value in values])
    place = "RemoteLogSegmentId{topicIdPartition=AAAAAAAAAAAAAAAAAAAAAQ:t-0, id=AAAAAAAAAAAAAAAAAAAAAQ}"
    lines = shown(run("dump", path, "--remote-log-metadata-decoder"))
    assert lines[:2] == [
        (
            f"payload: RemoteLogSegmentMetadata{{remoteLogSegmentId={place}, startOffset=0, endOffset=9, brokerId=1, "
            f"maxTimestampMs={log_files.NOW}, eventTimestampMs={log_files.NOW}, segmentLeaderEpochs={{0=0}}, "
            "segmentSizeInBytes=100, customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_FINISHED, "
            "txnIdxEmpty=false}"
        ),
        (
            f"payload: RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={place}, customMetadata=Optional.empty, "
            f"state=DELETE_SEGMENT_FINISHED, eventTimestampMs={log_files.NOW + 3}, brokerId=1}}"
        ),
    ]
    found = records(run("dump", path, "--remote-log-metadata-decoder", "--json"))
    assert found[0]["value"]["type"] == "REMOTE_LOG_SEGMENT_METADATA_RECORD"
    assert found[0]["value"]["data"]["endOffset"] == 9


def test_a_snapshot_of_the_metadata_is_decoded(run):
    path = "examples/incident/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    lines = run("dump", path, "--cluster-metadata-decoder").out.splitlines()
    assert any(' payload: {"type":"FEATURE_LEVEL_RECORD"' in line for line in lines)


def test_a_decoder_with_other_options_of_the_tool(run):
    path = "examples/incident/__consumer_offsets-0/00000000000000000000.log"
    whole = run("dump", path, "--offsets-decoder")
    assert run("dump", path, "--offsets-decoder", "--print-data-log", "--deep-iteration").out == whole.out
    bare = run("dump", path, "--offsets-decoder", "--skip-record-metadata").out.splitlines()
    assert bare[3] == "| " + re.search(r"key: .*", whole.out.splitlines()[3])[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--offsets-decoder", "--share-group-state-decoder"], "contradict each other"),
        (["--offsets-decoder", "--decode", "value=utf8"], "--decode cannot be combined with the decoder"),
        (["--decode", "value=int3"], "did you mean 'int32'"),
        (["--subject", "s"], "need --decode"),
        (["--decode", "value=registry"], "Name the schemas with --schemas"),
        (["--records"], "--records needs --json"),
    ],
)
def test_what_cannot_be_done_is_told(options, words, run):
    result = run("dump", "examples/incident/orders-0", *options)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_values_of_a_registry_are_decoded_with_the_schemas_beside_them(run, registries, tmp_path):
    logs = registries / "confluent/logs"
    expected = [
        json.loads(line)
        for line in run("read", logs / "orders-0", "--decode", "value=registry,key=registry").out.splitlines()
    ]
    paths = sorted((logs / "orders-0").glob("*.log"))
    result = run("dump", *paths, "--records", "--decode", "value=registry,key=registry", "--json")
    assert (result.code, result.err) == (0, "")
    names = {"keyBytes": "key_bytes", "keyDecodeError": "key_decode_error", "valueBytes": "value_bytes"}
    names |= {"decodeError": "decode_error", "offset": "offset", "key": "key", "value": "value"}
    assert [{name: one[ours] for name, ours in names.items()} for one in records(result)] == [
        {name: one[name] for name in names} for one in expected
    ]
    assert list(records(result)[0])[3:9] == [
        *("key", "key_bytes", "key_decode_error"),
        *("value", "value_bytes", "decode_error"),
    ]
    text = run("dump", *paths, "--records", "--decode", "value=registry,key=registry").out
    payloads = re.findall(r" payload: (.*)$", text, re.MULTILINE)
    assert [json.loads(one) for one in payloads] == [one["value"] for one in expected if one["value"] is not None]
    alone = tmp_path / "alone/orders-0"
    shutil.copytree(logs / "orders-0", alone)
    chosen = ("dump", alone, "--decode", "value=registry", "--max-bytes", 2000)
    assert run(*chosen).code == 2
    assert " payload: {" in run(*chosen, "--schemas", logs).out


def test_what_does_not_decode_keeps_its_bytes_and_is_counted(run, registries):
    logs = registries / "confluent/logs"
    chosen = ("dump", *sorted((logs / "garbage-0").glob("*.log")), "--decode", "value=registry")
    result = run(*chosen, "--json")
    found = records(result)
    failed = [one for one in found if one["decode_error"] is not None]
    assert len(failed) > 0
    assert all(one["value"] is None and one["value_bytes"] is not None for one in failed)
    told = f"note: garbage: {len(failed)} values do not decode, the first at garbage-0, offset {failed[0]['offset']}: "
    assert told in result.err
    lines = run(*chosen).out.splitlines()
    errors = [line.partition(" decodeError: ")[2] for line in lines if " decodeError: " in line]
    assert errors == [one["decode_error"] for one in failed]
    skipped = run(*chosen, "--json", "--on-decode-error", "skip")
    assert [one["offset"] for one in records(skipped)] == [one["offset"] for one in found if one not in failed]
    raised = run(*chosen, "--json", "--on-decode-error", "raise")
    assert raised.code == 2
    assert f"offset {failed[0]['offset']}" in raised.err
    assert records(raised) == found[: found.index(failed[0])]
    text = run(*chosen, "--on-decode-error", "raise")
    assert (text.code, text.out.count("\n| ")) == (2, found.index(failed[0]))


def test_bytes_that_do_not_decode_are_shown(run, tmp_path):
    values = [b"text", b"\xff\xfe", b"\0\0\0\7", None, b""]
    path = log_files.write_segment(tmp_path / "t-0", 0, [log_files.batch(0, values, keys=[b"k"] * 5)])
    result = run("dump", path, "--decode", "value=int64,key=utf8")
    lines = [line.partition("headerKeys: [] ")[2] for line in result.out.splitlines() if line.startswith("|")]
    assert lines == [
        "key: k payload: text decodeError: the number has 8 bytes, and not 4",
        'key: k payload: {"base64":"//4="} decodeError: the number has 8 bytes, and not 2',
        "key: k payload: \0\0\0\7 decodeError: the number has 8 bytes, and not 4",
        "key: k",
        "key: k payload:  decodeError: the number has 8 bytes, and not 0",
    ]
    bare = run("dump", path, "--decode", "value=int64", "--skip-record-metadata", "--on-decode-error", "skip")
    assert bare.out.splitlines()[3:] == ["| key: k"]


@pytest.mark.parametrize("log_dir", ["kafka-4.1", "kafka-2.8-v0", "kafka-2.8-v1"])
def test_text_that_is_decoded_as_text_stays_as_it_is(log_dir, golden, run):
    """Control batches, old formats, compression, gaps and headers are as without it."""
    partitions = [path for path in (golden / "logs" / log_dir).iterdir() if re.match(r"[a-z].*-\d+$", path.name)]
    paths = sorted(path for one in partitions for path in one.glob("*.log") if path.stat().st_size < 100_000)
    same = 0
    for path in paths:
        plain, decoded = (run("dump", path, *options) for options in (["--print-data-log"], ["--decode", "key=utf8"]))
        if "do not decode" not in decoded.err and "does not decode" not in decoded.err:
            assert decoded == plain, path
            same += 1
    assert same > 3


def test_json_has_all_else_as_without_decoding(golden, run):
    for name in ("headers-0", "txn-commit-abort-0"):
        path = golden / f"logs/kafka-4.1/{name}/00000000000000000000.log"
        for form in ("utf8", "base64", "hex"):
            plain = [
                json.loads(line) for line in run("dump", path, "--json", "--records", "--bytes", form).out.splitlines()
            ]
            decoded = run("dump", path, "--json", "--decode", "key=hex", "--bytes", form)
            found = [json.loads(line) for line in decoded.out.splitlines()]
            for one in [record for batch in (*plain, *found) for record in batch["records"]]:
                for key in ("key", "key_bytes", "key_decode_error"):
                    one.pop(key, None)
            assert found == plain


def test_a_damaged_batch_is_shown_up_to_the_damage(run, tmp_path):
    """Its records, which cannot be decoded as a whole, are shown as they are stored."""
    sound, damaged = log_files.batch(0, [b"1", b"2"]), log_files.batch(2, [b"3", b"4"])
    cut = damaged[:57] + (3).to_bytes(4) + damaged[61:]
    path = log_files.write_segment(tmp_path / "t-0", 0, [sound], indexed=False)
    path.write_bytes(sound + cut + sound)
    plain = run("dump", path, "--print-data-log")
    decoded = run("dump", path, "--decode", "value=utf8")
    assert (decoded.code, decoded.out) == (1, plain.out)
    assert decoded.err == plain.err
    of_json = run("dump", path, "--decode", "value=utf8", "--json")
    assert [json.loads(line)["records"] is None for line in of_json.out.splitlines()] == [False, True]
    assert (of_json.code, of_json.err) == (1, run("dump", path, "--json", "--records").err)


def test_a_wrong_checksum_is_damage(run, tmp_path):
    content = bytearray(log_files.batch(0, [b"value"]))
    content[17] ^= 1
    path = log_files.write_segment(tmp_path / "t-0", 0, [], indexed=False)
    path.write_bytes(content)
    for options in ([], ["--json"]):
        assert run("dump", path, "--decode", "value=utf8", *options).code == 1


def test_line_ends_in_the_keys_of_headers_move_nothing(run, tmp_path):
    with bl.Producer(tmp_path, "t", partitions=1) as producer:
        headers = [("a\nb\u2028", b"1"), ("\n", b"\xff")]
        producer.send([{"key": b"k\n", "value": b"v%d" % number, "headers": headers} for number in range(3)])
    plain = run("dump", *(tmp_path / "t-0").glob("*.log"), "--print-data-log")
    decoded = run("dump", *(tmp_path / "t-0").glob("*.log"), "--decode", "value=utf8,key=utf8")
    assert decoded.out == plain.out


def test_control_characters_are_escaped_for_a_terminal(tmp_path):
    path = log_files.write_segment(tmp_path / "t-0", 0, [log_files.batch(0, [b"a\x1b[2J\nb\x7f"], keys=[b"\x9b"])])
    contents = DecodedContents(bl.Decoding(value="utf8"), [])
    decoded = b"".join(Dump(contents=contents, escape_controls=True).text(str(path)))
    assert decoded == b"".join(Dump(print_data_log=True, escape_controls=True).text(str(path)))
    assert b"\\u001B" in decoded


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\xed\xa0\x80", b"\xe2\xed\xa0x", b"\xed\xbf"]), min_size=1))
def test_other_bytes_are_read_as_java_reads_them(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("t") / f"{0:020d}.log"
    path.write_bytes(log_files.batch(0, values))
    decoded = b"".join(Dump(contents=DecodedContents(bl.Decoding(key="utf8"), [])).text(str(path)))
    assert decoded == b"".join(Dump(print_data_log=True).text(str(path)))
