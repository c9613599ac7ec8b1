"""What `recover` says that a broker will do with a directory, and what it does."""

import base64
import contextlib
import shutil
import struct
from pathlib import Path
from unittest import mock

import kafka
import pytest
from kafka import AFTER_A_KILL, EACH_RELEASE, Broker, complaints

import brokerless as bl
from brokerless.layout import checkpoints, file_names
from brokerless.log_dir.recover import Forecast, forecast, recovered
from support.damage import overwrite
from support.log_files import batch, write_segment
from support.polling import until


@pytest.fixture(scope="module")
def left(client, tmp_path_factory):
    """A directory with a topic, whose broker was killed; and what it had served. Never to be written to."""
    data = tmp_path_factory.mktemp("left") / "data"
    broker = Broker(data, log=data.with_name("before.log"))
    try:
        client.create(broker, "t", internal_segment_bytes=10_000)
        for _ in range(10):
            client.produce(broker, "t", 0, 50)
        consumed = client.consume(broker, "t")
        grow(data / "__cluster_metadata-0" / f"{0:020}.log", times=4)
    finally:
        broker.kill()
    return data, consumed


@pytest.fixture
def killed(left, tmp_path):
    """A copy of such a directory, to be damaged; and what the broker had served."""
    data, consumed = left
    return shutil.copytree(data, tmp_path / "data"), consumed


def grow(path, times):
    """Wait until a broker has written to a file so many times: nothing of a topic is in its last batches then."""
    for _ in range(times):
        size = path.stat().st_size
        until(lambda size=size: path.stat().st_size > size)


def batches(directory):
    """Return the position and base offset of each batch of the newest segment."""
    segment = bl.Log(directory).segments[-1]
    return segment.path, [row for part in segment.scan() for row in part.to_pylist()]


