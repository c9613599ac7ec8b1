"""Groups as tables: those of a real broker, and what only handmade records hold."""

import pytest

import brokerless as bl
from support.damage import overwrite
from support.log_files import NOW, batch, marker, write_segment
from support.state_records import commit_key, commit_value, group_key, group_value, in_transaction, write_records


def by_name(*paths, **options):
    return {row.pop("group"): row for row in bl.groups(*paths, **options).to_pylist()}


def test_groups_of_a_broker(golden):
    """Of both protocols, all closed before the broker was; one has only commits of transactions."""
    found = by_name(golden / "logs/kafka-4.1")
    assert list(found) == ["group-classic", "group-consumer", "group-txn", "gruppe-ü"]
    assert {name: (row["type"], row["state"]) for name, row in found.items()} == {
        "group-classic": ("classic", "Empty"),
        "group-consumer": ("consumer", "Empty"),
        "group-txn": ("classic", "Empty"),
        "gruppe-ü": ("classic", "Empty"),
    }
    assert (found["group-consumer"]["epoch"], found["group-consumer"]["assignment_epoch"]) == (2, 1)
    assert found["group-classic"]["epoch"] == 2


def test_a_group_of_the_new_protocol_while_it_had_a_member(golden):
    """Before its member left; the partitions of the topic come by topic id."""
    (_, before, _) = [time for _, time in _times(golden, "group-consumer")][-3:]
    row = by_name(golden / "logs/kafka-4.1", as_of=before)["group-consumer"]
    assert (row["state"], row["epoch"], row["assignment_epoch"]) == ("Stable", 1, 1)
    (member,) = row["members"]
    assert member["topics"] == ["headers", "multi-partition"]
    assert member["assignment"] == [
        {"topic": "headers", "partitions": [0]},
        {"topic": "multi-partition", "partitions": [0, 1, 2, 3]},
    ]
    assert (member["client_host"], member["epoch"]) == ("/127.0.0.1", 1)


def _times(golden, group):
    commits = bl.commits(golden / "logs/kafka-4.1", groups=[group], lag=False).read_all()
    return zip(commits["coordinator_offset"].to_pylist(), commits["coordinator_time"].to_pylist(), strict=True)


def test_a_classic_group_with_members(tmp_path):
    members = [("b", ["t", "s"], {"t": [1, 0], "s": [3]}), ("a", ["t"], {})]
    write_records(tmp_path, "__consumer_offsets", [(group_key("g"), group_value(7, members))])
    row = by_name(tmp_path)["g"]
    assert (row["state"], row["protocol"], row["leader"], row["epoch"]) == ("Stable", "range", "b", 7)
    assert [member["member_id"] for member in row["members"]] == ["b", "a"]
    assert row["members"][0]["topics"] == ["s", "t"]
    assert row["members"][0]["assignment"] == [{"topic": "s", "partitions": [3]}, {"topic": "t", "partitions": [0, 1]}]
    assert row["members"][1]["assignment"] == []
    assert row["updated"].timestamp() * 1000 == NOW


def test_the_latest_record_counts_and_a_removed_group_is_gone(tmp_path):
    records = [
        (group_key("kept"), group_value(1, [("m", ["t"], {})])),
        (group_key("removed"), group_value(1)),
        (commit_key("only-commits", "t", 0), commit_value(5)),
        (commit_key("expired", "t", 0), commit_value(5)),
        (group_key("kept"), group_value(2)),
        (group_key("removed"), None),
        (commit_key("expired", "t", 0), None),
    ]
    write_records(tmp_path, "__consumer_offsets", records)
    found = by_name(tmp_path)
    assert {name: (row["state"], row["epoch"]) for name, row in found.items()} == {
        "kept": ("Empty", 2),
        "only-commits": ("Empty", None),
    }
    early = by_name(tmp_path, as_of=NOW + 4 - 1)
    assert {name: row["epoch"] for name, row in early.items()} == {
        "kept": 1,
        "removed": 1,
        "only-commits": None,
        "expired": None,
    }


