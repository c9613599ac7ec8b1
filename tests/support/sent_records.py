"""What a producer has sent, read back."""

import brokerless as bl

COLUMNS = ["partition", "offset", "key", "value", "headers", "timestamp", "sequence", "producerId", "producerEpoch"]


def rows(path, isolation_level="read_uncommitted", columns=None):
    logs = bl.LogDirs(path).logs(["t"])
    return [
        row
        for log in logs
        for batch in log.read(isolation_level=isolation_level, columns=columns or COLUMNS)
        for row in batch.to_pylist()
    ]


def values(path, isolation_level="read_uncommitted"):
    return [row["value"] for row in rows(path, isolation_level)]
