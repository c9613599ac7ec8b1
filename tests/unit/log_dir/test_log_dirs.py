"""Several paths seen as one set of topics."""

import inspect
import shutil
from datetime import UTC, datetime, timedelta, timezone

import pytest

import brokerless as bl
from brokerless.spark import check, export, profile, restore
from support.log_files import batch, write_segment
from support.three_segment_log import log_file


def broker(path, node_id, cluster_id="c"):
    path.mkdir(parents=True, exist_ok=True)
    (path / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id={cluster_id}\n")
    return path


def partition(root, name, values=("a", "b"), epoch=0):
    write_segment(root / name, 0, [batch(0, [value.encode() for value in values], leader_epoch=epoch)])
    (root / name / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    return root / name


def test_topics_and_logs_of_a_real_broker(golden):
    found = bl.LogDirs(golden / "logs" / "kafka-4.1")
    assert len(found.topics()) == 40
    assert found.topics() == sorted(found.topics())
    assert [log.name for log in found.logs(["multi-partition", "nulls"])] == [
        *(f"multi-partition-{i}" for i in range(4)),
        "nulls-0",
    ]
    assert [log.name for log in found.logs(["multi-partition"], [3, 1])] == ["multi-partition-1", "multi-partition-3"]
    assert found.log("nulls", 0).topic_id is not None
    assert found.leftovers() == []


def test_an_unknown_topic_comes_with_the_nearest(golden):
    found = bl.LogDirs(golden / "logs" / "kafka-4.1")
    with pytest.raises(ValueError, match="unknown topic 'codec-zstdd': did you mean 'codec-zstd'"):
        found.logs(["codec-zstdd"])
    with pytest.raises(ValueError, match="unknown partition 7"):
        found.log("multi-partition", 7)


def test_partitions_sort_as_numbers(tmp_path):
    root = broker(tmp_path, 1)
    for number in (10, 2, 0):
        partition(root, f"t-{number}")
    assert [log.partition for log in bl.LogDirs(root).logs()] == [0, 2, 10]


def test_several_roots_of_one_broker_are_one_view(tmp_path):
    one, two = broker(tmp_path / "one", 1), broker(tmp_path / "two", 1)
    partition(one, "t-0")
    partition(two, "t-1")
    assert [log.name for log in bl.LogDirs(one, two).logs()] == ["t-0", "t-1"]


def test_a_partition_twice_in_one_broker_is_refused_as_by_kafka(tmp_path):
    """Which of them is the partition, nobody knows. Others are read."""
    one, two = broker(tmp_path / "one", 1), broker(tmp_path / "two", 1)
    partition(one, "t-0")
    partition(two, "t-0")
    partition(two, "u-0")
    found = bl.LogDirs(one, two)
    with pytest.raises(ValueError, match="t-0 of node 1 is in two directories"):
        found.logs()
    assert [log.name for log in found.logs(["u"])] == ["u-0"]
    assert len(found.logs(all_replicas=True)) == 3


def formatted(root):
    """What formatting leaves on the disk that the configuration names for the metadata (KIP-1170)."""
    directory = root / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{0:020d}-{0:010d}.checkpoint").write_bytes(batch(0, [b"first"]))
    return root


def test_the_metadata_log_is_on_the_disk_where_the_node_has_started_it(tmp_path):
    """Other disks may have been formatted as the one for the metadata. Two logs that were started are refused."""
    disks = [formatted(broker(tmp_path / name, 1)) for name in ("a", "b", "c")]
    assert [log.path for log in bl.LogDirs(*disks).logs()] == [str(disks[0] / "__cluster_metadata-0")]
    write_segment(disks[1] / "__cluster_metadata-0", 0, [batch(0, [b"x"])])
    assert [log.path for log in bl.LogDirs(*disks).logs()] == [str(disks[1] / "__cluster_metadata-0")]
    write_segment(disks[2] / "__cluster_metadata-0", 0, [batch(0, [b"x"])])
    with pytest.raises(ValueError, match="__cluster_metadata-0 of node 1 is in two directories"):
        bl.LogDirs(*disks).logs()


def test_two_names_of_one_partition_in_one_directory_are_refused(tmp_path):
    root = broker(tmp_path, 1)
    partition(root, "t-0")
    partition(root, "t-00")
    with pytest.raises(ValueError, match="t-0 of node 1 is in two directories"):
        bl.LogDirs(root).logs()


def test_a_later_leader_epoch_beats_a_longer_replica(tmp_path):
    """A replica that is longer in an older epoch holds what the newer leader had it truncate."""
    long_old = partition(broker(tmp_path / "one", 1), "t-0", values="abcdef", epoch=3)
    short_new = partition(broker(tmp_path / "two", 2), "t-0", values="abc", epoch=4)
    longer_new = partition(broker(tmp_path / "three", 3), "t-0", values="abcd", epoch=4)
    found = bl.LogDirs(tmp_path / "one", tmp_path / "two", tmp_path / "three")
    assert found.log("t", 0).path == str(longer_new)
    assert [log.path for log in found.replicas("t", 0)] == [str(longer_new), str(short_new), str(long_old)]
    assert len(found.logs()) == 1
    of_all = found.logs(["t"], [0], all_replicas=True)
    assert [log.path for log in of_all] == [str(long_old), str(short_new), str(longer_new)]


def test_two_clusters_are_not_replicas_of_each_other(tmp_path):
    one, two = broker(tmp_path / "one", 1, "c1"), broker(tmp_path / "two", 2, "c2")
    partition(one, "t-0")
    partition(two, "t-0")
    with pytest.raises(ValueError, match=r"different clusters: c1 in .*one, c2 in .*two"):
        bl.LogDirs(one, two)


def test_deleted_stray_and_future_directories_are_left_over_and_not_read(tmp_path):
    root = broker(tmp_path, 1)
    partition(root, "t-0")
    unique = "0123456789abcdef0123456789abcdef"
    for kind in ("delete", "stray", "future"):
        partition(root, f"t-0.{unique}-{kind}")
    found = bl.LogDirs(root)
    assert [log.name for log in found.logs()] == ["t-0"]
    assert [(leftover.kind, leftover.topic, leftover.partition) for leftover in found.leftovers()] == [
        ("delete", "t", 0),
        ("future", "t", 0),
        ("stray", "t", 0),
    ]


@pytest.mark.parametrize("kind", ["delete", "stray", "future"])
@pytest.mark.parametrize("name", ["gone", "gon*"])
def test_a_topic_that_only_directories_out_of_use_have_is_not_unknown(tmp_path, kind, name):
    """Somebody who looks for a deleted topic would believe that nothing is left of it."""
    root = broker(tmp_path, 1)
    partition(root, "good-0")
    partition(root, f"gone-0.{'0' * 32}-{kind}")
    with pytest.raises(ValueError, match=f"only directories that end in -{kind}, .* `brokerless read ") as refused:
        bl.LogDirs(root).logs([name])
    assert f"`brokerless read {root}/gone-0.{'0' * 32}-{kind}`" in str(refused.value)
    assert ("copy them first" in str(refused.value)) == (kind == "delete")
    # One directory in use is enough.
    partition(root, "gone-1")
    assert [log.name for log in bl.LogDirs(root).logs([name])] == ["gone-1"]
    with pytest.raises(ValueError, match="unknown topic 'gon': did you mean 'gone'"):
        bl.LogDirs(root).logs(["gon"])


def test_directories_that_are_no_partitions_are_passed_over(tmp_path):
    root = broker(tmp_path, 1)
    partition(root, "t-0")
    for name in ("lost+found", "remote-log-index-cache", "t-x", "-0"):
        (root / name).mkdir()
    assert bl.LogDirs(root).topics() == ["t"]


def test_a_root_may_be_named_like_a_partition(tmp_path):
    root = broker(tmp_path / "kafka-4", 1)
    partition(root, "t-0")
    assert bl.LogDirs(root).topics() == ["t"]


def test_a_partition_directory_uses_the_checkpoints_around_it(golden):
    found = bl.LogDirs(golden / "logs" / "kafka-4.1" / "trimmed-delete-records-0")
    (log,) = found.logs()
    assert (log.log_start_offset, log.high_watermark) == (117, 200)
    assert [root.node_id for root in found.roots] == [1]


def test_a_single_file_uses_them_too(golden):
    file = golden / "logs" / "kafka-4.1" / "trimmed-delete-records-0" / "00000000000000000090.log"
    found = bl.LogDirs(file)
    (log,) = found.logs()
    assert (log.log_start_offset, log.high_watermark) == (117, 200)
    assert next(log.read(columns=["offset"]))["offset"][0].as_py() == 117
    assert [root.node_id for root in found.roots] == [1]


def test_a_single_file_is_read_as_part_of_its_partition(golden):
    directory = golden / "logs" / "kafka-4.1" / "txn-abort-spanning-0"
    whole = bl.Log(directory)
    for file in sorted(directory.glob("*.log")):
        (log,) = bl.LogDirs(file).logs()
        assert (log.topic, log.partition) == ("txn-abort-spanning", 0)
        for isolation_level in ("read_uncommitted", "read_committed"):
            offsets = [
                offset
                for rows in log.read(isolation_level=isolation_level, columns=["offset"])
                for offset in rows["offset"].to_pylist()
            ]
            assert offsets == [
                offset
                for rows in whole.read(isolation_level=isolation_level, columns=["offset"])
                for offset in rows["offset"].to_pylist()
                if log.log_start_offset <= offset < log.log_end_offset
            ]


@pytest.mark.parametrize("name", ["00000000000000000090.log", "copy.log"])
def test_a_lone_file_has_no_topic(golden, tmp_path, name):
    source = golden / "logs" / "kafka-4.1" / "retention-bytes-0" / "00000000000000000090.log"
    shutil.copy2(source, tmp_path / name)
    (log,) = bl.LogDirs(tmp_path / name).logs()
    assert (log.topic, log.partition, log.log_start_offset) == (None, None, 90)
    rows = next(log.read())
    assert (rows["topic"][0].as_py(), rows["partition"][0].as_py(), rows["offset"][0].as_py()) == (None, None, 90)


@pytest.mark.parametrize(
    "name",
    ["2024-05-01-backup.log", "100.log", "99999999999999999999.log", f"{150:020d}.log", f"{40:020d}.log.deleted"],
)
def test_a_number_in_the_name_of_a_lone_file_hides_none_of_its_rows(golden, tmp_path, name):
    (tmp_path / name).write_bytes(write_segment(tmp_path / "t-0", 64, [batch(64, [b"x"] * 136)]).read_bytes())
    log = bl.Log(tmp_path / name)
    assert (log.topic, log.log_end_offset) == (None, 200)
    assert sum(rows.num_rows for rows in log.read()) == 136


def test_a_backup_inside_a_partition_directory_is_read_whole(tmp_path):
    directory = write_segment(tmp_path / "t-0", 0, [batch(0, [b"x"] * 5)]).parent
    (directory / "2024-05-01.log").write_bytes(batch(3, [b"x"] * 2))
    assert sum(rows.num_rows for rows in bl.Log(directory / "2024-05-01.log").read()) == 2


def test_an_empty_lone_file_has_no_rows_and_its_names_offset(tmp_path):
    (tmp_path / f"{7:020d}.log").touch()
    log = bl.Log(tmp_path / f"{7:020d}.log")
    assert (log.log_start_offset, log.log_end_offset, list(log.read())) == (7, 7, [])


def test_with_replicas_damage_in_another_topic_does_not_stop_a_read(tmp_path):
    for node in (1, 2):
        root = broker(tmp_path / str(node), node)
        partition(root, "good-0")
        for name in ("bad-0", "good-1"):
            (partition(root, name) / "leader-epoch-checkpoint").write_text("garbage\n")
    found = bl.LogDirs(tmp_path / "1", tmp_path / "2")
    assert [log.name for log in found.logs(["good"], [0])] == ["good-0"]
    assert len(found.replicas("good", 0)) == 2
    with pytest.raises(bl.errors.CorruptRecordError, match="leader-epoch-checkpoint"):
        found.log("bad", 0)


def test_an_unknown_partition_names_each_that_there_is_once(tmp_path):
    root = broker(tmp_path, 1)
    for name in ("a-0", "b-0", "c-0", "c-1"):
        partition(root, name)
    with pytest.raises(ValueError, match=r"unknown partition 77: there are 0 to 1$"):
        bl.LogDirs(root).logs(partitions=[77])


def test_what_is_nothing_of_kafka_is_said_to_be(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"is not a log directory, a partition directory or a .log file"):
        bl.LogDirs(tmp_path)
    with pytest.raises(ValueError, match=r"is not a .log file"):
        bl.LogDirs(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        bl.LogDirs(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no path"):
        bl.LogDirs()
    with pytest.raises(ValueError, match="not a partition directory"):
        bl.Log(tmp_path)


def test_a_string_is_not_taken_for_its_letters(golden, tmp_path):
    directory = bl.LogDirs(golden / "logs/kafka-4.1")
    log = directory.logs()[0]
    for call in (
        lambda: log.read(columns="offset"),
        lambda: directory.logs(topics="orders"),
        lambda: directory.logs(partitions="0"),
        lambda: bl.rewrite(bl.Compaction(), tmp_path, topics="orders"),
        lambda: profile(None, tmp_path, topics="orders"),
        lambda: profile(None, tmp_path, by="topic"),
        lambda: check(None, tmp_path, topics="orders"),
        lambda: export(None, str(tmp_path), str(tmp_path / "to"), topics="orders"),
        lambda: restore(None, str(tmp_path), str(tmp_path / "to"), topics="orders"),
    ):
        with pytest.raises(TypeError, match=r"a list is expected, not the string '(offset|orders|topic|0)'"):
            call()


def test_a_partition_is_a_number(golden, tmp_path):
    directory = bl.LogDirs(golden / "logs/kafka-4.1")
    with pytest.raises(TypeError, match="partition: a number is expected, not the string '0'"):
        directory.log(directory.topics()[0], "0")
    with bl.create_log_dir(tmp_path / "d") as writer:
        writer.create_topic("t")
        with pytest.raises(TypeError, match="partition: a number is expected, not the string '0'"):
            writer.log("t", "0")


def test_a_time_is_a_number_a_datetime_or_iso_text(golden):
    log = bl.LogDirs(golden / "logs/kafka-4.1").logs()[0]
    time = log.offsets_for_times(-3).timestamp
    moment = datetime.fromtimestamp(time / 1000, UTC)
    for same in (moment, moment.astimezone(timezone(timedelta(hours=5))), moment.isoformat(), str(time)):
        assert log.offsets_for_times(same) == log.offsets_for_times(time)
        assert log.plan(start_timestamp=same) == log.plan(start_timestamp=time)
        assert log.plan(end_timestamp=same) == log.plan(end_timestamp=time)
    # Rounded up: the record is before the time.
    assert log.offsets_for_times(moment + timedelta(microseconds=1)).timestamp != time


def test_what_is_no_time_is_refused(golden):
    log = bl.LogDirs(golden / "logs/kafka-4.1").logs()[0]
    for time, error in (("yesterday", ValueError), ("1969-12-31", ValueError), (1.5, TypeError), (b"1", TypeError)):
        for call in (
            lambda time=time: log.read(start_timestamp=time),
            lambda time=time: log.read(end_timestamp=time),
            lambda time=time: log.offsets_for_times(time),
        ):
            with pytest.raises(error, match="timestamp: "):
                call()


def test_several_partitions_are_read_as_one_table(golden):
    log_dirs = bl.LogDirs(golden / "logs/kafka-4.1")
    named = log_dirs.topics()
    whole = log_dirs.read(named, columns=["topic", "partition", "offset"]).read_all()
    assert whole.num_rows == sum(log.to_table(columns=["offset"]).num_rows for log in log_dirs)
    assert log_dirs.read(named, columns=["topic", "partition", "offset"], limit=70).read_all() == whole.slice(0, 70)
    assert len(log_dirs) == len(list(log_dirs)) == len(log_dirs.logs())
    for topic in named:
        assert f"<td>{topic}</td>" in log_dirs._repr_html_()


def test_internal_topics_are_read_only_by_name(golden):
    log_dirs = bl.LogDirs(golden / "logs/kafka-4.1")
    internal = {topic for topic in log_dirs.topics() if topic.startswith("__")}
    assert internal
    assert not internal & {log.topic for log in log_dirs.readable()}
    for topic in internal:
        (log, *_) = log_dirs.readable([topic])
        assert [log.path] == [log.path for log in bl.LogDirs(log.path).readable()]


def test_a_topic_that_is_deleted_while_we_look_is_no_matter(tmp_path, monkeypatch):
    """A broker renames its directories: they were listed, and are gone when they are opened."""
    root = broker(tmp_path, 1)
    for name in ("gone-0", "stays-0"):
        partition(root, name)

    class Vanishing(bl.Log):
        def __init__(self, path, **options):
            if str(path).endswith("gone-0") and (root / "gone-0").exists():
                (root / "gone-0").rename(root / f"gone-0.{'0' * 32}-delete")
            super().__init__(path, **options)

    monkeypatch.setattr("brokerless.log_dir.log_dirs.Log", Vanishing)
    assert bl.LogDirs(root).topics() == ["stays"]


def test_a_partition_that_moves_to_another_directory_while_we_look_is_found_there(tmp_path, monkeypatch):
    """A broker renames it in the one, which was listed before, and then in the other."""
    one, two = broker(tmp_path / "one", 1), broker(tmp_path / "two", 1)
    partition(one, "stays-0")
    moving = partition(one, f"t-0.{'0' * 32}-future")
    partition(two, "t-0")

    class Moving(bl.Log):
        def __init__(self, path, **options):
            if str(path) == str(two / "t-0"):
                (two / "t-0").rename(two / f"t-0.{'1' * 32}-delete")
                moving.rename(one / "t-0")
            super().__init__(path, **options)

    monkeypatch.setattr("brokerless.log_dir.log_dirs.Log", Moving)
    assert [log.path for log in bl.LogDirs(one, two).logs(["t"])] == [str(one / "t-0")]


def test_a_read_plans_a_partition_when_its_turn_comes(tmp_path):
    """Damage in a later partition, and the work of looking into it, come after the rows before."""
    path = tmp_path / "d"
    with bl.Producer(path, "t", partitions=2) as producer:
        producer.send([{"value": b"x", "partition": 0}, {"value": b"x", "partition": 1}])
    first = log_file(path / "t-1", 0)
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    assert bl.LogDirs(path).read(start_timestamp=1, limit=1).read_all()["partition"].to_pylist() == [0]
    with pytest.warns(UserWarning, match="lost: offsets 0 to 0"):
        assert bl.LogDirs(path).read(on_corrupt="skip").read_all().num_rows == 1


def test_a_table_has_the_rows_of_the_reader(golden):
    """Both take the same arguments."""
    data = bl.LogDirs(golden / "logs/kafka-4.1")
    options = {"partitions": [0, 2], "columns": ["partition", "offset", "value"], "limit": 300}
    table = data.to_table(["multi-partition"], **options)
    assert table == data.read(["multi-partition"], **options).read_all()
    assert set(table["partition"].to_pylist()) <= {0, 2}
    assert table.num_rows
    parameters = [list(inspect.signature(one).parameters.items()) for one in (bl.LogDirs.to_table, bl.LogDirs.read)]
    assert parameters[0] == parameters[1]
