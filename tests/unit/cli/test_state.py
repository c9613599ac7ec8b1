"""`groups`, `transactions` and `producers`: text, JSON and files of what a cluster knew."""

import json

import pyarrow.parquet as pq
import pytest

from brokerless.metadata.image import MetadataImage
from support.damage import flip_bit, overwrite
from support.log_files import write_segment
from support.state_records import (
    commit_key,
    commit_value,
    group_key,
    group_value,
    in_transaction,
    transaction_key,
    transaction_value,
    write_records,
)


@pytest.fixture
def broker(golden):
    return golden / "logs/kafka-4.1"


def lines(result):
    assert (result.code, result.err) == (0, "")
    return [line.split() for line in result.out.splitlines()]


def test_groups(broker, run):
    found = run("groups", broker)
    assert (found.code, found.err) == (0, f"next: brokerless groups {broker} --offsets\n")
    heading, *rows = (line.split() for line in found.out.splitlines())
    assert heading == ["GROUP", "TYPE", "STATE", "PROTOCOL", "EPOCH", "MEMBERS", "UPDATED"]
    assert [row[:5] for row in rows] == [
        ["group-classic", "classic", "Empty", "-", "2"],
        ["group-consumer", "consumer", "Empty", "-", "2"],
        ["group-txn", "classic", "Empty", "-", "-"],
        ["gruppe-ü", "classic", "Empty", "-", "2"],
    ]
    found = [json.loads(line) for line in run("groups", broker, "--json", "--group", "gruppe-ü").out.splitlines()]
    assert [(row["group"], row["members"]) for row in found] == [("gruppe-ü", [])]
    assert isinstance(found[0]["updated"], int)


def test_offsets_and_their_history(broker, run):
    _, *rows = lines(run("groups", broker, "--offsets", "--history", "--group", "gruppe-ü"))
    assert [row[1:5] for row in rows if row[1] == "headers-0"] == [
        ["headers-0", "120", "0", "0"],
        ["headers-0", "9", "111", "111"],
    ]
    assert next(row for row in rows if "back" in row)[-4:] == ["back", "from", "120", "metadata-2"]
    assert rows[-1][1:5] == ["multi-partition-1", "-", "-", "-"]
    assert (rows[-1][6], rows[-1][-3:]) == ("removed", ["after", "its", "commit"])
    _, *latest = lines(run("groups", broker, "--offsets", "--group", "gruppe-ü"))
    assert [row[1] for row in latest] == ["headers-0", "multi-partition-0", "multi-partition-2", "multi-partition-3"]


@pytest.mark.parametrize("options", [(), ("--members",), ("--offsets",), ("--history",), ("--offsets", "--history")])
def test_a_group_that_does_not_exist_is_no_empty_table(tmp_path, broker, run, options):
    found = run("groups", broker, *options, "--group", "group-clasic")
    assert (found.code, found.err) == (2, "brokerless: unknown group 'group-clasic': did you mean 'group-classic'?\n")
    # A group that has no commits for this topic exists.
    of_topic = ("--topic", "codec-mixed") if "--offsets" in options else ()
    assert run("groups", broker, *options, "--group", "group-classic", *of_topic).code == 0
    if "--offsets" in options:
        unknown = run("groups", broker, *options, "--topic", "headrs")
        assert (unknown.code, unknown.err) == (2, "brokerless: unknown topic 'headrs': did you mean 'headers'?\n")
    # Where damage may hide it, that is what the command says.
    log = write_records(tmp_path, "__consumer_offsets", [(group_key(name), group_value(1)) for name in "ab"])
    flip_bit(log, log.stat().st_size - 2)
    assert run("groups", tmp_path, *options, "--group", "c").code == 1


def test_offsets_are_in_order_and_of_one_topic(broker, run):
    _, *rows = lines(run("groups", broker, "--offsets"))
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    _, *chosen = lines(run("groups", broker, "--offsets", "--topic", "headers"))
    assert chosen == [row for row in rows if row[1] == "headers-0"] != []
    result = run("groups", broker, "--topic", "headers")
    assert result.code == 2
    assert "--topic selects commits: give --offsets with it" in result.err


def test_offsets_without_lag(broker, run):
    _, *rows = lines(run("groups", broker, "--offsets", "--no-lag", "--group", "gruppe-ü"))
    assert {(row[3], row[4]) for row in rows} == {("-", "-")}
    assert run("groups", broker, "--no-lag").code == 2