def test_set_aside_files_are_passed_over(client, killed, tmp_path):
    """What recovery cuts is what a broker would: it starts on that, and serves all that is left."""
    data, consumed = killed
    path, found = batches(data / "t-0")
    bad = found[len(found) // 2]
    overwrite(path, bad["position"] + bad["size"] - 3, b"\xff\xff")
    shutil.copytree(data, tmp_path / "theirs")
    said = forecast(str(data))
    assert said.is_good
    assert said.lost_records == sum(row["offset"] > bad["last_offset"] for row in consumed)
    list(recovered(str(data)))
    assert list((data / "t-0").glob(f"{file_names.SET_ASIDE}*"))
    served = []
    for where in (data, tmp_path / "theirs"):
        with Broker(where, log=tmp_path / f"{where.name}.log", **AFTER_A_KILL) as broker:
            served.append(client.consume(broker, "t"))
            if where == data:
                assert [line for line in complaints(broker.log) if "t-0" in line] == []
    assert served[0] == served[1] == [row for row in consumed if row["offset"] < bad["base_offset"]]
    assert list((data / "t-0").glob(f"{file_names.SET_ASIDE}*"))


def test_what_is_about_to_be_deleted_need_not_be_recovered_but_loaded(client, killed, tmp_path):
    """A broker loads it first: damage there stops it where that of a log's own files does, and never in records."""
    data, consumed = killed
    deleted = data / f"t-0.{'0' * 32}-delete"
    shutil.copytree(data / "t-0", deleted)
    path, found = batches(deleted)
    overwrite(path, found[len(found) // 2]["position"], b"\xff" * 1000)
    damaged, epochs = Path(path).read_bytes(), (deleted / "leader-epoch-checkpoint").read_bytes()
    (deleted / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    with pytest.raises(
        bl.errors.CorruptRecordError, match=r"a broker does not start.* was about to delete the directory .*: remove it"
    ):
        list(recovered(str(data)))
    with pytest.raises(AssertionError, match="NumberFormatException"):
        Broker(data, log=tmp_path / "stopped.log")
    (deleted / "leader-epoch-checkpoint").write_bytes(epochs)
    list(recovered(str(data)))
    assert Path(path).read_bytes() == damaged
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        assert client.consume(broker, "t") == consumed
        assert "Skipping recovery of" in broker.log


def test_a_broker_without_meta_properties_does_not_start(killed, tmp_path):
    data, _ = killed
    properties = (data / "meta.properties").read_bytes()
    (data / "meta.properties").unlink()
    assert forecast(str(data)).faults
    list(recovered(str(data)))
    # Formatting is what an administrator does with a new directory, and this is none.
    with (
        mock.patch.object(kafka, "format_again"),
        pytest.raises(AssertionError, match=r"[Nn]o `?(readable )?meta\.properties"),
    ):
        Broker(data, log=tmp_path / "after.log")
    (data / "meta.properties").write_bytes(properties)
    assert forecast(str(data)).is_good


def test_a_broker_without_its_clusters_metadata_serves_nothing(client, killed, tmp_path):
    data, _ = killed
    shutil.rmtree(data / "__cluster_metadata-0")
    assert forecast(str(data)).dropping
    list(recovered(str(data)))
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        assert "t" not in client.topics(broker)
    assert list(data.glob("t-0.*-stray"))


@pytest.mark.filterwarnings("ignore:the cluster's metadata are read up to the damage")
def test_a_broker_starts_on_damaged_metadata_without_what_is_behind_the_damage(client, killed, tmp_path):
    data, consumed = killed
    path, found = batches(data / "__cluster_metadata-0")
    bad = found[-3]
    overwrite(path, bad["position"] + bad["size"] - 3, b"\xff\xff")
    said = forecast(str(data))
    assert said.is_good
    assert f"from byte {bad['position']} on" in str(said.notes[0])
    list(recovered(str(data)))
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        assert client.consume(broker, "t") == consumed


@pytest.mark.filterwarnings("ignore:the cluster's metadata are read up to the damage")
def test_a_broker_serves_nothing_where_its_metadata_are_damaged_near_their_start(client, killed, tmp_path):
    data, consumed = killed
    path, found = batches(data / "__cluster_metadata-0")
    overwrite(path, found[1]["position"] + found[1]["size"] - 3, b"\xff\xff")
    said = forecast(str(data))
    assert said.summary().endswith(
        f"; a broker will start and serve nothing: up to {len(consumed)} records are not served"
    )
    list(recovered(str(data)))
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        assert not client.topics(broker)
        until(lambda: list(data.glob("t-0.*-stray")))


def test_partitions_that_the_metadata_do_not_have_are_not_served(client, tmp_path):
    """By their topic's id, whatever their names."""
    data = tmp_path / "data"
    broker = Broker(data, log=tmp_path / "before.log")
    try:
        for topic in ("kept", "other-id", "no-id", "unknown", "moved"):
            client.create(broker, topic)
            client.produce(broker, topic, 0, 10)
    finally:
        broker.kill()
    for name, last in (("other-id-0", "w"), ("unknown-0", "x")):
        id_of_none = f"AAECAwQFBgcICQoLDA0OD{last}"
        (data / name / "partition.metadata").write_bytes(checkpoints.format_partition_metadata(id_of_none))
    (data / "no-id-0" / "partition.metadata").unlink()
    shutil.move(data / "unknown-0", data / "foreign-0")
    shutil.move(data / "moved-0", data / "moved-1")
    shutil.copytree(data / "kept-0", data / "copy-0")
    said = forecast(str(data))
    assert [Path(name).name for name in said.unserved] == ["copy-0", "foreign-0", "moved-1", "no-id-0", "other-id-0"]
    strays = [Path(name).name for name, why in said.unserved.items() if "-stray" in str(why)]
    assert strays == ["foreign-0", "moved-1", "no-id-0", "other-id-0"]
    assert said.summary().endswith("; a broker will start and serve 1 of 6 partitions: up to 50 records are not served")
    list(recovered(str(data)))
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        served = {topic: len(client.consume(broker, topic)) for topic in client.topics(broker)}
        assert served == {"kept": 10, "other-id": 0, "no-id": 0, "unknown": 0, "moved": 0}
    assert sorted(path.name.partition(".")[0] for path in data.glob("*-stray")) == strays
    assert (data / "copy-0").exists()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("quorum-state", '{"broken', "JsonEOFException"),
        ("quorum-state", "", "File ended prematurely"),
        ("quorum-state", "[]", "is not an object node"),
        ("quorum-state", '{"data_version":0}', "unable to locate field"),
        ("partition.metadata", "x", "Malformed line"),
        ("partition.metadata", "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "InconsistentTopicId|topic ID"),
    ],
)
def test_a_broker_does_not_start_on_a_damaged_small_file_of_its_metadata_log(
    client, killed, tmp_path, name, content, complaint
):
    """It does without the file, as is said."""
    data, consumed = killed
    file = data / "__cluster_metadata-0" / name
    file.write_text(content)
    said = forecast(str(data))
    assert said.summary().endswith("; a broker will not start")
    assert str(said.faults[0]).endswith(
        "a broker recreates it"
        if name == "partition.metadata"
        else "starts without it if it is the only one of its cluster"
    )
    with pytest.raises(AssertionError, match=complaint):
        Broker(data, log=tmp_path / "stopped.log")
    file.unlink()
    assert forecast(str(data)).is_good
    with Broker(data, log=tmp_path / "after.log", **AFTER_A_KILL) as broker:
        assert client.consume(broker, "t") == consumed


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("directory.id", None, "Duplicate directory ID"),
        ("cluster.id", "AAECAwQFBgcICQoLDA0ODw", r"Invalid cluster\.id"),
        ("node.id", "7", "doesn't match previous node id|Stored node id"),
    ],
)
def test_a_broker_does_not_start_on_directories_whose_ids_conflict(killed, tmp_path, name, value, complaint):
    data, _ = killed
    disk = tmp_path / "disk2"
    disk.mkdir()
    ids = checkpoints.parse_properties((data / "meta.properties").read_bytes())
    changed = ids | {"directory.id": checkpoints.random_id()} | {name: value or ids[name]}
    (disk / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in changed.items()))
    said = Forecast.of_all([forecast(str(data)), forecast(str(disk))])
    assert said.summary().endswith("; a broker will not start")
    assert name in str(said.faults[0])
    with pytest.raises(AssertionError, match=complaint):
        Broker(data, disk, log=tmp_path / "stopped.log")


