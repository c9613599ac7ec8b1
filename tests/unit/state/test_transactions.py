"""Producers and transactions as tables: open and hanging ones."""

import shutil
import struct
from pathlib import Path

import pytest

import brokerless as bl
from brokerless import _native
from brokerless.notes import collected
from support.log_files import NOW, batch, write_segment, write_snapshot
from support.state_records import in_transaction, transaction_key, transaction_value, write_records

ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4


def by_id(*paths, **options):
    return {row["transactional_id"]: row for row in bl.transactions(*paths, **options).to_pylist()}


def test_transactions_of_a_broker(golden):
    found = by_id(golden / "logs/kafka-4.1")
    is_open = {name: row for name, row in found.items() if row["open"]}
    assert {name: (row["state"], row["is_hanging"]) for name, row in is_open.items()} == {
        "open-1": ("Ongoing", False),
        "open-2": ("Ongoing", False),
    }
    (place,) = is_open["open-2"]["open"]
    assert (place["topic"], place["partition"], place["first_offset"], place["last_offset"]) == ("txn-open", 0, 32, 41)
    assert {row["state"] for row in found.values()} == {"CompleteAbort", "CompleteCommit", "Empty", "Ongoing"}
    assert found["inter-2"]["started"] is None


def test_transactions_of_some_topics(golden, tmp_path):
    """Those that are open in a topic, or that their coordinator still has to end there."""
    path = golden / "logs/kafka-4.1"
    assert set(by_id(path, topics=["txn-open"])) == {"open-1", "open-2"}
    assert by_id(path, topics=["txn-o*"]) == by_id(path, topics=["txn-open"])
    assert by_id(path, topics=["headers"]) == {}
    data = tmp_path / "data"
    records = [
        (transaction_key("here"), transaction_value(9, ONGOING, [("t", 0), ("u", 0)])),
        (transaction_key("elsewhere"), transaction_value(8, ONGOING, [("u", 0), ("v", 1)])),
        (transaction_key("done"), transaction_value(7, COMPLETE_COMMIT)),
    ]
    write_records(data, "__transaction_state", records)
    for topic in ("t", "u"):
        write_segment(data / f"{topic}-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    # A topic of which there are no logs here is known by its transactions.
    for topic, ids, opened in (
        ("t", {"here"}, ["t"]),
        ("u", {"here", "elsewhere"}, ["u"]),
        ("v", {"elsewhere"}, []),
    ):
        with collected() as notes:
            found = by_id(data, topics=[topic])
        assert set(found) == ids
        assert [one["topic"] for row in found.values() for one in row["open"]] == opened
        assert any("v-1 is in none of the paths" in note for note in notes) == (topic == "v")
        assert set(by_id(data, topics=[topic], history=True)) == ids
        assert set(by_id(data, topics=[topic], as_of=1 << 50)) == ids
    for options in ({}, {"history": True}, {"as_of": 1 << 50}):
        with pytest.raises(ValueError, match="unknown topic 'w'"):
            bl.transactions(data, topics=["w"], **options)


def test_without_coordinators_nobody_knows_what_hangs(copied):
    directory = copied("kafka-4.1", "txn-open-0", "txn-empty-0")
    with collected() as notes:
        found = bl.transactions(directory).to_pylist()
    assert [note for note in notes if "the paths do not have all partitions of __transaction_state" in note]
    assert [(row["producer_id"], row["transactional_id"], row["is_hanging"]) for row in found] == [
        (1002, None, None),
        (1003, None, None),
    ]


@pytest.mark.parametrize(
    ("state", "is_hanging"),
    [
        ((9, ONGOING, [("t", 0)]), False),
        ((9, ONGOING, [("t", 1)]), True),  # the coordinator does not know the partition
        ((9, PREPARE_COMMIT, [("t", 0)]), False),  # the marker is still to come
        ((9, COMPLETE_COMMIT), True),  # it has written all markers
        ((8, ONGOING, [("t", 0)]), True),  # another producer has the id now
        (None, True),  # it has forgotten the id
    ],
)
def test_what_hangs(tmp_path, state, is_hanging):
    records = [(transaction_key("x"), transaction_value(*state))] if state else []
    records.append((transaction_key("other"), transaction_value(1, COMPLETE_COMMIT)))
    write_records(tmp_path, "__transaction_state", records)
    for number in (0, 1):
        write_segment(tmp_path / f"t-{number}", 0, in_transaction(0, 9 + number, [(b"k", b"v")], commit=number or None))
    row = next(row for row in bl.transactions(tmp_path).to_pylist() if row["producer_id"] == 9)
    assert row["transactional_id"] == ("x" if state and state[0] == 9 else None)
    assert row["is_hanging"] is is_hanging
    assert [place["is_hanging"] for place in row["open"]] == [is_hanging]


def test_without_some_coordinators_it_is_not_known_what_hangs(tmp_path):
    """An id whose hash gives another partition tells that there are more."""
    name = next(name for name in ("a", "b", "c", "d") if ord(name) % 2)
    write_records(
        tmp_path, "__transaction_state", [(transaction_key(name), transaction_value(1, COMPLETE_COMMIT))], partition=1
    )
    write_segment(tmp_path / "t-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    absent = "__transaction_state-0 is in none of the paths: its transactional ids are not shown"
    hangs = "it is not known which transactions hang"
    with pytest.warns(UserWarning, match=absent), pytest.warns(UserWarning, match=hangs):
        (row,) = [row for row in bl.transactions(tmp_path).to_pylist() if row["producer_id"] == 9]
    assert row["is_hanging"] is None
    write_records(tmp_path, "__transaction_state", [(transaction_key("b"), transaction_value(2, COMPLETE_COMMIT))])
    (row,) = [row for row in bl.transactions(tmp_path).to_pylist() if row["producer_id"] == 9]
    assert row["is_hanging"] is True


def test_states_at_a_time(tmp_path):
    states = [(ONGOING, [("t", 0)]), (PREPARE_COMMIT, [("t", 0)]), (COMPLETE_COMMIT, [])]
    records = [(transaction_key("x"), transaction_value(9, *state)) for state in states]
    write_records(tmp_path, "__transaction_state", [*records, (transaction_key("x"), None)])
    found = [by_id(tmp_path, as_of=NOW + ms) for ms in range(-1, 4)]
    assert [row.get("x", {}).get("state") for row in found] == [
        None,
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
        None,
    ]
    assert found[1]["x"]["open"] is None
    assert found[1]["x"]["partitions"] == [{"topic": "t", "partition": 0}]


def test_the_history_has_every_state_and_the_removal(tmp_path):
    states = [(ONGOING, [("t", 0)]), (PREPARE_COMMIT, [("t", 0)]), (COMPLETE_COMMIT, [])]
    records = [(transaction_key("x"), transaction_value(9, *state)) for state in states]
    write_records(tmp_path, "__transaction_state", [*records, (transaction_key("x"), None)])
    found = bl.transactions(tmp_path, history=True).to_pylist()
    columns = ("transactional_id", "state", "is_removed", "coordinator_offset")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("x", "Ongoing", False, 0),
        ("x", "PrepareCommit", False, 1),
        ("x", "CompleteCommit", False, 2),
        ("x", None, True, 3),
    ]
    assert [row["coordinator_time"].timestamp() * 1000 for row in found] == [NOW, NOW + 1, NOW + 2, NOW + 3]
    assert bl.transactions(tmp_path, history=True, as_of=NOW + 1).num_rows == 2


def test_producers_are_those_of_the_snapshot(golden):
    """A clean shutdown writes one at the end of the log."""
    log = bl.Log(golden / "logs/kafka-4.1/txn-interleaved-0")
    content = (Path(log.path) / f"{log.log_end_offset:020d}.snapshot").read_bytes()
    snapshot = _native.producer_snapshot(content)
    found = bl.producers(golden / "logs/kafka-4.1", topics=["txn-interleaved"])
    assert found["producer_id"].to_pylist() == snapshot["producer_id"].to_pylist() != []
    for name in ("producer_epoch", "last_sequence", "last_offset"):
        assert [-1 if value is None else value for value in found[name].to_pylist()] == snapshot[name].to_pylist()


def test_without_snapshots_the_log_says_the_same(golden, tmp_path):
    whole = bl.producers(golden / "logs/kafka-4.1")
    copy = tmp_path / "copy"
    shutil.copytree(golden / "logs/kafka-4.1", copy, ignore=shutil.ignore_patterns("*.snapshot"))
    replayed = bl.producers(copy)
    # Compaction and retention leave batches out, and a snapshot still has their producers.
    is_plain = [not topic.startswith(("compact", "trimmed", "retention")) for topic in whole["topic"].to_pylist()]
    expected = [row for row, plain in zip(whole.to_pylist(), is_plain, strict=True) if plain]
    found = [row for row in replayed.to_pylist() if not row["topic"].startswith(("compact", "trimmed", "retention"))]
    assert found == expected


def test_a_damaged_log_gives_the_producers_before_the_damage(tmp_path):
    batches = [*in_transaction(0, 8, [(b"k", b"v")], commit=True), *in_transaction(2, 9, [(b"k", b"v")], commit=None)]
    path = write_segment(tmp_path / "t-0", 0, batches)
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, len(content) - len(batches[2]) + 8, 3)
    path.write_bytes(content)
    with pytest.warns(
        UserWarning, match=r"the list of producers of t-0 may be incomplete: .* is damaged \(length 3 is below"
    ):
        assert bl.producers(tmp_path)["producer_id"].to_pylist() == [8]


