"""Of a tiered log the directory has only the end: no verb forgets what is in remote storage, or says it is all done."""

import shutil
import warnings

import pytest

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.layout.topic_config import TopicConfig
from brokerless.log_dir.recover import recovered
from brokerless.metadata.topic_settings import Cluster
from brokerless.rewriting.run import rewrite
from support.log_files import batch
from support.metadata_images import image_of

# Of the directory without metadata that is said each time.
pytestmark = pytest.mark.filterwarnings("ignore:settings of topics are not known")

TIERED = "kafka-4.1-tiered"
LOCAL_START = {"tiered-plain": 290, "tiered-txn": 182, "tiered-zstd": 672}


@pytest.fixture
def tiered(golden, tmp_path):
    return shutil.copytree(golden / "logs" / TIERED, tmp_path / "data")


@pytest.fixture(params=["metadata", "no metadata"])
def data(request, tiered):
    """The directory, with its cluster's metadata log or without: that may be on another disk."""
    if request.param == "no metadata":
        shutil.rmtree(tiered / "__cluster_metadata-0")
    return tiered


def starts(data):
    """What tells a broker of the remote part: the checkpoint, the first leader epoch, the oldest snapshot."""
    checkpoint = bl.LogDirFiles(str(data)).log_start_offsets
    found = {}
    for topic in LOCAL_START:
        epochs = checkpoints.parse_leader_epochs((data / f"{topic}-0" / checkpoints.LEADER_EPOCHS).read_bytes())
        snapshots = sorted(path.name for path in (data / f"{topic}-0").glob("*.snapshot"))
        found[topic] = checkpoint.get((topic, 0)), epochs, snapshots[0]
    return found


def open_all(data, **options):
    with bl.open_log_dir(data, sole_replica=True, **options) as log_dir:
        for topic in LOCAL_START:
            yield log_dir.log(topic, 0)


def test_a_read_from_the_end_says_that_it_begins_later_than_asked(tiered):
    log = bl.Log(tiered / "tiered-plain-0")
    with pytest.warns(UserWarning, match="remote storage"):
        assert log.read(start_offset=-(10**6), columns=["offset"]).read_all()["offset"][0].as_py() == 290
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.read(start_offset=-2, columns=["offset"]).read_all().num_rows == 2


def test_the_remote_part_is_known_after_opening_for_writing(data):
    before = starts(data)
    logs = [(log.log_start_offset, log.local_log_start_offset) for log in open_all(data)]
    assert logs == [(0, start) for start in LOCAL_START.values()]
    assert starts(data) == before
    assert [found[0] for found in before.values()] == [0, 0, 0]


def test_the_remote_part_is_known_after_a_crash(data):
    before = starts(data)
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    list(recovered(str(data)))
    assert starts(data) == before


def test_a_start_in_the_remote_part_is_known_after_a_crash(data):
    """As after DeleteRecords: the checkpoint and the epochs have it."""
    offsets = bl.LogDirFiles(str(data)).log_start_offsets | {("tiered-plain", 0): 100}
    (data / checkpoints.LOG_START_OFFSETS).write_bytes(checkpoints.format_offset_checkpoint(offsets))
    (data / "tiered-plain-0" / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.format_leader_epochs([(0, 100)]))
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    list(recovered(str(data)))
    assert starts(data)["tiered-plain"][:2] == (100, [(0, 100)])


def test_what_is_appended_does_not_move_the_start(data):
    before = starts(data)
    with bl.Producer(data, "tiered-plain", sole_replica=True) as producer:
        producer.send([{"value": b"new"}])
    assert starts(data) == before
    log = bl.Log(data / "tiered-plain-0")
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 290, 301)


@pytest.mark.parametrize(
    "verb",
    [
        bl.Conversion(compression="gzip"),
        bl.Conversion(compression="none"),
        bl.Erasure(keys=(b"nobody",), local_only=True),
        bl.Retention(before_offset=0),
        bl.Truncation(offset=1 << 40),
    ],
    ids=["gzip", "none", "erase", "retain", "until"],
)
def test_the_remote_part_is_known_after_a_rewrite(data, verb):
    before = starts(data)
    rewrite(verb, data, topics=list(LOCAL_START))
    assert starts(data) == before


@pytest.mark.parametrize(
    "verb", [bl.Conversion(compression="none"), bl.Conversion(sole_replica=True, batch_size=1 << 20)]
)
def test_segments_of_a_tiered_log_are_not_divided(data, verb):
    """A broker uploads no segment behind which no producer snapshot is."""
    (result,) = rewrite(verb, data, topics=["tiered-zstd"])
    assert result.report.new_segments == result.report.replaced_segments


def test_a_copy_knows_the_remote_part(data, tmp_path):
    rewrite(bl.Conversion(compression="gzip"), data, topics=list(LOCAL_START), output=tmp_path / "copy")
    assert starts(tmp_path / "copy") == starts(data)


def test_the_start_moves_in_the_remote_part(data):
    """DeleteRecords: what is here stays, and a broker deletes the remote segments below."""
    (result,) = rewrite(bl.Retention(before_offset=100), data, topics=["tiered-plain"])
    assert (result.report.deleted_segments, result.report.log_start_offset) == (0, 100)
    checkpointed, epochs, _ = starts(data)["tiered-plain"]
    assert (checkpointed, epochs) == (100, [(0, 100)])


