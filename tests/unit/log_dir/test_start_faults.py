"""Which partitions a broker that starts will not serve, what keeps it from starting, and which verbs name that."""

import re
import shutil

import pytest

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.layout.log_dir_files import LogDirFiles
from brokerless.log_dir.recover import forecast
from brokerless.log_dir.start_faults import absent_partitions
from brokerless.metadata.bootstrap import Bootstrap, Topic
from support.damage import overwrite
from support.log_files import batch

OTHER_ID = "AAECAwQFBgcICQoLDA0ODw"


@pytest.fixture
def cluster(copied):
    """A broker's directory that was shut down cleanly, with its cluster's metadata."""
    return copied("kafka-4.1")


@pytest.fixture
def disk(cluster):
    """Another disk of the broker, empty."""
    path = cluster.parent / "disk2"
    path.mkdir()
    ids = re.sub(
        "directory.id=.*", f"directory.id={checkpoints.random_id()}", (cluster / "meta.properties").read_text()
    )
    (path / "meta.properties").write_text(ids)
    return path


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"value": "a"}\n')
    return file


def give_another_id(cluster):
    path = cluster / "headers-0" / checkpoints.PARTITION_METADATA
    path.write_bytes(checkpoints.format_partition_metadata(OTHER_ID))


def take_the_id(cluster):
    (cluster / "headers-0" / checkpoints.PARTITION_METADATA).unlink()


def name_it_otherwise(cluster):
    give_another_id(cluster)
    shutil.move(cluster / "headers-0", cluster / "foreign-0")


def number_it_otherwise(cluster):
    shutil.move(cluster / "headers-0", cluster / "headers-7")


def copy_it(cluster):
    shutil.move(cluster / "headers-0", cluster / "foreign-0")


def move_it_to_another_node(cluster):
    path = cluster / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=7"))


@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        (give_another_id, "headers-0", f"-stray.*its topic id is {OTHER_ID}, but the cluster's metadata have .{{22}} "),
        (take_the_id, "headers-0", "-stray.*no partition.metadata; write one with the topic id .{22}"),
        (name_it_otherwise, "foreign-0", "-stray.*the cluster's metadata have no topic with this id"),
        (number_it_otherwise, "headers-7", "-stray.*the cluster's metadata do not have this partition"),
        (copy_it, "foreign-0", "a broker does not serve foreign-0: its topic id .{22} belongs to topic headers"),
        (move_it_to_another_node, "headers-0", r"-stray.*assign it to nodes \(1,\), but this is node 7"),
    ],
)
def test_a_partition_that_a_broker_will_not_serve_is_named(cluster, rows, run, change, name, why):
    """By what the metadata log says of its topic's id, in each verb."""
    change(cluster)
    listed = run("ls", cluster)
    assert (listed.code, len(re.findall(f"^not served: .*/{name} .*{why}", listed.err, re.MULTILINE))) == (0, 1)
    named = [cluster, "--topic", name[:-2]]
    for verb in (
        ["produce", *named, "--input", rows, "--sole-replica"],
        ["convert", *named, "--compression", "zstd", "--in-place"],
        ["erase", *named, "--key", "none", "--in-place"],
        ["retain", *named, "--before-offset", "1", "--in-place"],
    ):
        said = run(*verb)
        assert (said.code, len(re.findall(f"^warning: .*{why}", said.err, re.MULTILINE))) == (0, 1), said
    result = run("recover", cluster, "--topic", name[:-2], "--dry-run")
    assert result.code == 1
    first, second = result.out.splitlines()[:2]
    if change is move_it_to_another_node:
        assert first.endswith("; a broker will not start")
        assert "node.id is 7, but in the metadata the directory belongs to node 1" in second
    else:
        end = "records are not served(, 1 log is lost)?$"
        assert re.search(f"; a broker will start and serve nothing: up to [1-9][0-9]* {end}", first)
        assert re.search(why, second)


def test_a_directory_of_strays_alone_has_lost_its_metadata(cluster, run):
    """A broker started without them, and gave up all partitions."""
    shutil.rmtree(cluster / "__cluster_metadata-0")
    for path in list(cluster.glob("*-[0-9]")):
        path.rename(f"{path}.{'0' * 32}-stray")
    found = [one.code for one in bl.check(cluster)]
    assert found.count("metadata-missing") == 1
    result = run("recover", cluster, "--dry-run")
    assert result.code == 1
    assert result.out.splitlines()[0].endswith("; a broker will start and serve nothing")
    said = run("read", cluster)
    assert (said.code, said.out) == (0, "")
    assert re.search(
        "^warning: directories that a broker renamed -stray .* are not read: .*, and [0-9]+ more$",
        said.err,
        re.MULTILINE,
    )
    said = run("read", cluster, "--topic", "headers")
    assert said.code != 0
    assert f"{cluster}/headers-0.{'0' * 32}-stray" in said.err


