"""A batch that is sound on one of several damaged replicas is kept, and the loss of every other one is reported.

Which batch is sound where is known from the bytes that the test wrote and damaged, never from a check.
"""

import random
import shutil

import pytest

import brokerless as bl
from brokerless.layout import checkpoints
from building import NOW, batch, write_segment

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
SEEDS = 25


def cluster(directory, chance):
    """Write equal replicas that rolled at different places; return (base, end, epoch, bytes) of each batch."""
    offset, epoch, batches = 0, chance.randint(0, 2), []
    is_compacted = chance.random() < 0.3
    for _ in range(chance.randint(12, 40)):
        epoch += chance.randint(1, 3) if chance.random() < 0.15 else 0
        count = chance.randint(1, 4)
        values = [chance.randbytes(chance.choice([5, 60, 400])) for _ in range(count)]
        content = batch(offset, values, timestamp=NOW + offset, leader_epoch=epoch)
        batches.append((offset, offset + count, epoch, content))
        offset += count + (chance.randint(0, 5) if is_compacted and chance.random() < 0.4 else 0)
    end = batches[-1][1]
    is_clean = chance.random() < 0.7
    for node in range(chance.choice([2, 3])):
        root = directory / str(node)
        rolls = sorted({0, *chance.sample(range(1, len(batches)), chance.randint(0, 3))})
        for start, stop in zip(rolls, [*rolls[1:], len(batches)], strict=True):
            write_segment(root / "t-0", batches[start][0], [one[3] for one in batches[start:stop]])
        write_files_around(root, end, epochs_of(batches), node, is_clean=is_clean, is_compacted=is_compacted)
    return batches


def epochs_of(batches):
    starts = {}
    for base, _, epoch, _ in batches:
        starts.setdefault(epoch, base)
    return starts


def write_files_around(root, end, epochs, node, *, is_clean, is_compacted):
    """Write the files around the batches, as a broker that stopped, or was killed behind a flush."""
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs.items())
    (root / "t-0/leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    (root / "t-0/partition.metadata").write_bytes(checkpoints.format_partition_metadata(TOPIC_ID))
    names = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
    names += ["cleaner-offset-checkpoint"] if is_compacted else []
    for name in names:
        (root / name).write_bytes(checkpoints.format_offset_checkpoint({("t", 0): end}))
    meta = checkpoints.MetaProperties(1, "theOldClusterAAAAAAAAA", node, checkpoints.random_id())
    (root / "meta.properties").write_bytes(checkpoints.format_meta_properties(meta))
    if is_clean:
        (root / ".kafka_cleanshutdown").write_bytes(checkpoints.format_clean_shutdown(1))


def harmed(root, chance):
    """Damage some bytes of a replica's batches.

    Returns:
        The base offsets of the sound batches, and of those with another epoch: no checksum covers it.
    """
    sound, in_doubt = set(), set()
    for path in sorted((root / "t-0").glob("*.log")):
        content = bytearray(path.read_bytes())
        before, spans = bytes(content), []
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            at = chance.randrange(len(content))
            length = min(chance.choice([1, 1, 20, 200, 900]), len(content) - at)
            what = chance.choice(["flip", "zero", "random"])
            if what == "flip":
                length = 1
                content[at] ^= 1 << chance.randrange(8)
            else:
                content[at : at + length] = bytes(length) if what == "zero" else chance.randbytes(length)
            spans.append((at, at + length))
        path.write_bytes(content)
        position = 0
        while position < len(before):
            size = 12 + int.from_bytes(before[position + 8 : position + 12], "big")
            base = int.from_bytes(before[position : position + 8], "big")
            is_same = [before[one] == content[one] for one in fields(position, size)]
            if all(is_same):
                sound.add(base)
            elif is_same == [True, False, True]:
                in_doubt.add(base)
            position += size
    return sound, in_doubt


def fields(position, size):
    """Return the places of what is before the epoch of a batch, the epoch, and the rest."""
    return slice(position, position + 12), slice(position + 12, position + 16), slice(position + 16, position + size)


def kept(path):
    rows = [row for part in bl.Log(path / "t-0").scan() for row in part.to_pylist()]
    return {row["base_offset"]: row["partition_leader_epoch"] for row in rows}


def told(ranges):
    return [(one.start_offset, one.end_offset or 1 << 62) for one in ranges if one.state == "lost"]


@pytest.mark.parametrize("chunk", range(4))
def test_what_is_sound_on_one_replica_is_kept(tmp_path, chunk):
    lost = recovered = 0
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        chance = random.Random(seed)
        directory = tmp_path / str(seed)
        batches = cluster(directory, chance)
        disks = sorted(directory.iterdir())
        harm = [harmed(disk, chance) for disk in disks]
        sound, in_doubt = (set().union(*one) for one in zip(*harm, strict=True))
        epochs = {base: epoch for base, _, epoch, _ in batches}
        repaired = bl.repair(disks[0], directory / "repaired", sources=disks[1:])
        rescued = bl.rescue(*disks, to=directory / "rescued")
        for result, to in ((repaired, directory / "repaired"), (rescued, directory / "rescued")):
            there = kept(to)
            assert sound <= there.keys() <= sound | in_doubt, (seed, result.ranges)
            assert all(epochs[base] == epoch for base, epoch in there.items()), (seed, result.ranges)
            for base, end, *_ in batches:
                is_told = any(start < end and base < stop for start, stop in told(result.ranges))
                assert is_told == (base not in there), (seed, base, result.ranges)
            found = [one for one in bl.check(to, level="deep", topics=["t"]) if one.severity != "note"]
            assert [one for one in found if one.code != "partition-missing"] == [], seed
        lost += len(batches) - len(sound)
        recovered += len(sound) - len(harm[0][0])
        shutil.rmtree(directory)
    assert lost
    assert recovered > SEEDS
