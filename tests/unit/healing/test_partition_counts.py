"""Without metadata, the records of Kafka's own topics tell how many partitions these have."""

import base64
import struct

import pytest

from brokerless.healing.partition_counts import likely_count
from brokerless.log.log import Log
from brokerless.state.internal_topic import java_hash
from support.state_records import commit_key, commit_value, remote_segment, text, transaction_key, write_records

GROUPS = [f"group-{number}" for number in range(40)]
# As Kafka's own classes of 4.1 have it: by topic id and partition, what is taken modulo the number of partitions, by
# RemoteLogMetadataTopicPartitioner, and for share group "g-\u00e9" by ShareCoordinatorService.
PLACES = [
    ("AAAAAAAAAAAAAAAAAAAAAw", 0, 251635636, 500425245),
    ("AAAAAAAAAAAAAAAAAAAAAw", 1, 1694250767, 500425244),
    ("AAAAAAAAAAAAAAAAAAAAAw", 7, 377789260, 500425238),
    ("URuqgVWsQoOVENgjVrV6rg", 0, 2106564579, 1196713677),
    ("URuqgVWsQoOVENgjVrV6rg", 1, 1341421662, 1196713676),
    ("URuqgVWsQoOVENgjVrV6rg", 7, 884279590, 1196713670),
    ("yOAO6IGBR8y_mIkwDnGWjw", 0, 827044317, 950973978),
    ("yOAO6IGBR8y_mIkwDnGWjw", 1, 1791687847, 950973979),
    ("yOAO6IGBR8y_mIkwDnGWjw", 7, 35830350, 950973985),
    ("_____________________w", 0, 2043291756, 1717302917),
    ("_____________________w", 1, 56723830, 1717302918),
    ("_____________________w", 7, 1843146031, 1717302924),
]


def group_key(kind, *more):
    """A key of a kind of group that is newer than the classic one, as a function of the group."""
    return lambda name: struct.pack(">h", kind) + text(name) + b"".join(more)


def of_names(key, value=None):
    return [(java_hash(name), key(name), value) for name in GROUPS]


def uuid_of(topic_id):
    return base64.urlsafe_b64decode(f"{topic_id}==")


def of_share_state(kind):
    return [
        (place, struct.pack(">h", kind) + text("g-\u00e9") + uuid_of(topic_id) + struct.pack(">i", partition), None)
        for topic_id, partition, _, place in PLACES
    ]


def of_remote_storage():
    return [
        (place, None, remote_segment(1, topic_id=uuid_of(topic_id), partition=partition, is_new=is_new))
        for topic_id, partition, place, _ in PLACES
        for is_new in (True, False)
    ]


OFFSETS, MEMBER = "__consumer_offsets", text("member-1")
RECORDS = [
    pytest.param(OFFSETS, of_names(lambda name: commit_key(name, "t", 0), commit_value(1)), id="commits"),
    pytest.param(OFFSETS, of_names(group_key(3)), id="consumer groups"),
    pytest.param(OFFSETS, of_names(group_key(5, MEMBER)), id="members of consumer groups"),
    pytest.param(OFFSETS, of_names(group_key(11)), id="share groups"),
    pytest.param(OFFSETS, of_names(group_key(17)), id="streams groups"),
    pytest.param("__transaction_state", of_names(transaction_key), id="transactions"),
    pytest.param("__share_group_state", of_share_state(0), id="share snapshots"),
    pytest.param("__share_group_state", of_share_state(1), id="share updates"),
    pytest.param("__remote_log_metadata", of_remote_storage(), id="remote storage"),
]


@pytest.mark.parametrize("count", [1, 3, 7, 50, 64])
@pytest.mark.parametrize(("topic", "records"), RECORDS)
def test_each_kind_of_record_tells_the_number_of_partitions(tmp_path, topic, records, count):
    """With another number, coordinators would say that there is no such group."""
    for partition in range(count):
        here = [(key, value) for place, key, value in records if place % count == partition]
        write_records(tmp_path, topic, here, partition=partition)
    logs = {partition: Log(str(tmp_path / f"{topic}-{partition}")) for partition in range(count)}
    assert likely_count(topic, logs, count).partitions == count
    # The disks with the higher half of the partitions are lost; fewer records tell less.
    half = {partition: log for partition, log in logs.items() if partition <= count // 2}
    differences = {place - place % count for place, *_ in records if place % count in half}
    if len(differences) >= 10:
        assert likely_count(topic, half, len(half)).partitions == count


def test_a_share_group_of_neighbouring_partitions_does_not_count_ten_times(tmp_path):
    """Their hashes, and so their places, differ by 1: all of them say the same."""
    keys = [struct.pack(">h", 0) + text("g") + bytes(16) + struct.pack(">i", number) for number in range(10)]
    first = java_hash("g:AAAAAAAAAAAAAAAAAAAAAA:0")
    for partition in range(50):
        here = [(key, None) for at, key in enumerate(keys) if (first + at) % 50 == partition]
        write_records(tmp_path, "__share_group_state", here, partition=partition)
    logs = {partition: Log(str(tmp_path / f"__share_group_state-{partition}")) for partition in range(50)}
    assert likely_count("__share_group_state", logs, 50).partitions == 50