@pytest.fixture(scope="module", params=EACH_RELEASE)
def stopped(client, tmp_path_factory, request):
    """A directory with a topic of one segment, whose broker was stopped; and what it had served."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    with Broker(data, log=data.with_name("before.log"), version=request.param) as broker:
        client.create(broker, "t", index_interval_bytes=0)
        for _ in range(5):
            client.produce(broker, "t", 0, 10)
        consumed = client.consume(broker, "t")
    return data, request.param, consumed


CURES = {
    "recover": lambda data, _: list(recovered(str(data))),
    "repair": lambda data, _: bl.repair(data, in_place=True),
    "rescue": lambda data, to: bl.rescue(data, output=to),
}


def put(data, batches, end):
    """Put batches in the place of the topic's log, which ends at an offset."""
    for path in (data / "t-0").iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    write_segment(data / "t-0", 0, batches, indexed=False)
    (data / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        known = checkpoints.parse_offset_checkpoint((data / name).read_bytes())
        (data / name).write_bytes(checkpoints.format_offset_checkpoint({**known, ("t", 0): end}))


@pytest.mark.parametrize("cure", CURES)
def test_an_index_that_leads_beyond_its_log_hides_all_of_it_from_a_broker(client, stopped, tmp_path, cure):
    source, release, consumed = stopped
    data = shutil.copytree(source, tmp_path / "data")
    next((data / "t-0").glob("*.index")).write_bytes(struct.pack(">ii", 300, 500_000))
    (finding,) = [one for one in bl.check(data) if one.topic == "t"]
    assert (finding.code, finding.severity) == ("offset-index", "error")
    shutil.copytree(data, tmp_path / "theirs")
    said = " ".join(map(str, forecast(str(data)).notes))
    assert f"does not see offsets 0 to {len(consumed) - 1}" in said
    with Broker(tmp_path / "theirs", log=tmp_path / "theirs.log", version=release) as broker:
        assert client.offset(broker, "t", 0, -1) == 0
    CURES[cure](data, tmp_path / "new")
    to = tmp_path / "new" if cure == "rescue" else data
    assert [one for one in bl.check(to, level="deep") if one.topic == "t"] == []
    with Broker(to, log=tmp_path / "after.log", version=release) as broker:
        assert client.consume(broker, "t") == consumed
        assert client.offset(broker, "t", 0, -1) == len(consumed)


@pytest.mark.parametrize("cure", CURES)
@pytest.mark.parametrize("count", [8, 4096])
def test_zeros_behind_the_last_batch_stop_a_broker_if_they_are_many(client, stopped, tmp_path, count, cure):
    source, release, consumed = stopped
    data = shutil.copytree(source, tmp_path / "data")
    with next((data / "t-0").glob("*.log")).open("ab") as log:
        log.write(bytes(count))
    (finding,) = [one for one in bl.check(data) if one.topic == "t"]
    assert (finding.code, finding.severity) == ("tail-zeros", "error")
    if cure == "recover":
        shutil.copytree(data, tmp_path / "theirs")
        starts = pytest.raises(AssertionError, match="Found record size 0") if count > 8 else contextlib.nullcontext()
        with starts, Broker(tmp_path / "theirs", log=tmp_path / "theirs.log", version=release) as broker:
            assert client.offset(broker, "t", 0, -1) == len(consumed)
    CURES[cure](data, tmp_path / "new")
    to = tmp_path / "new" if cure == "rescue" else data
    assert [one for one in bl.check(to, level="deep") if one.topic == "t"] == []
    with Broker(to, log=tmp_path / "after.log", version=release) as broker:
        assert client.consume(broker, "t") == consumed


@pytest.mark.parametrize("cure", CURES)
def test_a_segment_that_spans_more_offsets_than_an_index_holds_is_split_as_a_broker_does(
    client, stopped, tmp_path, cure
):
    """KAFKA-6264: the broker splits it when it recovers the log."""
    source, release, _ = stopped
    data = shutil.copytree(source, tmp_path / "data")
    span = 1 << 30
    wide = [batch(at * span, [b"first", b"last"], deltas=[0, span - 1], step=0) for at in range(5)]
    put(data, wide, end=5 * span)
    assert "offset-overflow" in {one.code for one in bl.check(data)}
    shutil.copytree(data, tmp_path / "theirs")
    (tmp_path / "theirs" / checkpoints.CLEAN_SHUTDOWN).unlink()
    with Broker(tmp_path / "theirs", log=tmp_path / "theirs.log", version=release, **AFTER_A_KILL) as broker:
        consumed = client.consume(broker, "t")
        assert "Split overflowed" in broker.log or "overflow" in broker.log
    assert [row["offset"] for row in consumed] == [at * span + one for at in range(5) for one in (0, span - 1)]
    CURES[cure](data, tmp_path / "new")
    to = tmp_path / "new" if cure == "rescue" else data
    assert [one for one in bl.check(to, level="deep") if one.topic == "t" and one.severity != "note"] == []
    with Broker(to, log=tmp_path / "after.log", version=release) as broker:
        assert client.consume(broker, "t") == consumed
    theirs, ours = (sorted(path.name for path in (one / "t-0").glob("*.log")) for one in (tmp_path / "theirs", to))
    assert theirs == ours


def test_a_damaged_segment_that_has_to_be_split_stops_a_broker(client, stopped, tmp_path):
    """The broker splits it before it looks for damage. A repair does both."""
    source, release, _ = stopped
    data = shutil.copytree(source, tmp_path / "data")
    span = 1 << 30
    wide = [batch(at * span, [b"first", b"last"], deltas=[0, span - 1], step=0) for at in range(4)]
    put(data, wide, end=4 * span)
    overwrite(data / "t-0" / f"{0:020}.log", sum(map(len, wide[:3])), bytes(60))
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    with pytest.raises(bl.errors.CorruptRecordError, match=r"does not start.* .*log must be split, but is damaged: "):
        list(recovered(str(data)))
    shutil.copytree(data, tmp_path / "theirs")
    with pytest.raises(AssertionError, match="Found record size 0"):
        Broker(tmp_path / "theirs", log=tmp_path / "theirs.log", version=release)
    bl.repair(data, in_place=True)
    with Broker(data, log=tmp_path / "after.log", version=release) as broker:
        assert [row["offset"] for row in client.consume(broker, "t")] == [
            at * span + one for at in range(3) for one in (0, span - 1)
        ]


def test_a_batch_that_overlaps_the_one_before_gives_what_a_consumer_gets(client, stopped, tmp_path):
    """KAFKA-3919: the broker serves it. A repair makes it anew."""
    source, release, _ = stopped
    data = shutil.copytree(source, tmp_path / "data")
    starts = [0, 5, 15]
    end = starts[-1] + 10
    put(data, [batch(at, [b"%d-%d" % (at, of) for of in range(at, at + 10)]) for at in starts], end)
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    assert "offset-overlap" in {one.code for one in bl.check(data)}
    shutil.copytree(data, tmp_path / "theirs")
    with Broker(tmp_path / "theirs", log=tmp_path / "theirs.log", version=release, **AFTER_A_KILL) as broker:
        consumed = client.consume(broker, "t")
    assert [row["offset"] for row in consumed] == list(range(end))
    columns = ["offset", "value"]
    ours = bl.Log(data / "t-0").read(columns=columns).read_all().to_pylist()
    theirs = bl.Log(tmp_path / "theirs/t-0").read(columns=columns).read_all().to_pylist()
    assert ours == theirs
    assert [(row["offset"], base64.b64encode(row["value"]).decode()) for row in ours] == [
        (row["offset"], row["value"]) for row in consumed
    ]
    bl.repair(data, in_place=True)
    assert [one for one in bl.check(data, level="deep") if one.topic == "t" and one.severity != "note"] == []
    with Broker(data, log=tmp_path / "after.log", version=release) as broker:
        assert client.consume(broker, "t") == consumed