def test_producers_before_each_offset_are_those_of_a_log_cut_there(golden, tmp_path):
    """With snapshots to start from, and without."""
    log = bl.Log(golden / "logs/kafka-4.1/txn-interleaved-0")
    without = tmp_path / "without" / "txn-interleaved-0"
    shutil.copytree(log.path, without, ignore=shutil.ignore_patterns("*.snapshot"))
    assert len(log.segments) > 1
    for number, segment in enumerate(log.segments):
        batches = next(segment.scan())
        places = zip(batches["position"].to_pylist(), batches["base_offset"].to_pylist(), strict=True)
        for position, offset in list(places)[::5]:
            cut = tmp_path / str(offset) / "txn-interleaved-0"
            cut.mkdir(parents=True)
            for earlier in log.segments[:number]:
                shutil.copy(earlier.path, cut)
            (cut / Path(segment.path).name).write_bytes(Path(segment.path).read_bytes()[:position])
            expected = bl.producers(cut.parent).to_pylist()
            assert bl.producers(log.path, as_of_offset=offset).to_pylist() == expected
            assert bl.producers(without, as_of_offset=offset).to_pylist() == expected


def test_producers_at_a_time_that_the_log_has_not_are_not_known(tmp_path):
    batches = [*in_transaction(10, 8, [(b"k", b"v")], commit=True), *in_transaction(12, 9, [(b"k", b"v")], commit=None)]
    write_segment(tmp_path / "t-0", 10, batches)
    with pytest.warns(UserWarning, match="the producers of t-0 are not known: the log begins at offset 10"):
        assert bl.producers(tmp_path, as_of_offset=9).num_rows == 0
    with pytest.warns(
        UserWarning, match="the producers of t-0 are not known: the first record in this directory, at offset 10"
    ):
        assert bl.producers(tmp_path, as_of=NOW).num_rows == 0
    with pytest.warns(UserWarning, match="the list of producers of t-0 may be incomplete: the log begins at offset 10"):
        (row,) = bl.producers(tmp_path, as_of=NOW + 11).to_pylist()
    assert (row["producer_id"], row["transaction_start_offset"]) == (8, None)
    write_snapshot(tmp_path / "t-0", 10, [(7, 4)])
    found = bl.producers(tmp_path, as_of_offset=11).to_pylist()
    assert [(row["producer_id"], row["transaction_start_offset"]) for row in found] == [(7, 4), (8, 10)]
    with pytest.raises(ValueError, match="as_of and as_of_offset both give a point"):
        bl.producers(tmp_path, as_of=1, as_of_offset=1)


