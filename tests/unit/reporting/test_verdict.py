"""The verdict of a report names the worst fault first, with its numbers, and never calls unread data sound."""

import re

import brokerless as bl
from support import damage
from support.log_files import batch, write_segment
from support.state_records import commit_key, commit_value, write_records

CLEAN = "No fault was found in 2 partitions."


def healthy(path):
    with bl.create_log_dir(path) as log_dir, bl.Producer(log_dir, "orders", partitions=2) as producer:
        producer.send([{"key": b"%d" % at, "value": b"v"} for at in range(100)])
    return path


def orders(path, partitions=14):
    """Partitions without leader epochs, which is a warning for each topic."""
    return [
        write_segment(path / f"orders-{number}", 0, [batch(at, [b"v"]) for at in range(10)])
        for number in range(partitions)
    ]


def hang(path, partition=0, offset=0):
    batches = [batch(at, [b"v"]) for at in range(offset)]
    opened = batch(offset, [b"v"], producer_id=7 + partition, base_sequence=0, transactional=True)
    write_segment(path / f"payments-{partition}", 0, [*batches, opened])
    write_records(path, "__transaction_state", [])


def test_a_sound_directory_has_no_fault_and_its_unknowns_are_named(tmp_path):
    found = bl.report(healthy(tmp_path / "data"))
    assert found.verdict == f"{CLEAN} Not known: consumer groups and their lag, and transactional ids."
    assert "✔ No fault found" in found.html
    assert 'class="verdict sound"' in found.html


def test_a_choice_of_topics_says_nothing_about_the_others(tmp_path):
    assert (
        "the state of other topics and of the directories"
        in bl.report(healthy(tmp_path / "data"), topics=["orders"]).verdict
    )


def test_an_empty_directory_is_not_praised(tmp_path):
    bl.create_log_dir(tmp_path / "data").close()
    assert bl.report(tmp_path / "data").verdict.startswith("No fault was found, but the paths have no partitions.")


def test_warnings_are_no_errors(tmp_path):
    orders(tmp_path, 1)
    found = bl.report(tmp_path)
    assert found.verdict.startswith(
        "No error was found, but 1 warning: the leader-epoch-checkpoint contradicts the batches (topic orders)."
    )
    assert "▲ Warnings" in found.html


def test_damage_and_hanging_transactions_come_with_their_numbers(tmp_path):
    logs = orders(tmp_path)
    for number in (1, 5):
        damage.flip_bit(logs[number], 100)
    hang(tmp_path, offset=812)
    found = bl.report(tmp_path)
    assert found.verdict.startswith(
        "2 of 16 partitions are damaged, and 1 transaction hangs: read_committed consumers of payments-0 stop at "
        "offset 812."
    )
    damaged = [row["partition"] for row in found.tables["partitions"].to_pylist() if row["is_damaged"]]
    assert damaged == [1, 5]


def test_several_findings_in_a_partition_are_one_damaged_partition(tmp_path):
    (log,) = orders(tmp_path, 1)
    for position in (100, 300, 500):
        damage.flip_bit(log, position)
    assert bl.report(tmp_path).verdict.startswith("1 of 1 partition is damaged.")


def test_the_groups_that_stand_at_a_hanging_transaction_are_named(tmp_path):
    hang(tmp_path, offset=3)
    records = [
        (commit_key(group, "payments", 0), commit_value(offset))
        for group, offset in (("audit", 2), ("ledger", 3), ("mail", 3))
    ]
    write_records(tmp_path, "__consumer_offsets", records)
    assert (
        "Group ledger stands at offset 3 of payments-0 (and 1 other group where transactions hang)."
        in bl.report(tmp_path).verdict
    )


def test_transactions_that_hang_in_several_partitions(tmp_path):
    for partition, offset in enumerate((3, 2, 1)):
        hang(tmp_path, partition, offset)
    assert bl.report(tmp_path).verdict.startswith(
        "3 transactions hang: read_committed consumers of payments-0 stop at offset 3, and those of 2 other "
        "partitions stop too."
    )


def test_an_open_transaction_without_its_coordinator_is_not_known(tmp_path):
    hang(tmp_path)
    (tmp_path / "__transaction_state-0").rename(tmp_path / "elsewhere")
    verdict = bl.report(tmp_path / "payments-0").verdict
    assert "hang" not in verdict
    assert "whether 1 open transaction will end" in verdict


def test_a_directory_on_which_no_broker_starts(tmp_path):
    path = healthy(tmp_path / "data")
    (path / "lost+found").mkdir()
    assert bl.report(path).verdict.startswith("1 finding keeps a broker from starting.")


def commit(path, *commits):
    write_records(
        path, "__consumer_offsets", [(commit_key(group, "orders", 0), commit_value(at)) for group, at in commits]
    )


def long_topic(path, records=5000):
    write_segment(path / "orders-0", 0, [batch(0, [b"v"] * records)])


def test_groups_that_reset_come_before_warnings_and_lag(tmp_path):
    long_topic(tmp_path)
    commit(tmp_path, ("mailer", 9000), ("audit", 100), ("billing", 5000))
    found = bl.report(tmp_path)
    assert found.verdict.startswith(
        "Group mailer resets in 1 partition, as its committed offset is out of range, and group audit lags by 4,900 "
        "records. No error was found, but "
    )
    assert 'class="verdict warning"' in found.html
    assert "Committed offsets out of range" in found.html
    groups = {row["group"]: row["out_of_range"] for row in found.tables["groups"].to_pylist()}
    assert groups == {"audit": 0, "billing": 0, "mailer": 1}


def test_damage_comes_before_groups(tmp_path):
    (log,) = orders(tmp_path, 1)
    damage.flip_bit(log, 100)
    commit(tmp_path, ("mailer", 9000), ("other", 8000))
    found = bl.report(tmp_path).verdict
    assert found.startswith("1 of 2 partitions is damaged (")
    assert ". Group mailer resets in 1 partition, as its committed offset is out of range (and so does 1 other" in found


def test_a_small_lag_is_not_in_the_verdict(tmp_path):
    long_topic(tmp_path)
    commit(tmp_path, ("few", 4100), ("none", 5000))
    assert "lags" not in bl.report(tmp_path).verdict


def test_a_hostile_group_name_stays_text_in_the_verdict(tmp_path):
    long_topic(tmp_path)
    commit(tmp_path, ("<b>\u202e", 9000))
    found = bl.report(tmp_path)
    assert "Group <b>\\u202e resets" in found.verdict
    assert "Group &lt;b&gt;\\u202e resets" in found.html


def test_groups_that_moved_back_are_named_in_the_verdict(tmp_path):
    """They were only a number in a column."""
    long_topic(tmp_path)
    commit(tmp_path, ("mailer", 4900), ("mailer", 4800), ("audit", 5000))
    assert "The committed offsets of group mailer moved back." in bl.report(tmp_path).verdict
    many = tmp_path / "many"
    long_topic(many)
    commit(many, *((f"g{at % 5}", 5000 - at * 5) for at in range(10)))
    assert re.search(r"offsets of groups g\d, g\d, g\d and 2 other groups moved back", bl.report(many).verdict)
