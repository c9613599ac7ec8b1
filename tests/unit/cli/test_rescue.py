"""`brokerless rescue` prints what is lost in few lines."""

import shutil

import brokerless as bl


def test_the_partitions_of_a_topic_that_are_lost_share_a_line(tmp_path, run):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("many", partitions=48)
    for number in range(48):
        shutil.rmtree(tmp_path / f"data/many-{number}")
    lines = [line for line in run("rescue", tmp_path / "data", "--dry-run").out.splitlines() if "lost: " in line]
    assert len(lines) == 1
    assert lines[0].startswith("lost: 48 partitions of many (0, 1, 2, ")
