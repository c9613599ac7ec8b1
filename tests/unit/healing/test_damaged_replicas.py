"""What is sound on one of several damaged replicas is kept, and the loss of everything else is reported.

Which batch is sound where is known from the bytes that the test wrote and damaged, never from a check: see `harming`.
"""

import shutil

import pytest

import brokerless as bl
from harming import missing_entries, partition, seeded, stored, write_files_around

SEEDS = 25


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


def verify(to, result, made, replicas):
    """Hold a repair or a rescue to what is sound on any of the replicas that it had."""
    told = [(one.start_offset, one.end_offset or 1 << 62) for one in result.ranges if one.state == "lost"]
    untold = set().union(*(one.untold for one in replicas))
    sound = demanded(made, replicas)
    there = rows_of(to / "t-0")
    for claim, moved in [move for one in replicas for move in one.claims()]:
        # Its records are kept where it says. If others tell that this is wrong, they tell its offsets.
        for offset, value in moved.rows:
            if there.get(offset - moved.base + claim, [None])[0] == value:
                del there[offset - moved.base + claim]
                told.append((claim, claim + moved.end - moved.base))
                untold |= {moved.base} if made.is_compacted else set()
    wrong = [offset for offset, row in there.items() if row != expected(made, there).get(offset)]
    assert not wrong, f"rows {wrong} are not those that were written"
    for one in made.batches:
        own = [offset for offset, _ in one.rows if offset >= max(made.start, one.told_from)]
        gone = [offset for offset in own if offset not in there]
        lost = [offset for offset in own if any(start <= offset < end for start, end in told)]
        assert not (gone and one.base in sound - untold), f"{gone} of the sound batch {one.base} are gone"
        assert set(gone) <= set(lost) or one.base in untold, f"{gone} of batch {one.base} are gone without a word"
        assert not set(lost) - set(gone), f"{lost} are told to be lost"
    verify_files(to, made, replicas)


def demanded(made, replicas):
    """Return the base offsets of the batches that a result has to have: what is sound, unless replicas contradict it."""
    if len(replicas) == 1:
        return replicas[0].sound
    overlapping = {one.base for one in made.batches if one.told_from > one.base}
    if not all(overlapping <= one.sound for one in replicas):
        return set()
    moved = [(claim, claim + one.end - one.base) for replica in replicas for claim, one in replica.claims()]
    met = {one.base for one in made.batches if any(low < one.end and one.base < high for low, high in moved)}
    return set().union(*(one.sound for one in replicas if not one.moved)) - met


def expected(made, there):
    """Return what each offset may have: of batches that overlap, the later one has its record if the first is lost."""
    wanted = {}
    for one in made.batches:
        is_second = one.told_from > one.base
        for offset, value in one.rows:
            if offset not in wanted or (is_second and there.get(offset) == (value, one.epoch)):
                wanted[offset] = value, one.epoch
    return wanted


def verify_files(to, made, replicas):
    start = bl.Log(to / "t-0").log_start_offset
    assert start == made.start or not made.start, f"starts at {start}"
    found = [one for one in bl.check(to, level="deep", topics=["t"]) if one.severity != "note"]
    found = [f"{one.code} {one.message}" for one in found if one.code != "partition-missing"]
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
        ("rescued", lambda to: bl.rescue(*disks, to=to), replicas),
    ):
        try:
            verify(directory / name, do(directory / name), made, of)
        except AssertionError as error:
            failed.append(f"{name}: {harm}: {error}")
    lost = len(made.batches) - len(set().union(*(one.sound for one in replicas)))
    return failed, lost


@pytest.mark.parametrize("chunk", range(4))
def test_what_is_sound_on_one_replica_is_kept(tmp_path, chunk):
    lost, failed = 0, []
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        found, of_seed = case(seed, tmp_path / str(seed))
        failed += found
        lost += of_seed
        shutil.rmtree(tmp_path / str(seed))
    assert not failed, "\n\n".join(failed)
    assert lost
