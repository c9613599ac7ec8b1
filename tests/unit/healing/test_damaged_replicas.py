"""What is sound on one of several damaged replicas is kept, and the loss of everything else is reported.

Which batch is sound where is known from the bytes that the test wrote and damaged, never from a check: see `harming`.
"""

import os
import shutil

import pytest

import brokerless as bl
from support.harmed_partitions import missing_entries, partition, seeded, stored, verify, write_files_around
from support.tally import tally

# A read tells that the head of a log is lost.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.* has no offsets .* here")]
SEEDS = 25
# 100 cases, or with `make hunt` as many as it says, from one of its choice on.
CASES = int(os.environ.get("BROKERLESS_HUNT", "100"))
FIRST = int(os.environ["BROKERLESS_HUNT_FROM"]) if "BROKERLESS_HUNT" in os.environ else 0
# What longer searches have found.
FOUND = [
    *(202, 231, 250, 471, 473, 538, 565, 590, 634, 979, 1032, 2133, 2271, 2582, 4267, 5307, 5663, 5904, 11876, 13934),
    *(16421, 20112, 50988, 71188),
]


def cluster(directory, chance):
    """Write a partition on one to three disks, and harm each; return it with its replicas."""
    made = partition(chance)
    is_clean = chance.random() < 0.7
    replicas = []
    for node in range(chance.choice([1, 2, 2, 3])):
        root = directory / str(node)
        replica = stored(root / "t-0", made, chance, is_clean=is_clean)
        write_files_around(root, {("t", 0): made}, node, is_clean=is_clean)
        replicas.append(replica.harmed(chance))
    return made, replicas


def batches_of(directory):
    """Return by segment its batches."""
    log = bl.Log(directory)
    return {segment.path: [row for part in segment.scan() for row in part.to_pylist()] for segment in log.segments}


def rows_of(directory):
    """Return by offset the value and the epoch of each record."""
    rows = {}
    for part in bl.Log(directory).read(columns=["offset", "value", "leaderEpoch"]):
        for row in part.to_pylist():
            assert row["offset"] not in rows, f"offset {row['offset']} comes twice"
            rows[row["offset"]] = row["value"], row["leaderEpoch"]
    return rows


def verify_files(to, made, replicas):
    log = bl.Log(to / "t-0")
    # A log starts with its first segment, if what was before is lost.
    starts = {made.start, max(made.start, log.segments[0].base_offset)} if log.segments else {made.start}
    assert log.log_start_offset in starts or not made.start, f"starts at {log.log_start_offset}"
    found = [one for one in bl.check(to, level="deep", topics=["t"]) if one.severity != "note"]
    found = [f"{one.code} {one.message}" for one in found if one.code not in ("partition-missing", "partition-lost")]
    assert not found, f"found: {found}"
    for path, batches in batches_of(to / "t-0").items():
        entries = [(row["position"], row["last_offset"], row["max_timestamp"]) for row in batches]
        indexes = to / "t-0" / path.rpartition("/")[2]
        if not any(is_kept(indexes, one.path / indexes.name) for one in replicas):
            missing = missing_entries(indexes, entries)
            assert missing == (set(), set()), f"indexes of {path} lack {missing}"


def is_kept(path, source):
    """Return whether a segment has the indexes that it had: they are a broker's, not ours."""
    return all(
        source.with_suffix(suffix).exists()
        and source.with_suffix(suffix).read_bytes() == path.with_suffix(suffix).read_bytes()
        for suffix in (".index", ".timeindex")
    )


def case(seed, directory):
    """Run a repair, alone and from other replicas, and a rescue."""
    tally("damage", "replicas")
    chance = seeded(seed)
    made, replicas = cluster(directory, chance)
    disks = sorted(directory.iterdir())
    harm = f"seed {seed}, {made.shape} from {made.start} to {made.end}: " + "; ".join(
        f"{one.path.parent.name}: {', '.join(one.harm) or 'none'}" for one in replicas
    )
    failed = []
    for name, do, of in (
        ("alone", lambda to: bl.repair(disks[0], to), replicas[:1]),
        ("repaired", lambda to: bl.repair(disks[0], to, sources=disks[1:]), replicas),
        ("rescued", lambda to: bl.rescue(*disks, output=to), replicas),
    ):
        try:
            ranges = do(directory / name).ranges
            verify(rows_of(directory / name / "t-0"), ranges, made, of)
            verify_files(directory / name, made, of)
        except AssertionError as error:
            failed.append(f"{name}: {harm}: {error}")
    lost = len(made.batches) - len(set().union(*(one.sound for one in replicas)))
    return failed, lost


def hunt(seeds, directory):
    """Run the cases, and return how many batches they had lost."""
    lost, failed = 0, []
    for seed in seeds:
        found, of_seed = case(seed, directory / str(seed))
        failed += found
        lost += of_seed
        shutil.rmtree(directory / str(seed))
    assert not failed, "\n\n".join(failed)
    return lost


@pytest.mark.parametrize("chunk", range(-(-CASES // SEEDS)))
def test_batches_that_are_sound_on_any_replica_are_kept(tmp_path, chunk):
    first = FIRST + chunk * SEEDS
    assert hunt(range(first, min(first + SEEDS, FIRST + CASES)), tmp_path)


def test_seeds_that_once_failed_stay_mended(tmp_path):
    assert hunt(FOUND, tmp_path)