def test_history_of_groups_and_transactions(broker, run):
    heading, *rows = lines(run("groups", broker, "--history", "--group", "group-consumer"))
    assert heading[-1] == "NOTE"
    assert [row[:6] for row in rows] == [
        ["group-consumer", "consumer", "Stable", "-", "1", "1"],
        ["group-consumer", "consumer", "Empty", "-", "2", "0"],
    ]
    heading, row = lines(run("groups", broker, "--history", "--members", "--group", "group-consumer"))
    assert (heading[-1], row[-3:-1]) == ("UPDATED", ["headers-0", "multi-partition-0,1,2,3"])
    found = [json.loads(line) for line in run("transactions", broker, "--history", "--json").out.splitlines()]
    states = [row["state"] for row in found if row["transactional_id"] == "open-1"]
    assert states[-1] == "Ongoing"
    assert all(row["coordinator_offset"] is not None and row["open"] is None for row in found)
    _, *rows = lines(run("transactions", broker, "--history", "--open"))
    assert {row[3] for row in rows} == {"Ongoing", "PrepareCommit", "PrepareAbort"}
    assert run("transactions", broker, "--history", "--hanging").code == 2


def test_members_at_a_time(broker, run):
    heading, row = lines(run("groups", broker, "--members", "--as-of", "2026-11-20T21:27:50.1Z"))
    assert heading == ["GROUP", "MEMBER", "CLIENT", "HOST", "EPOCH", "TOPICS", "ASSIGNMENT"]
    assert row[2:] == [
        *("consumer-group-consumer-2", "/127.0.0.1", "1", "headers,multi-partition"),
        *("headers-0", "multi-partition-0,1,2,3"),
    ]


def test_transactions(broker, run):
    _, *rows = lines(run("transactions", broker, "--open"))
    assert [(row[0], row[3], row[-1]) for row in rows] == [
        ("open-1", "Ongoing", "txn-open-0@22"),
        ("open-2", "Ongoing", "txn-open-0@32"),
    ]
    assert len(lines(run("transactions", broker))) > 10
    assert len(lines(run("transactions", broker, "--hanging"))) == 1
    found = [json.loads(line) for line in run("transactions", broker, "--open", "--json").out.splitlines()]
    assert [place["last_time"] for row in found for place in row["open"]] == [1701000186110, 1701000186342]


def test_producers(broker, run, tmp_path):
    _, *rows = lines(run("producers", broker, "--topic", "txn-open"))
    assert [(row[0], row[-1]) for row in rows] == [("txn-open-0", offset) for offset in ("-", "-", "22", "32")]
    _, *early = lines(run("producers", broker / "txn-open-0", "--as-of", "offset:30"))
    assert [row[-1] for row in early] == ["-", "-", "22"]
    assert run("producers", broker, "--as-of", "offset:x").code == 2
    to = tmp_path / "producers.parquet"
    assert lines(run("producers", broker, "--output", to)) == []
    assert pq.read_table(to).num_rows == 28


def test_cluster(broker, run):
    """In text as columns that fit a line, in JSON all of them; and what changed."""
    heading, *rows = lines(run("cluster", "topics", broker))
    assert heading == ["TOPIC", "TOPIC", "ID", "PARTITIONS", "REPLICATION", "FACTOR"]
    assert len(rows) == 39
    assert len(lines(run("cluster", "topics", broker, "--as-of", "offset:30"))) == 5
    (found,) = [json.loads(line) for line in run("cluster", "brokers", broker, "--json").out.splitlines()]
    assert (found["broker_id"], found["epoch"]) == (1, 544)
    assert max(map(len, run("cluster", "partitions", broker).out.splitlines())) <= 100
    _, *changes = lines(run("cluster", "diff", broker, "--since", "offset:30", "--all"))
    assert ["topics", "retention-all", "added"] in changes
    assert len(lines(run("cluster", "diff", broker, broker))) == 1
    assert run("cluster", "diff", broker).code == 2
    assert run("cluster", "diff", broker, broker, "--since", "offset:3").code == 2
    assert run("cluster", "topics", broker, "--as-of", "x").code == 2


def test_a_difference_hides_the_changes_of_leaders_and_says_how_many(run):
    """Of 40 lines, most were the leaders, in-sync replicas and epochs of a shutdown."""
    since = ("cluster", "diff", "examples/incident", "--since", "2026-11-25T22:44")
    few, whole = run(*since), run(*since, "--all")
    assert len(few.out.splitlines()) < 10
    hidden = len(whole.out.splitlines()) - len(few.out.splitlines())
    assert f"note: {hidden} changes of leaders, in-sync replicas or epochs are not shown: add --all" in few.err
    assert (few.code, whole.code) == (0, 0)
    assert "not shown" not in whole.err
    json_lines = run(*since, "--json")
    assert len(json_lines.out.splitlines()) == len(few.out.splitlines()) - 1
    assert f"note: {hidden} changes" in json_lines.err
    assert {"isr", "leader"} <= set(whole.out.split()) - set(few.out.split())


