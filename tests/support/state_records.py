"""Records of Kafka's own topics made by hand, for what no golden log holds."""

import struct

from support.log_files import NOW, batch, marker, write_segment

FLEXIBLE_END = b"\0"
# The options of kafka-dump-log, and of `dump`, that decode the records of each topic.
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}


def text(value):
    """A string as messages without tagged fields have it."""
    data = b"" if value is None else value.encode()
    return struct.pack(">h", -1 if value is None else len(data)) + data


def data(value):
    """Bytes behind their length."""
    return struct.pack(">i", len(value)) + value


def commit_key(group, topic, partition):
    return struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(offset, time=NOW, metadata=""):
    return struct.pack(">hqi", 3, offset, -1) + text(metadata) + struct.pack(">q", time)


def group_key(group):
    return struct.pack(">h", 2) + text(group)


def group_value(generation, members=()):
    """A classic group of consumers: members are (member id, topics, {topic: partitions})."""
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", generation)
    leader = members[0][0] if members else None
    value += text("range" if members else None) + text(leader) + struct.pack(">q", NOW)
    value += struct.pack(">i", len(members))
    for member, topics, assigned in members:
        value += text(member) + text(None) + text(f"client-{member}") + text("/10.0.0.1") + struct.pack(">ii", 1, 2)
        subscription = struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", -1)
        assignment = struct.pack(">hi", 0, len(assigned))
        for topic, partitions in assigned.items():
            assignment += text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        value += data(subscription) + data(assignment + struct.pack(">i", -1))
    return value


def transaction_key(transactional_id):
    return struct.pack(">h", 0) + text(transactional_id)


def transaction_value(producer_id, status, partitions=(), *, epoch=0, started=NOW, timeout=60_000):
    """The state of a transactional id: partitions are (topic, partition)."""
    value = struct.pack(">hqhib", 0, producer_id, epoch, timeout, status)
    value += struct.pack(">i", len(partitions))
    for topic, partition in partitions:
        value += text(topic) + struct.pack(">ii", 1, partition)
    return value + struct.pack(">qq", started, started)


def remote_segment(segment, state=0, *, custom=None, is_new=False, topic_id=None, partition=0):
    """A record of `__remote_log_metadata` about the segment of a number: its first one, or a change of its state."""
    uuid = bytes(15) + bytes([segment])
    named = b"\2t" + (topic_id or uuid) + struct.pack(">i", partition) + FLEXIBLE_END + uuid + FLEXIBLE_END
    noted = b"\0" if custom is None else bytes([len(custom) + 1]) + custom
    if not is_new:
        return b"\1\1\0" + named + struct.pack(">iq", 1, NOW + state) + noted + struct.pack(">b", state) + FLEXIBLE_END
    value = b"\1\0\0" + named + struct.pack(">qqiqq", 0, 9, 1, NOW, NOW)
    value += b"\2" + struct.pack(">iq", 0, 0) + FLEXIBLE_END + struct.pack(">i", 100)
    return value + noted + struct.pack(">b", state) + FLEXIBLE_END


def write_records(directory, topic, records, *, partition=0, time=NOW):
    """Write a log with a batch for each (key, value), at consecutive offsets and milliseconds."""
    batches = [
        batch(offset, [value], keys=[key], timestamp=time + offset) for offset, (key, value) in enumerate(records)
    ]
    return write_segment(directory / f"{topic}-{partition}", 0, batches)


def in_transaction(offset, producer_id, records, *, commit, time=NOW):
    """Batches of a transaction that ends behind its records; `commit` None leaves it open."""
    batches = [
        batch(
            offset,
            [value for _, value in records],
            keys=[key for key, _ in records],
            timestamp=time + offset,
            producer_id=producer_id,
            base_sequence=0,
            transactional=True,
            step=0,
        )
    ]
    if commit is not None:
        batches.append(marker(offset + len(records), producer_id, commit=commit, timestamp=time + offset))
    return batches