def test_a_damaged_checkpoint_of_a_replica_leaves_the_other_partitions(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    records = [(transaction_key("x"), transaction_value(9, ONGOING, [("t", 1)]))]
    write_records(one, "__transaction_state", records)
    for root, name, producer in ((one, "t-0", 8), (two, "t-0", 8), (one, "t-1", 9)):
        write_segment(root / name, 0, in_transaction(0, producer, [(b"k", b"v")], commit=None))
    (two / "t-0/leader-epoch-checkpoint").write_bytes(b"x")
    with pytest.warns(UserWarning, match="t-0 is left out, because it cannot be read: .*leader-epoch-checkpoint"):
        found = by_id(one, two)
    assert [(name, row["is_hanging"], len(row["open"])) for name, row in found.items()] == [("x", False, 1)]
    with pytest.warns(UserWarning, match="t-0 is left out, because it cannot be read"):
        assert bl.producers(one, two, topics=["t"])["partition"].to_pylist() == [1]


def test_the_states_of_the_history_are_those_of_the_latest(golden, tmp_path):
    """Both decode the same records: many partitions, none, unknown states, names that JSON escapes."""
    values = [
        transaction_value(1, ONGOING, [("b", 3), ("a", 1), ("b", 2)], epoch=3),
        transaction_value(2, COMPLETE_COMMIT, [], started=-1),
        transaction_value(3, 77, [("t", number) for number in range(50)]),
        transaction_value(4, 0, [("t", 0)]),
    ]
    names = ['"x\n', "ü\\", "\u2028", "d"]
    records = [(transaction_key(name), value) for name, value in zip(names, values, strict=True)]
    write_records(tmp_path, "__transaction_state", records)
    for topic, number in (("a", 1), ("b", 2), ("b", 3), *(("t", number) for number in range(50))):
        write_segment(tmp_path / f"{topic}-{number}", 0, [batch(0, [b"v"])])
    for path in (tmp_path, golden / "logs/kafka-4.1"):
        latest = {row["coordinator_partition"]: {} for row in bl.transactions(path).to_pylist()}
        for row in bl.transactions(path).to_pylist():
            latest[row["coordinator_partition"]][row["coordinator_offset"]] = row
        found = [
            (row, latest[row["coordinator_partition"]][row["coordinator_offset"]])
            for row in bl.transactions(path, history=True).to_pylist()
            if row["coordinator_offset"] in latest.get(row["coordinator_partition"], {})
        ]
        assert len(found) >= len(names)
        for row, same in found:
            assert row == {**same, "open": None, "is_hanging": None}


def test_what_does_not_fit_in_memory_gets_no_verdict(tmp_path):
    """The coordinators know the transaction, and their records take too much memory: it was called hanging."""
    records = [(transaction_key("other"), transaction_value(1, COMPLETE_COMMIT))]
    records.append((transaction_key("x"), transaction_value(9, ONGOING, [("t", 0)])))
    write_records(tmp_path, "__transaction_state", records)
    write_segment(tmp_path / "t-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    with collected() as notes:
        (row,) = bl.transactions(tmp_path, memory=1024).to_pylist()
    assert [
        "512 bytes are allowed" in " ".join(notes),
        "hang, because not all records of __transaction_state-0 could be read" in " ".join(notes),
    ] == [True, True], notes
    assert (row["is_hanging"], row["open"][0]["is_hanging"]) == (None, None)
    assert [row["is_hanging"] for row in bl.transactions(tmp_path).to_pylist()] == [False, False]


def test_damage_in_the_coordinators_records_leaves_no_verdict(tmp_path):
    """The id's last record, which would name the partition, is damaged."""
    records = [(transaction_key("x"), transaction_value(9, COMPLETE_COMMIT))]
    records.append((transaction_key("x"), transaction_value(9, ONGOING, [("t", 0)])))
    path = write_records(tmp_path, "__transaction_state", records)
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    write_segment(tmp_path / "t-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    with collected() as notes:
        (row,) = bl.transactions(tmp_path).to_pylist()
    assert [
        "the content of these records is not known" in " ".join(notes),
        "it is not known which transactions hang" in " ".join(notes),
    ] == [True, True], notes
    assert (row["state"], row["is_hanging"]) == ("CompleteCommit", None)


def test_partitions_with_transactions_that_no_path_has_are_named(tmp_path):
    partitions = [("t", 0), *(("u", number) for number in range(6))]
    write_records(tmp_path, "__transaction_state", [(transaction_key("x"), transaction_value(9, ONGOING, partitions))])
    write_segment(tmp_path / "t-0", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    unseen = (
        "u-0, u-1, u-2, u-3, u-4, and 1 more are in none of the paths, so it is not known which transactions they have"
    )
    with pytest.warns(UserWarning, match=unseen):
        assert bl.transactions(tmp_path).num_rows == 1


def test_one_doubtful_place_is_not_outvoted(tmp_path):
    """The transaction of an unknown producer, and of a known one that the coordinator awaits in one of two places."""
    path = write_records(
        tmp_path,
        "__transaction_state",
        [
            (transaction_key("x"), transaction_value(9, ONGOING, [("t", 1)])),
            (transaction_key("y"), transaction_value(8, ONGOING)),
        ],
    )
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    for number in (0, 1):
        write_segment(tmp_path / f"t-{number}", 0, in_transaction(0, 9, [(b"k", b"v")], commit=None))
    with collected():
        (row,) = bl.transactions(tmp_path).to_pylist()
    assert [one["is_hanging"] for one in row["open"]] == [None, False]
    assert row["is_hanging"] is None
