"""The text of `dump` is that of Kafka's own tool, for files made by hand and for those of real brokers."""

import json
import re
import shutil
import struct
import tracemalloc

import pytest

from brokerless.inspection.decode_files import entries
from support import log_files
from support.damage import flip_bit
from support.kafka_answers import broker_cases
from support.reference_decoder import crc32c

JSON_IF = {"json": ["--json"], "text": []}

KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
# What Kafka says when it throws is its own; ours says where and what.
OUR_ERRORS = {
    "log-zero-tail": (1, r"brokerless: .*00000000000000000000\.log:95"),
    "index-odd-sanity": (1, r"brokerless: .*00000000000000000000\.index"),
    "no-suffix": (0, r"Ignoring text file .*leader-epoch-checkpoint"),
}


@pytest.mark.parametrize("case", broker_cases("dump"))
def test_case(case, run, tmp_path):
    path = tmp_path / case["file"]
    for name, content in case.items():
        if name.startswith("sibling:"):
            path.with_suffix(f".{name.removeprefix('sibling:')}").write_bytes(bytes.fromhex(content))
    path.write_bytes(bytes.fromhex(case["hex"]))
    result = run("dump", path, *case["options"])
    assert result.out.replace(str(tmp_path), "DIR") == case["stdout"]
    if "exception" in case:
        code, message = OUR_ERRORS[case["name"]]
        assert (result.code, bool(re.match(message, result.err))) == (code, True), result.err
    else:
        assert result.err.replace(str(tmp_path), "DIR") == case["stderr"]
        is_finding = bool(case["stderr"]) and not case["stderr"].startswith(("Non-consecutive", "Ignoring"))
        assert result.code == (is_finding or "isvalid: false" in case["stdout"])


@pytest.mark.parametrize(
    "log_dir",
    ["kafka-4.1", "kafka-4.1-before-compaction", "kafka-4.1-compacted", "kafka-4.1-recovered", "kafka-4.1-tiered"],
)
def test_golden(log_dir, golden, run):
    dumps = sorted((golden / "expected" / log_dir).glob("*/dump.txt"))
    assert dumps
    for dump in dumps:
        partition = golden / "logs" / log_dir / dump.parent.name
        files = sorted(
            partition.iterdir(), key=lambda file: (KINDS.index(file.suffix) if file.suffix in KINDS else 9, file)
        )
        files = [file for file in files if file.suffix in KINDS]
        options = ["--deep-iteration"] if partition.name == "big-record-0" else ["--print-data-log"]
        result = run("dump", *options, *files)
        text, _, reports = dump.read_bytes().decode().partition("--- stderr ---\n")
        assert result.out.replace(f"{partition}/", "") == text, partition.name
        assert blocks(result.err.replace(f"{partition}/", "")) == blocks(reports), partition.name


def blocks(reports):
    """Return the reports, each with its lines: the tool keeps them in hash maps, in no order."""
    return sorted(re.findall(r"^\S.*\n(?:  .*\n)*", reports, flags=re.MULTILINE))


def test_one_json_object_a_batch(golden, run):
    path = golden / "logs/kafka-4.1/txn-commit-abort-0/00000000000000000000.log"
    result = run("dump", path, "--json")
    batches = [json.loads(line) for line in result.out.splitlines()]
    lines = (golden / "expected/kafka-4.1/txn-commit-abort-0/batches.jsonl").read_text().splitlines()
    expected = [line for line in map(json.loads, lines) if line["file"] == path.name]
    assert [batch["base_offset"] for batch in batches] == [line["baseOffset"] for line in expected]
    assert [batch["crc"] for batch in batches] == [line["crc"] for line in expected]
    assert "records" not in batches[0]