def test_the_start_moves_to_where_the_files_begin_and_is_still_told(data):
    """Without an entry a broker with remote storage takes 0 for the start: what was deleted is back."""
    rewrite(bl.Retention(before_offset=290), data, topics=["tiered-plain"])
    assert starts(data)["tiered-plain"][0] == 290
    next(open_all(data))
    assert starts(data)["tiered-plain"][0] == 290


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (bl.Erasure(keys=(b"k",)), "its offsets 0 to 289 are in remote storage.*local_only"),
        (bl.Retention(retention_bytes=1), "is tiered"),
        (bl.Retention(retention_ms=1), "is tiered"),
        (bl.Truncation(offset=100), "is tiered"),
        (bl.Compaction(roll=True), "Brokers do not compact tiered topics"),
        (bl.Conversion(magic=1, drop={"producers", "headers"}), "leader epochs"),
    ],
)
def test_what_would_leave_remote_records_behind_is_refused(data, verb, words):
    before = starts(data)
    if verb.decided_by and not (data / "__cluster_metadata-0").exists():
        words = "not known, because no metadata log"
    for dry_run in (True, False):
        with pytest.raises(ValueError, match=words):
            rewrite(verb, data, topics=["tiered-plain"], dry_run=dry_run)
    assert starts(data) == before


def test_erasing_here_alone_says_what_stays(data):
    (result,) = rewrite(bl.Erasure(key_prefixes=(b"k",), local_only=True), data, topics=["tiered-plain"])
    active = bl.Log(data / "tiered-plain-0").segments[-1].base_offset
    assert result.report.remote_offsets == (0, active)
    said = f"remote storage was not searched: it may have offsets 0 to {active - 1}, which are not erased"
    assert said in result.report.lines()


def test_erasing_says_that_what_is_here_may_be_in_remote_storage_too(tmp_path):
    """Uploaded segments stay here until local retention deletes them; then a broker serves the remote copies."""
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", remote_storage_enable=True)
        log = log_dir.log("t", 0)
        for number in range(3):
            log.append(batch(0, [b"%d" % number]))
            log.roll()
    erase = bl.Erasure(key_prefixes=(b"k",), local_only=True)
    for dry_run in (True, False):
        (result,) = rewrite(erase, tmp_path / "data", topics=["t"], dry_run=dry_run)
        assert result.report.remote_offsets == (0, 3)


@pytest.fixture(params=["no entry", "alone"])
def untold(request, tiered):
    """A tiered partition where neither metadata nor a checkpoint say so: only its leader epochs do."""
    shutil.rmtree(tiered / "__cluster_metadata-0")
    (tiered / checkpoints.LOG_START_OFFSETS).unlink()
    if request.param == "no entry":
        return tiered / "tiered-plain-0"
    return shutil.move(tiered / "tiered-plain-0", tiered.parent / "tiered-plain-0")


def test_the_epochs_alone_tell_of_the_remote_part(untold):
    def told():
        return (untold / checkpoints.LEADER_EPOCHS).read_bytes(), sorted(
            path.name for path in untold.glob("*.snapshot")
        )

    before = told()
    log = bl.Log(untold)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 290)
    with pytest.raises(ValueError, match="its offsets 0 to 289 are in remote storage"):
        rewrite(bl.Erasure(keys=(b"k",)), untold)
    rewrite(bl.Conversion(compression="gzip"), untold)
    rewrite(bl.Erasure(key_prefixes=(b"k",), local_only=True), untold)
    assert told() == before
    assert bl.Log(untold).log_start_offset == 0


def test_the_metadata_say_that_all_of_a_log_may_be_remote_too(tiered):
    """Uploaded segments stay here for a while: the first one may be here, and remote."""
    with bl.open_log_dir(tiered, sole_replica=True) as log_dir:
        log = log_dir.log("tiered-plain", 0)
        assert (log.is_tiered, log.config.remote_storage_enable) == (True, True)
        assert not log_dir.log("__transaction_state", 1).is_tiered


def test_truncating_below_what_is_here_is_refused(data):
    with bl.open_log_dir(data, sole_replica=True) as log_dir:
        log = log_dir.log("tiered-plain", 0)
        with pytest.raises(ValueError, match=r"cannot truncate .* to 100: offsets below 290 are in remote storage"):
            log.truncate_to(100)


def test_the_checkpoint_of_an_ordinary_log_may_be_old(tmp_path):
    """As after a crash: retention has deleted segments, and nothing was written of it yet."""
    from brokerless.layout.tiering import log_start_offset

    assert log_start_offset(7, 9, [(0, 9)]) == 9
    assert log_start_offset(7, 9, [(0, 0)], remote_storage_enable=False) == 9
    assert log_start_offset(None, 9, [(0, 0)], remote_storage_enable=False) == 9
    assert log_start_offset(None, 9, [(0, 0)], remote_storage_enable=True) == 0
    assert log_start_offset(7, 9, [(0, 0)]) == log_start_offset(7, 9, [], remote_storage_enable=True) == 7
    assert not TopicConfig().remote_storage_enable


def test_metadata_that_end_in_damage_do_not_say_that_a_log_is_not_tiered(tmp_path, monkeypatch):
    """What switched tiering on may be behind the damage: the log's own files tell then."""
    image = image_of({("t", 0): (1,)})
    image.is_whole = False
    monkeypatch.setattr("brokerless.metadata.log.cluster_image", lambda _: image)
    cluster = Cluster(str(tmp_path), 1, None)
    assert cluster.config_of("t").remote_storage_enable is None
    assert cluster.replicas(("t", 0)) is None
    image.is_whole = True
    assert cluster.config_of("t").remote_storage_enable is False
    assert cluster.replicas(("t", 0)) == (1,)
