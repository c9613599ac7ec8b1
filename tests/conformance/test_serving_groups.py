"""A member of a group is killed: the others take over what it had, and no record is missing."""

import pytest
from clients import Member

import brokerless as bl
from support.polling import until

PARTITIONS, COUNT = 6, 900
SECONDS = 240


@pytest.fixture
def data(tmp_path):
    with bl.Producer(tmp_path / "data", "orders", partitions=PARTITIONS) as producer:
        producer.send([{"value": f"{at}", "partition": at % PARTITIONS} for at in range(COUNT)])
    return tmp_path / "data"


@pytest.mark.parametrize("client", ["java-4.1.0", "java-4.4.0", "confluent-kafka"])
def test_two_members_take_over_from_one_that_is_killed(client, data, tmp_path):
    commits = tmp_path / "commits"
    everything = {(partition, at) for partition in range(PARTITIONS) for at in range(COUNT // PARTITIONS)}
    members = []

    def rows(*chosen):
        return [(row["partition"], row["offset"]) for member in chosen for row in member.rows]

    def start(number, address):
        job = {"at": address, "isolation": "read_committed", "group": "g", "topics": ["orders"], "pause": 150}
        members.append(Member(client, tmp_path / f"member-{len(members)}", **job))

    try:
        with bl.serve(data, commits=commits) as address:
            for number in range(3):
                start(number, address)
            until(lambda: [member.assigned for member in members] == [2, 2, 2], seconds=SECONDS)
            before = len(members[0].rows)
            until(lambda: len(members[0].rows) > before + 20, seconds=SECONDS)
            members[0].kill()
            until(lambda: [member.assigned for member in members[1:]] == [3, 3], seconds=SECONDS)
            until(lambda: set(rows(*members)) == everything, seconds=SECONDS)
            # What is read twice is at most what was not committed when a member died or lost a partition.
            found = rows(*members)
            assert len(found) - len(everything) <= 10 * 3 * PARTITIONS
            until(lambda: committed(client, address, tmp_path) == COUNT, seconds=SECONDS)
            for member in members[1:]:
                member.kill()
        with bl.Producer(data, "orders") as producer:
            producer.send([{"value": "later", "partition": 0}])
        # The server starts again with the file: the group reads on.
        with bl.serve(data, commits=commits) as address:
            start(3, address)
            until(lambda: rows(members[3]) == [(0, COUNT // PARTITIONS)], seconds=SECONDS)
    finally:
        for member in members:
            member.kill()


def committed(client, address, tmp_path):
    """Return the sum of the offsets that the group has committed, as the file has them."""
    lines = [line.split("\t") for line in (tmp_path / "commits").read_text().splitlines()]
    # The last line of a partition counts.
    offsets = {(topic, partition): int(offset) for group, topic, partition, offset, *_ in lines if group == "g"}
    return sum(offsets.values())
