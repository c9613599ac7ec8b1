"""What brokers serve of partitions of every shape that a seed harmed, once they are repaired, rescued or recovered.

What must be there is known from the bytes that were written and damaged: see `harming`. What a recovery leaves is what
a broker leaves that starts on the damaged directory itself.
"""

import base64
import shutil

import pytest
from kafka import AFTER_A_KILL, DEFAULT, NEWEST, Broker, again, complaints

import brokerless as bl
from brokerless.layout import checkpoints
from brokerless.log_dir.recover import forecast, recovered
from support.harmed_partitions import KINDS, SHAPES, partition, seeded, stored, verify, write_files_around

COUNT = 250
# A topic of deleted and one of compacted partitions. No record may go because it is old.
TOPICS = {
    "t": {"retention_ms": -1, "max_message_bytes": 20_000_000},
    "c": {"cleanup_policy": "compact", "min_compaction_lag_ms": 1 << 62, "max_message_bytes": 20_000_000},
}
OPTIONS = {"num_recovery_threads_per_data_dir": 2}
# A broker does not start on these, or serves what it does not recover: other tests see what it says.
OF_RECOVERY = sorted(set(KINDS) - {"base offset", "order"})
# One that has to be split stops a broker if it is damaged, too.
OF_SPLIT = ["offset index", "time index", "gone"]
CHUNKS = [
    (NEWEST, 0, 40),
    *(again(release, first, COUNT) for release in (DEFAULT, NEWEST) for first in range(0, 4 * COUNT, COUNT)),
]


def template(client, path, release, count):
    """Make a directory whose broker has stopped and has the topics."""
    with Broker(path, log=path.with_name("template.log"), version=release, **OPTIONS) as broker:
        for topic, configs in TOPICS.items():
            client.create(broker, topic, partitions=count, **configs)
    return path


def topic_of(made):
    return "c" if made.is_compacted else "t"


def written(data, seeds, node, made, *, is_clean, kinds=lambda _: KINDS):
    """Write the partition of each seed, and harm it; return the replicas."""
    replicas = {}
    for number, seed in enumerate(seeds):
        chance = seeded(seed * 10 + node)
        path = data / f"{topic_of(made[seed])}-{number}"
        for file in path.iterdir():
            if file.name != checkpoints.PARTITION_METADATA:
                file.unlink()
        replicas[seed] = stored(path, made[seed], chance, is_clean=is_clean)
    places = {(topic_of(made[seed]), number): made[seed] for number, seed in enumerate(seeds)}
    write_files_around(data, places, 1, is_clean=is_clean)
    for seed in seeds:
        replicas[seed].harmed(seeded(seed * 10 + node + 5), kinds(made[seed]))
    return replicas


def served(client, broker, seeds, made, patience=None):
    """Return what a consumer gets of each seed's partition: by offset, the value and the leader epoch."""
    rows = {topic: {} for topic in TOPICS}
    for topic in TOPICS:
        for row in client.consume(broker, topic, patience=patience):
            value = base64.b64decode(row["value"])
            rows[topic].setdefault(row["partition"], {})[row["offset"]] = value, row["leaderEpoch"]
    return {seed: rows[topic_of(made[seed])].get(number, {}) for number, seed in enumerate(seeds)}


def told(ranges, topic, number):
    return [one for one in ranges if (one.topic, one.partition) == (topic, number)]


def failures(rows, ranges, made, replicas, seeds):
    """Return what does not hold, a sentence for each seed."""
    found = []
    for number, seed in enumerate(seeds):
        of = [one[seed] for one in replicas]
        try:
            verify(rows[seed], told(ranges, topic_of(made[seed]), number), made[seed], of)
        except AssertionError as error:
            found.append(f"seed {seed}, {made[seed].shape}, {[one.harm for one in of]}: {error}")
    return found


@pytest.mark.parametrize(("release", "first", "count"), CHUNKS)
def test_what_is_sound_is_served_once_it_is_repaired_or_rescued(client, tmp_path, release, first, count):
    """From one disk, from two, and by a new cluster: the broker takes each file as it is."""
    seeds = range(first, first + count)
    made = {seed: partition(seeded(seed)) for seed in seeds}
    one = template(client, tmp_path / "one", release, count)
    other = shutil.copytree(one, tmp_path / "other")
    of_one = written(one, seeds, 0, made, is_clean=True)
    of_other = written(other, seeds, 1, made, is_clean=True)
    alone = bl.repair(one, tmp_path / "alone")
    filled = bl.repair(one, tmp_path / "filled", sources=[other])
    rescued = bl.rescue(one, other, output=tmp_path / "rescued")
    failed = []
    for result, replicas in ((alone, [of_one]), (filled, [of_one, of_other]), (rescued, [of_one, of_other])):
        data = tmp_path / ("alone" if result is alone else "filled" if result is filled else "rescued")
        with Broker(data, log=data.with_suffix(".log"), version=release, **OPTIONS) as broker:
            rows = served(client, broker, seeds, made)
            said = complaints(broker.log)
        failed += [f"{data.name}: {one}" for one in failures(rows, result.ranges, made, replicas, seeds)]
        failed += [f"{data.name}: {line}" for line in said]
    assert not failed, "\n".join(failed)


@pytest.mark.filterwarnings("ignore:.*below its start offset")
@pytest.mark.parametrize(("release", "first", "count"), CHUNKS)
def test_a_recovery_leaves_what_a_broker_leaves_that_was_killed(client, tmp_path, release, first, count):
    seeds = range(first, first + count)
    made = {seed: partition(seeded(seed), seeded(seed).choice(SHAPES)) for seed in seeds}
    data = template(client, tmp_path / "ours", release, count)
    (data / checkpoints.CLEAN_SHUTDOWN).unlink()
    kinds = {"wide": OF_SPLIT}
    written(data, seeds, 0, made, is_clean=False, kinds=lambda one: kinds.get(one.shape, OF_RECOVERY))
    # Nothing was flushed, nor cleaned.
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.FIRST_DIRTY_OFFSETS):
        (data / name).unlink()
    theirs = shutil.copytree(data, tmp_path / "theirs")
    assert forecast(str(data)).is_good
    list(recovered(str(data), force=True))
    found = []
    for directory in (data, theirs):
        log = tmp_path / f"{directory.name}.log"
        with Broker(directory, log=log, version=release, **OPTIONS, **AFTER_A_KILL) as broker:
            # A broker that finds no damage at the end of a segment does not see what is missing there.
            found.append(served(client, broker, seeds, made, patience=10))
            if directory == data:
                assert complaints(broker.log) == []
    differing = [f"{seed}, {made[seed].shape}" for seed in seeds if found[0][seed] != found[1][seed]]
    assert not differing, "\n".join(differing)