def test_an_open_transaction_hides_its_own_commits_only(tmp_path):
    batches = [
        *in_transaction(0, 5, [(commit_key("open", "t", 0), commit_value(1))], commit=None),
        *in_transaction(1, 6, [(commit_key("aborted", "t", 0), commit_value(1))], commit=False),
        *in_transaction(3, 7, [(commit_key("committed", "t", 0), commit_value(1))], commit=True),
        batch(5, [commit_value(1)], keys=[commit_key("plain", "t", 0)]),
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    # A coordinator knows the group of an open transaction, but no offset of it.
    assert list(by_name(tmp_path)) == ["committed", "open", "plain"]
    committed = bl.commits(tmp_path, history=False).read_all()
    assert committed["group"].to_pylist() == ["committed", "plain"]


def test_a_commit_counts_from_the_time_of_its_marker(tmp_path):
    records = [(commit_key("late", "t", 0), commit_value(9))]
    batches = in_transaction(0, 5, records, commit=None)
    batches.append(marker(1, 5, commit=True, timestamp=NOW + 100))
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    found = [bl.commits(tmp_path, as_of=NOW + ms).read_all().num_rows for ms in (-1, 0, 99, 100)]
    assert found == [0, 0, 0, 1]
    assert [len(by_name(tmp_path, as_of=NOW + ms)) for ms in (-1, 0, 100)] == [0, 1, 1]


def test_types_that_are_not_known_are_said_and_the_others_are_there(tmp_path):
    records = [(b"\0\x63\0\0", b"\0\0"), (group_key("g"), group_value(1)), (b"\0\2\0\x09", b"\0\3")]
    write_records(tmp_path, "__consumer_offsets", records)
    with pytest.warns(UserWarning, match="cannot be decoded") as warned:
        assert list(by_name(tmp_path)) == ["g"]
    said = sorted(str(one.message) for one in warned)
    malformed = (
        "key: group: 9 bytes needed, 0 left; a coordinator does not load the partition, so all groups in it are "
        "unavailable"
    )
    assert said == [
        "__consumer_offsets-0: 1 records cannot be decoded, the first of them at offset 0: unknown type 99",
        f"__consumer_offsets-0: 1 records cannot be decoded, the first of them at offset 2: {malformed}",
    ]


def test_damage_hides_only_what_it_holds(tmp_path):
    records = [(group_key(name), group_value(1)) for name in ("a", "b", "c")]
    path = write_records(tmp_path, "__consumer_offsets", records)
    content = bytearray(path.read_bytes())
    content[content.index(b"\0\1b") + 2] ^= 1
    path.write_bytes(content)
    with pytest.warns(
        UserWarning, match="__consumer_offsets-0: the content of these records is not known: .*offsets 1 to 1"
    ):
        assert list(by_name(tmp_path)) == ["a", "c"]


def test_several_directories_are_one_view(tmp_path):
    for number, group in enumerate(("a", "b")):
        records = [(group_key(group), group_value(1))]
        write_records(tmp_path / str(number), "__consumer_offsets", records, partition=number)
    found = by_name(tmp_path / "0", tmp_path / "1")
    assert {name: row["coordinator_partition"] for name, row in found.items()} == {"a": 0, "b": 1}


def test_a_directory_without_groups(tmp_path):
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"])])
    with pytest.warns(UserWarning, match="no partition of __consumer_offsets is in the paths"):
        assert bl.groups(tmp_path).num_rows == 0


def changes(*paths, **options):
    return bl.groups(*paths, history=True, **options).to_pylist()


def test_the_history_has_every_generation_and_the_removal(tmp_path):
    records = [
        (group_key("g"), group_value(1, [("m", ["t"], {"t": [0]})])),
        (commit_key("g", "t", 0), commit_value(5)),
        (group_key("other"), group_value(1)),
        (group_key("g"), group_value(2)),
        (group_key("g"), None),
        (group_key("g"), group_value(1)),
        (group_key("never-there"), None),
    ]
    write_records(tmp_path, "__consumer_offsets", records)
    found = changes(tmp_path)
    columns = ("group", "state", "epoch", "is_removed", "coordinator_offset")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("g", "Stable", 1, False, 0),
        ("other", "Empty", 1, False, 2),
        ("g", "Empty", 2, False, 3),
        ("g", None, None, True, 4),
        ("g", "Empty", 1, False, 5),
        ("never-there", None, None, True, 6),
    ]
    assert [row["coordinator_time"].timestamp() * 1000 for row in found] == [NOW + at for at in (0, 2, 3, 4, 5, 6)]
    assert [row["coordinator_offset"] for row in changes(tmp_path, as_of=NOW + 3)] == [0, 2, 3]


def test_the_history_ends_with_what_is(golden):
    """What a coordinator writes at once is one change, also of the new protocol."""
    broker = golden / "logs/kafka-4.1"
    latest = {row["group"]: row for row in changes(broker)}
    now = {row["group"]: row for row in bl.groups(broker).to_pylist() if row["coordinator_offset"] is not None}
    assert latest == now
    of_new = [row for row in changes(broker) if row["group"] == "group-consumer"]
    assert [(row["state"], row["epoch"], len(row["members"])) for row in of_new] == [
        ("Stable", 1, 1),
        ("Empty", 2, 0),
    ]


def test_a_damaged_checkpoint_of_a_replica_leaves_the_other_groups(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for root, name, partition in ((one, "a", 0), (two, "a", 0), (two, "b", 1)):
        write_records(root, "__consumer_offsets", [(group_key(name), group_value(1))], partition=partition)
    (two / "__consumer_offsets-0/leader-epoch-checkpoint").write_bytes(b"x")
    with pytest.warns(UserWarning, match="__consumer_offsets-0 is left out, because it cannot be read"):
        assert list(by_name(one, two)) == ["b"]


def test_commits_whose_marker_is_damaged_do_not_count(tmp_path):
    """They may have been aborted. Those whose marker is sound count."""
    batches = [
        *in_transaction(0, 5, [(commit_key("sound", "t", 0), commit_value(1))], commit=True),
        *in_transaction(2, 6, [(commit_key("doubtful", "t", 0), commit_value(1))], commit=False),
        batch(4, [commit_value(1)], keys=[commit_key("plain", "t", 0)]),
    ]
    path = write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    overwrite(path, sum(map(len, batches[:4])) - 1, b"\xff")
    with pytest.warns(UserWarning, match="the content of these records is not known") as warned:
        found = [*bl.commits(tmp_path).read_all()["group"].to_pylist(), *by_name(tmp_path)]
    assert found == ["sound", "plain", "plain", "sound"]
    doubt = "it is not known whether the transaction of producer 6 from offset 2 on was committed"
    assert sum(doubt in str(one.message) for one in warned) == 2
