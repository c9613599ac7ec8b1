"""A replica that was being moved to another log directory when its broker was killed, and recovered."""

import time

from kafka import AFTER_A_KILL, Broker, complaints

import brokerless as bl
from brokerless.log_dir.recover import recovered
from support.polling import until

THROTTLE = {"replica_alter_log_dirs_io_max_bytes_per_second": 60_000}


def test_no_record_of_a_replica_that_was_being_moved_is_lost(client, tmp_path):
    """With a marker and no recovery, zeros in preallocated indexes make its segments ages old: retention takes them."""
    disks = tmp_path / "disk1", tmp_path / "disk2"
    week = {"log_retention_ms": 604800000, "log_retention_check_interval_ms": 200, "log_initial_task_delay_ms": 100}
    broker = Broker(*disks, log=tmp_path / "before.log", **week)
    try:
        client.create(broker, "t", retention_ms=604800000, internal_segment_bytes=200_000)
        for _ in range(6):
            client.produce(broker, "t", 0, 1000)
        expected = client.consume(broker, "t")
        (here,) = (disk for disk in disks if (disk / "t-0").exists())
        (there,) = (disk for disk in disks if disk != here)
        client.configure(broker, "broker", str(broker.node_id), **THROTTLE)
        client.move(broker, "t", 0, there)
        until(
            lambda: any(size_of(future) >= 100_000 for future in there.glob("t-0.*-future")), what="nothing was moved"
        )
    finally:
        broker.kill()
    for disk in disks:
        list(recovered(str(disk)))
        assert bl.LogDirFiles(str(disk)).is_clean
    with Broker(*disks, log=tmp_path / "after.log", **week, **AFTER_A_KILL) as broker:
        # five rounds of the retention
        time.sleep(1)
        assert client.consume(broker, "t") == expected
        assert [line for line in complaints(broker.log) if "t-0" in line] == []
        assert "due to log retention" not in broker.log


def size_of(directory):
    return sum(path.stat().st_size for path in directory.glob("*.log"))