def test_a_difference_of_chosen_subjects(run):
    since = ("cluster", "diff", "examples/incident", "--since", "2026-11-25T22:44")
    _, *found = lines(run(*since, "--subject", "acls", "--subject", "configs"))
    assert [row[0] for row in found] == ["configs", "acls"]
    assert "not shown" not in run(*since, "--subject", "acls").err
    assert run(*since, "--subject", "nothing").code == 2


def test_a_quota_without_a_json_number_is_text(broker, run, monkeypatch):
    """The JSON of the records has Java's names."""
    quota = {"entity": [{"entityType": "user", "entityName": "u"}], "key": "k", "value": "Infinity", "remove": False}
    table = MetadataImage.table

    def with_quota(image, subject, **options):
        image.replay("ClientQuotaRecord", quota)
        return table(image, subject, **options)

    monkeypatch.setattr(MetadataImage, "table", with_quota)
    found = json.loads(run("cluster", "quotas", broker, "--json").out, parse_constant=pytest.fail)
    assert found["value"] == "Infinity"
    _, row = lines(run("cluster", "quotas", broker))
    assert row == ["user=u", "k", "Infinity"]


def test_what_damage_hides_is_said(tmp_path, run):
    path = write_records(
        tmp_path, "__consumer_offsets", [(group_key(name), group_value(1)) for name in ("a", "b", "c")]
    )
    size = path.stat().st_size // 3
    overwrite(path, size + 70, b"\xff")
    result = run("groups", tmp_path)
    assert result.code == 1
    assert [line.split()[0] for line in result.out.splitlines()] == ["GROUP", "a", "c"]
    assert result.err.startswith("warning: __consumer_offsets-0: the content of these records is not known: ")


def test_a_time_without_a_date_is_a_number(tmp_path, run):
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1, 2**62))])
    _, row = lines(run("groups", tmp_path, "--offsets"))
    assert str(2**62) in row
    assert json.loads(run("groups", tmp_path, "--offsets", "--json").out)["commit_time"] == 2**62


def test_forms_that_contradict(broker, run, tmp_path):
    result = run("groups", broker, "--json", "--format", "parquet", "--output", tmp_path / "x")
    assert result.code == 2
    assert "--json and --format parquet contradict each other" in result.err
    assert run("groups", broker, "--output", tmp_path / "x.csv").code == 2


def test_a_directory_that_is_none(run, tmp_path):
    assert run("groups", tmp_path / "missing").code == 2
    (tmp_path / "empty").mkdir()
    result = run("groups", tmp_path / "empty")
    assert (result.code, result.out) == (2, "")


def test_without_any_partition_of_the_coordinators_a_note_says_so(tmp_path, run):
    """An empty table alone would say that the cluster has no groups."""
    write_records(tmp_path, "t", [(b"k", b"v")])
    for verb, topic in (("groups", "__consumer_offsets"), ("transactions", "__transaction_state")):
        result = run(verb, tmp_path)
        # Nothing is damaged: the code is that of a warning.
        assert (result.code, len(result.out.splitlines())) == (3, 1)
        assert f"warning: no partition of {topic} is in the paths" in result.err
    assert run("groups", tmp_path, "--offsets").code == 3
    assert run("groups", tmp_path, "--history").code == 3
    assert run("report", tmp_path, "--output", tmp_path.with_suffix(".html")).code == 3


def test_damage_counts_more_than_a_missing_partition(tmp_path, run):
    path = write_records(tmp_path, "__consumer_offsets", [(group_key("a"), group_value(1))], partition=1)
    flip_bit(path, 70)
    result = run("groups", tmp_path)
    assert "warning: __consumer_offsets-0 is in none of the paths" in result.err
    assert result.code == 1


def test_a_transaction_that_may_hang_is_marked_so(tmp_path, run):
    records = [(transaction_key(name), transaction_value(9, 1, [("t", 0)])) for name in ("a", "b")]
    write_records(tmp_path, "__transaction_state", records)
    write_segment(tmp_path / "t-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    result = run("transactions", tmp_path, "--memory", "1KiB")
    assert result.code == 3
    assert result.out.splitlines()[1].endswith("  t-0@0  may hang")


def test_only_the_latest_commit_resets_a_consumer(tmp_path, run):
    """A consumer starts with the latest commit: an earlier one that lies outside of the log resets nobody."""
    write_records(tmp_path, "t", [(b"k", b"v")])
    records = [(commit_key("g", "t", 0), commit_value(offset)) for offset in (9, 1)]
    write_records(tmp_path, "__consumer_offsets", records)
    history = run("groups", tmp_path, "--offsets", "--history").out
    assert ("beyond the log end 1" in history, "resets" in history) == (True, False)
    assert "resets" not in run("groups", tmp_path, "--offsets").out
    write_records(tmp_path, "__consumer_offsets", records[:1])
    assert "beyond the log end 1, so a consumer resets" in run("groups", tmp_path, "--offsets").out