def test_what_will_be_served_is_counted(cluster):
    records = bl.LogDirs(cluster).log("headers", 0).log_end_offset
    assert forecast(str(cluster)).is_good
    give_another_id(cluster)
    end = f"; a broker will start and serve 43 of 44 partitions: up to {records} records are not served"
    assert forecast(str(cluster)).summary().endswith(end)


def test_many_partitions_are_one_warning(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", partitions=5)
    bootstrap = Bootstrap(1)
    bootstrap.topics["other"] = Topic(OTHER_ID)
    (tmp_path / "data" / checkpoints.BOOTSTRAP).write_bytes(bootstrap.format(timestamp=0))
    with bl.open_log_dir(tmp_path / "data", sole_replica=True) as log_dir:
        with pytest.warns(UserWarning, match="t-0 -stray.*t-2 -stray.*; 2 more$"):
            log_dir.log("t", 0)
        for partition in range(1, 5):
            log_dir.log("t", partition)


@pytest.mark.filterwarnings("ignore:the cluster's metadata are read up to the damage")
def test_metadata_damaged_near_their_start_name_no_partition(cluster, run):
    log = max((cluster / "__cluster_metadata-0").glob("*.log"))
    positions = next(iter(bl.Log(cluster / "__cluster_metadata-0").scan()))["position"].to_pylist()
    overwrite(log, positions[1] + 70, b"\xff\xff")
    found = forecast(str(cluster))
    assert not found.is_good
    assert len(found.dropping) == found.partitions == 44
    assert "; a broker will start and serve nothing: up to " in found.summary()
    assert run("recover", cluster, "--dry-run").code == 1


def test_the_partitions_of_a_second_disk_are_looked_up_in_the_metadata_of_the_first(cluster, disk, run):
    give_another_id(cluster)
    shutil.move(cluster / "headers-0", disk)
    for arguments in (["recover", cluster, disk], ["recover", disk, "--metadata", cluster], ["ls", cluster, disk]):
        said = run(*arguments)
        assert (said.code, OTHER_ID in said.out + said.err) == (0 if arguments[0] == "ls" else 1, True)
        assert "no __cluster_metadata-0" not in said.out + said.err


def test_a_partition_that_the_metadata_of_a_new_cluster_do_not_name_is_not_served(tmp_path, run):
    data = tmp_path / "data"
    with bl.create_log_dir(data) as log_dir:
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"a"]))
    shutil.copytree(data / "t-0", data / "t-1")
    assert "a broker renames t-1 -stray" in run("ls", data).err
    found = forecast(str(data))
    assert found.dropping
    assert all("t-1 -stray" in str(why) for why in found.dropping)
    # What opening mends is no reason.
    shutil.rmtree(data / "t-1")
    (data / "t-0" / checkpoints.PARTITION_METADATA).unlink()
    assert forecast(str(data)).is_good


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("quorum-state", '{"broken', "quorum state is malformed"),
        ("quorum-state", "", "quorum state is malformed"),
        ("quorum-state", "[]", "no number 'data_version'"),
        ("partition.metadata", "x", "partition metadata is malformed"),
        ("partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}\n", f"stored {OTHER_ID}, expected A{{21}}Q"),
    ],
)
def test_small_files_of_the_metadata_log_stop_a_broker_where_they_are_damaged(cluster, run, name, content, why):
    (cluster / "__cluster_metadata-0" / name).write_text(content)
    result = run("recover", cluster, "--dry-run")
    assert (result.code, result.out.splitlines()[0].endswith("; a broker will not start")) == (1, True)
    assert re.search(why, result.out)
    assert re.search(f"^note: a broker does not start: .*{why}", run("ls", cluster).err, re.MULTILINE)
    with pytest.warns(UserWarning, match=f"a broker does not start: .*{name}"):
        bl.open_log_dir(cluster, sole_replica=True).close()


def test_directories_that_one_broker_cannot_have_together(cluster, disk, run):
    assert run("recover", cluster, disk, "--dry-run").code == 0
    ids, path = checkpoints.parse_meta_properties((cluster / "meta.properties").read_bytes()), disk / "meta.properties"
    for name, value, why in (
        ("directory.id", ids.directory_id, f"same directory.id: {ids.directory_id} in {cluster}, {disk}"),
        ("cluster.id", OTHER_ID, f"different cluster.id: {ids.cluster_id} in {cluster}, {OTHER_ID} in {disk}"),
        ("node.id", "7", f"different node.id: 1 in {cluster}, 7 in {disk}"),
    ):
        before = path.read_text()
        path.write_text(re.sub(f"{name}=.*", f"{name}={value}", before))
        result = run("recover", cluster, disk, "--dry-run")
        assert (result.code, result.out.splitlines()[0].endswith("; a broker will not start")) == (1, True)
        assert why in result.out.splitlines()[1]
        path.write_text(before)