def test_json_records(golden, run):
    path = golden / "logs/kafka-4.1/headers-0/00000000000000000000.log"
    result = run("dump", path, "--json", "--records", "--bytes", "base64")
    records = [record for line in result.out.splitlines() for record in json.loads(line)["records"]]
    lines = (golden / "expected/kafka-4.1/headers-0/consumed.read_uncommitted.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]
    assert [(r["offset"], r["key"], r["value"]) for r in records] == [
        (e["offset"], e["key"], e["value"]) for e in expected
    ]


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_json_entries_say_what_the_text_says(suffix, golden, run):
    path = next((golden / "logs/kafka-4.1/txn-abort-spanning-0").glob(f"*[1-9].{suffix}"))
    text = run("dump", path).out.splitlines()[1:]
    entries = [json.loads(line) for line in run("dump", path, "--json").out.splitlines()]
    assert len(entries) == len(text) > 0
    for line, entry in zip(text, entries, strict=True):
        assert {int(number) for number in re.findall(r"-?\d+", line)} >= set(list(entry.values())[:2])


def test_text_files_as_json(golden, run):
    root = golden / "logs/kafka-4.1"
    names = ["replication-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown"]
    names += ["leader-epochs-0/leader-epoch-checkpoint", "leader-epochs-0/partition.metadata"]
    entries = {name: run("dump", root / name, "--json").out.splitlines() for name in names}
    assert '{"topic":"codec-mixed","partition":0,"offset":605}' in entries[names[0]]
    assert json.loads(entries[names[1]][0])["node_id"] == 1
    assert list(json.loads(entries[names[2]][0])) == ["broker_epoch"]
    assert list(json.loads(entries[names[3]][0])) == ["epoch", "start_offset"]
    assert list(json.loads(entries[names[4]][0])) == ["version", "topic_id"]


@pytest.mark.slow
def test_a_batch_larger_than_the_window_it_is_read_through(run, tmp_path):
    """Growing the window by little each time would take hours."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(0, b"small") + batch(1, bytes(20 << 20)) + batch(2, b"small"))
    result = run("dump", path)
    assert result.code == 0
    assert [line.split()[1] for line in result.out.splitlines()[2:]] == ["0", "1", "2"]
    assert "isvalid: false" not in result.out


def batch(offset, value):
    """Build a batch of one record without a key."""
    body = b"\0\0\0" + varint(-1) + varint(len(value)) + value + b"\0"
    counted = struct.pack(">hiqqqhii", 0, 0, 1000, 1000, -1, -1, -1, 1) + varint(len(body)) + body
    return struct.pack(">qiibI", offset, len(counted) + 9, 0, 2, crc32c(counted)) + counted


def varint(number):
    zigzag, encoded = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*encoded, zigzag])


def test_what_a_repair_sets_aside_is_shown(golden, run, tmp_path):
    (path,) = (golden / "logs/kafka-4.1/headers-0").glob("*.log")
    shown = run("dump", path, "--print-data-log").out.splitlines()
    (tmp_path / f"{path.name}@0").write_bytes(path.read_bytes())
    assert run("dump", tmp_path / f"{path.name}@0", "--print-data-log").out.splitlines()[1:] == shown[1:]


def test_records_are_asked_for_in_the_words_of_the_format(golden, run):
    path = golden / "logs/kafka-4.1/nulls-0/00000000000000000000.log"
    result = run("dump", path, "--records")
    assert result.code == 2
    assert "--deep-iteration" in result.err


def test_damaged_files_show_what_kafka_shows_before_it_throws(golden, run):
    compared = thrown = 0
    for dump in sorted((golden / "expected/kafka-4.1-crashed").glob("*/dump.txt")):
        partition = golden / "logs/kafka-4.1-crashed" / dump.parent.name
        text = dump.read_bytes().decode().partition("--- stderr ---\n")[0]
        for section in re.split(r"^(?=Dumping )", text, flags=re.MULTILINE)[1:]:
            name = section.split("\n", 1)[0].removeprefix("Dumping ")
            before, error, _ = section.partition("TOOL ERROR: ")
            result = run("dump", partition / name, "--print-data-log")
            out = result.out.replace(f"{partition}/", "")
            if error:
                # Of a compressed batch that breaks off, Kafka shows the records up to there.
                assert result.code == 1
                assert before.startswith(out) or out == before, name
                assert out.count("\n") > 1 or name.endswith("index")
            else:
                assert out == before, name
            compared += 1
            thrown += bool(error)
    assert (compared > 50, thrown) == (True, 4)


@pytest.fixture
def segment(copied):
    return copied("kafka-4.1", "txn-abort-spanning-0")


@pytest.mark.parametrize("options", [[], ["--print-data-log"], ["--json", "--records"]])
def test_a_wrong_checksum_is_not_exit_0(options, run, tmp_path):
    path = log_files.write_segment(tmp_path, 0, [log_files.batch(i, [b"value"]) for i in range(3)])
    before = run("dump", path, *options)
    flip_bit(path, path.stat().st_size // 3 - 2)
    after = run("dump", path, *options)
    assert (before.code, after.code) == (0, 1)
    assert (after.out.count("\n"), after.err) == (before.out.count("\n"), "")


def test_files_behind_a_damaged_one_are_shown(run, tmp_path):
    log_files.write_segment(tmp_path, 0, [log_files.batch(0, [b"value"])])
    (tmp_path / f"{7:020d}.snapshot").write_bytes(b"damaged")
    names = [f"{0:020d}.log", f"{7:020d}.snapshot", f"{0:020d}.index", f"{0:020d}.timeindex"]
    result = run("dump", *(tmp_path / name for name in names))
    assert result.code == 1
    assert "00000000000000000007.snapshot" in result.err
    assert "baseOffset: 0" in result.out
    assert f"timestamp: {log_files.NOW} offset: 0" in result.out


def test_records_that_hold_the_words_of_a_wrong_checksum_are_no_damage(run, tmp_path):
    words = b'crc: 1 isvalid: false\nisvalid: false "is_valid":false'
    path = log_files.write_segment(tmp_path, 0, [log_files.batch(0, [words])])
    assert run("dump", path, "--print-data-log").code == 0
    assert run("dump", path, "--json", "--records").code == 0


@pytest.mark.parametrize("state", [".deleted", ".swap", ".cleaned"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_the_state_of_a_file_does_not_hide_its_kind(state, form, run, segment, tmp_path):
    files = sorted(file for file in segment.iterdir() if file.suffix in KINDS)
    expected = [run("dump", file, *JSON_IF[form]).out for file in files]
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for file in files:
        shutil.copy(file, renamed / (file.name + state))
    found = [run("dump", renamed / (file.name + state), *JSON_IF[form]) for file in files]
    assert [result.out.replace(state, "").replace(str(renamed), str(segment)) for result in found] == expected
    assert {result.code for result in found} == {0}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_that_cannot_be_shown_does_not_stop_the_rest(form, run, segment):
    (segment / ".lock").touch()
    (segment / "foo.bar").write_text("x")
    log = min(segment.glob("*.log"))
    texts = ["leader-epoch-checkpoint", "partition.metadata"] if form == "text" else []
    ignored = [segment / name for name in (".lock", "foo.bar", *texts)]
    result = run("dump", *ignored, log, *JSON_IF[form])
    assert result.code == 0
    assert result.out.endswith(run("dump", log, *JSON_IF[form]).out)
    assert result.err.count("Ignoring") == len(ignored)
    assert all(str(path) in result.err for path in ignored)


def test_the_text_of_a_file_with_a_name_of_its_own(run, tmp_path):
    path = log_files.write_segment(tmp_path, 7, [log_files.batch(7, [b"x"])], indexed=False)
    text = run("dump", path).out.partition("\n")[2]
    lone = path.rename(tmp_path / "x.log")
    result = run("dump", lone)
    assert (result.code, result.out.partition("\n")[2]) == (0, text)
    assert "Log starting offset: 7" in text


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_name_beyond_all_offsets_is_no_traceback(suffix, form, run, tmp_path):
    path = tmp_path / f"99999999999999999999.{suffix}"
    path.write_bytes(bytes(24))
    path.with_suffix(".index").write_bytes(bytes(24))
    path.with_suffix(".log").write_bytes(b"")
    result = run("dump", path, *JSON_IF[form])
    assert result.code == 2
    assert str(path.with_suffix("")) in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow
def test_a_large_index_is_not_as_many_python_objects(tmp_path):
    path = tmp_path / f"{0:020d}.index"
    path.write_bytes(b"".join(struct.pack(">ii", i, i * 100) for i in range(1, 500_001)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in entries(str(path))) == 500_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # the file twice (4 MB each), and one slice
    assert peak < 24 << 20


def test_checks_of_an_index_see_what_kafkas_tool_sees(run, tmp_path):
    """Empty ones are not checked; zeros behind the entries, as a killed broker leaves them, are entries."""
    for name in ("index", "timeindex"):
        (tmp_path / f"{0:020d}.{name}").write_bytes(b"")
    result = run("dump", tmp_path / f"{0:020d}.index", "--index-sanity-check")
    assert result.out.endswith(f"{0:020d}.index is empty.\n")
    (tmp_path / f"{0:020d}.timeindex").write_bytes((1_700_000_000_000).to_bytes(8) + (1).to_bytes(4) + bytes(12))
    result = run("dump", tmp_path / f"{0:020d}.timeindex", "--index-sanity-check")
    assert result.code == 1
    assert "last timestamp 0, below its first 1700000000000" in result.err


def test_what_is_behind_a_part_of_a_log_is_not_called_invalid(run, tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(log_files.batch(0, [b"v"]) + b"x" * 9)
    assert "Found 9 invalid bytes" in run("dump", path).out
    assert "invalid bytes" not in run("dump", path, "--max-bytes", 100_000).out


def test_a_file_that_is_missing_beside_an_index_does_not_stop_the_rest(run, tmp_path):
    log = log_files.write_segment(tmp_path, 0, [log_files.batch(0, [b"value"])])
    log.with_suffix(".index").unlink()
    result = run("dump", log.with_suffix(".timeindex"), log)
    assert (result.code, "baseOffset: 0" in result.out) == (1, True)
    assert f"{0:020d}.index" in result.err


def test_an_entry_that_points_before_the_file_does_not_stop_the_rest(run, tmp_path):
    log = log_files.write_segment(tmp_path, 0, [log_files.batch(0, [b"value"])])
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 1, -5))
    result = run("dump", log.with_suffix(".index"), log)
    assert (result.code, "baseOffset: 0" in result.out) == (1, True)
    assert "no batch where the offset index points" in result.err
    assert "offset 1 at -5, the log ends at" in result.err


@pytest.mark.parametrize("option", ["--verify-index-only", "--index-sanity-check", "--print-data-log"])
def test_json_does_not_pass_over_what_it_cannot_do(option, run, segment):
    result = run("dump", min(segment.glob("*.index")), "--json", option)
    assert (result.code, f"{option} cannot be combined with --json" in result.err) == (2, True)


def test_the_largest_time_of_a_batch_may_be_that_of_its_last_record(run, tmp_path):
    """More records than are decoded at a time."""
    count = 300_000
    path = log_files.write_segment(tmp_path, 0, [log_files.batch(0, [b""] * count)])
    last = (log_files.NOW + count - 1).to_bytes(8) + (count - 1).to_bytes(4)
    path.with_suffix(".timeindex").write_bytes(last)
    result = run("dump", path.with_suffix(".timeindex"))
    assert (result.code, result.err) == (0, "")


def test_a_directory_and_kafkas_own_option_name_the_same_files(golden, run):
    directory = golden / "logs/kafka-4.1/codec-zstd-0"
    files = sorted(path for path in directory.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".snapshot"))
    expected = run("dump", *files)
    assert expected.out.count("Dumping ") == len(files)
    for arguments in ([directory], ["--files", ",".join(map(str, files))]):
        found = run("dump", *arguments)
        assert (found.code, found.out) == (expected.code, expected.out)


def test_a_directory_without_a_file_to_show_is_refused(run, tmp_path):
    refused = run("dump", tmp_path)
    assert (refused.code, "has no file of a kind that dump knows" in refused.err) == (2, True)


def test_json_of_a_directory_has_its_text_files_too(golden, run, tmp_path):
    root = tmp_path / "d"
    root.mkdir()
    (root / "replication-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    (root / "x.log").mkdir()
    found = run("dump", root, "--json")
    assert (found.code, json.loads(found.out)["topic"]) == (0, "t")
    refused = run("dump", root)
    assert refused.code == 2
    assert "name files or a partition's directory" in refused.err
