"""`brokerless rescue` prints losses first, and those of one cause in one line."""

import re
import shutil

import brokerless as bl


def test_the_partitions_of_a_topic_that_are_lost_share_a_line(tmp_path, run):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("many", partitions=48)
    for number in range(48):
        shutil.rmtree(tmp_path / f"data/many-{number}")
    lines = [line for line in run("rescue", tmp_path / "data", "--dry-run").out.splitlines() if "lost: " in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "lost: 48 partitions: many-0, many-1, many-2, many-3, many-4, and 43 more: no disk has the partition"
    )


def test_one_loss_is_not_hidden_by_many_doubts(copied, run):
    """Without ids of its node, no replica of the disk was surely in sync."""
    data = copied("kafka-4.1")
    (data / "meta.properties").unlink()
    shutil.rmtree(data / "headers-0")
    lines = run("rescue", data, "--dry-run").out.splitlines()
    lost, perhaps = lines[:2]
    assert lost.startswith("lost: headers-0: no disk has the partition")
    assert re.match(r"perhaps lost: [0-9]+ partitions: \S+ \(from offset [0-9]+ on\), .*, and [0-9]+ more: ", perhaps)
    assert not [line for line in lines[2:] if "lost: " in line]