def test_writers_and_ls_say_that_there_are_no_ids(cluster, disk, rows, run):
    (cluster / "meta.properties").unlink()
    for arguments in (
        ["ls", cluster],
        ["produce", cluster, "--topic", "headers", "--input", rows],
        ["erase", cluster, "--topic", "headers", "--key", "none", "--in-place"],
    ):
        said = run(*arguments)
        missing = f"a broker does not start: {cluster}/meta.properties: the file is missing"
        assert (said.code, said.err.count(missing)) == (0, 1)
    # A broker needs them in each of its disks (KafkaRaftServer.initializeLogDirs).
    assert f"{cluster}/meta.properties" in run("ls", cluster, disk).err


def write_ids(path):
    (path / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={OTHER_ID}\n")


def tables(row):
    topics = [{"topic": "t", "topic_id": OTHER_ID}]
    return {"partitions": [row], "brokers": [{"broker_id": 1, "log_dirs": [OTHER_ID]}], "topics": topics}


@pytest.mark.parametrize(
    ("replicas", "isr", "elr", "is_lost", "why"),
    [
        ([1], [1], [], True, "becomes leader with an empty log$"),
        ([1, 2], [1], [], True, "becomes leader with an empty log, and the other replicas delete their records$"),
        # All brokers were stopped: the last one that was in sync is eligible (KIP-966).
        ([1, 2], [], [1], True, "becomes leader with an empty log, and the other replicas delete their records$"),
        ([1, 2], [1, 2], [], False, "if this broker starts first, .*: start another replica first$"),
        ([1, 2], [], [1, 2], False, "if this broker starts first, .*: start another replica first$"),
        ([1, 2], [2], [], False, "in the directory with the id .{22}$"),
    ],
)
@pytest.mark.parametrize("state", ["clean", "named", "wiped"])
def test_who_leads_with_an_empty_log(tmp_path, replicas, isr, elr, is_lost, why, state):
    """A broker that is shut down cleanly, or killed with the partition in a checkpoint, or with a wiped disk."""
    write_ids(tmp_path)
    if state == "clean":
        (tmp_path / checkpoints.CLEAN_SHUTDOWN).write_bytes(checkpoints.format_clean_shutdown(None))
    if state == "named":
        points = checkpoints.format_offset_checkpoint({("t", 0): 5})
        (tmp_path / checkpoints.RECOVERY_POINTS).write_bytes(points)
    row = {"topic": "t", "partition": 0, "replicas": replicas, "isr": isr, "elr": elr}
    row["directories"] = [OTHER_ID for _ in replicas]
    rows = tables(row)
    (found,) = absent_partitions(rows.__getitem__, [LogDirFiles(str(tmp_path))])
    assert (found.is_lost, bool(re.search(why, found.why))) == (is_lost, True), found.why
    # Another directory has it, and has lost its ids.
    (tmp_path / "unknown/t-0").mkdir(parents=True)
    both = [LogDirFiles(str(tmp_path)), LogDirFiles(str(tmp_path / "unknown"))]
    assert list(absent_partitions(rows.__getitem__, both)) == []
    # A broker completes a move to the directory that the metadata name.
    (tmp_path / f"t-0.{'0' * 32}-future").mkdir()
    assert list(absent_partitions(rows.__getitem__, [LogDirFiles(str(tmp_path))])) == []


def test_a_partition_that_a_killed_broker_may_not_have_made_is_not_lost(tmp_path):
    write_ids(tmp_path)
    (tmp_path / "other-0").mkdir()
    row = {"topic": "t", "partition": 0, "replicas": [1], "isr": [1], "directories": [OTHER_ID]}
    rows = tables(row)
    (found,) = absent_partitions(rows.__getitem__, [LogDirFiles(str(tmp_path))])
    assert not found.is_lost


@pytest.mark.parametrize("topic_id", [OTHER_ID, OTHER_ID[:-1] + "g", None])
def test_a_stray_directory_with_the_topic_id_of_an_absent_partition_is_named(tmp_path, topic_id):
    write_ids(tmp_path)
    stray = tmp_path / f"t-0.{'0' * 32}-stray"
    stray.mkdir()
    if topic_id is not None:
        (stray / "partition.metadata").write_bytes(checkpoints.format_partition_metadata(topic_id))
    row = {"topic": "t", "partition": 0, "replicas": [1], "isr": [1], "directories": [OTHER_ID]}
    (found,) = absent_partitions(tables(row).__getitem__, [LogDirFiles(str(tmp_path))])
    assert found.strays == ((str(stray),) if topic_id == OTHER_ID else ())
    assert bool(found.cure) == (topic_id == OTHER_ID)


def test_replicas_on_two_nodes_are_not_doubled(cluster, tmp_path, run):
    """The cure for a doubled partition would remove a good replica."""
    other = shutil.copytree(cluster, tmp_path / "other")
    ids = (other / "meta.properties").read_text()
    ids = re.sub("directory.id=.*", f"directory.id={checkpoints.random_id()}", ids)
    (other / "meta.properties").write_text(ids.replace("node.id=1", "node.id=2"))
    result = run("recover", cluster, other, "--dry-run")
    assert "different node.id: 1 in" in result.out
    assert "move out the directory" not in result.out
