"""Partitions of every shape on several disks, harmed in every way that a disk or a broker's bug may, by a seed.

What is sound of them is known from the bytes that are written and damaged here, never from the code under test.
"""

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

from brokerless.layout import checkpoints
from support import damage
from support.log_files import NOW, batch, write_segment, write_snapshot

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
CLUSTER_ID = "theOldClusterAAAAAAAAA"
INDEX_INTERVAL = 4096
REACH = (1 << 31) - 1
"""As many offsets a segment may span."""
SHAPES = ["plain", "plain", "compacted", "compacted", "large", "wide", "overlapping", "trimmed", "emptied", "empty"]
KINDS = [
    "bytes",
    "bytes",
    "base offset",
    "epoch",
    "order",
    "gone",
    "tail",
    "offset index",
    "time index",
    "zeros",
    "garbage",
]


@dataclass
class Batch:
    """A batch as it was written.

    Attributes:
        rows: the offset and value of each record.
        told_from: its first offset that no batch before it has.
    """

    base: int
    end: int
    epoch: int
    content: bytes
    rows: list
    told_from: int


@dataclass
class Partition:
    """A partition as it was before harm.

    Attributes:
        batches: all batches, of which a replica's segments are made.
        start: the log start offset.
        end: the log end offset.
    """

    shape: str
    batches: list = field(default_factory=list)
    start: int = 0
    end: int = 0

    @property
    def is_compacted(self):
        return self.shape in ("compacted", "wide")

    @property
    def epochs(self):
        starts = {}
        for one in self.batches:
            starts.setdefault(one.epoch, one.base)
        return starts


@dataclass
class Replica:
    """What a disk has of a partition.

    Attributes:
        path: its directory.
        made: the partition as it was.
        is_clean: whether its broker stopped.
        harm: what was done to it, in words.
        sound: the base offsets of the batches that are whole and in order.
        untold: those that are missing, of which nothing in a compacted log tells.
        moved: by its base offset, where a batch claims to begin, and no other tells that this is wrong: the last one of
            a log that was not closed or is cut, one that went into a hole, one amid others in
            disorder.
    """

    path: Path
    made: Partition
    is_clean: bool
    harm: list = field(default_factory=list)
    sound: set = field(default_factory=set)
    untold: set = field(default_factory=set)
    moved: dict = field(default_factory=dict)
    disordered: set = field(default_factory=set)

    def harmed(self, chance, kinds=None):
        """Harm the replica in none to three ways, and note what is sound."""
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            kind = chance.choice(kinds or KINDS)
            logs = sorted(self.path.glob("*.log"))
            path = chance.choice(logs)
            if kind in ("zeros", "garbage"):
                self._append(logs[-1], kind, chance)
            elif kind in ("offset index", "time index"):
                self._lie(path, kind, chance)
            elif path.read_bytes().strip(b"\0"):
                self._damage(path, kind, chance)
        self._note()
        return self

    def claims(self):
        """Return where moved batches claim to begin, each with the batch."""
        return [(self.moved[one.base], one) for one in self.made.batches if one.base in self.moved]

    def _append(self, path, kind, chance):
        if kind == "zeros" and path.read_bytes().endswith(bytes(8)):
            return
        count = chance.choice([1, 8, 100, 4096])
        damage.append(path, bytes(count) if kind == "zeros" else chance.randbytes(count))
        self.harm.append(kind)

    def _lie(self, path, kind, chance):
        suffix, lies = {
            "offset index": (".index", damage.OFFSET_INDEX_DAMAGE),
            "time index": (".timeindex", damage.TIME_INDEX_DAMAGE),
        }[kind]
        if path.with_suffix(suffix).exists():
            lie = chance.choice(list(lies))
            lies[lie](path.with_suffix(suffix))
            self.harm.append(f"{kind}: {lie}")

    def _damage(self, path, kind, chance):
        found = in_order(path.read_bytes(), self.made)
        if kind == "bytes" or not found:
            said = self._harm_bytes(path, chance)
        elif kind == "order":
            said = self._swap(path, found, chance)
        elif kind == "tail":
            said = f"from {(at := chance.randrange(path.stat().st_size))} on"
            damage.cut(path, at)
        else:
            said = self._harm_batch(path, kind, *chance.choice(found), chance)
        self.harm.append(f"{kind} in {path.name}: {said}")

    def _harm_bytes(self, path, chance):
        size = path.stat().st_size
        at = chance.randrange(size)
        length = min(chance.choice([1, 1, 20, 200, 900]), size - at)
        what = chance.choice(["flip", "zero", "random"])
        if what == "flip":
            damage.flip_bit(path, at, chance.randrange(8))
        else:
            damage.overwrite(path, at, bytes(length) if what == "zero" else chance.randbytes(length))
        return f"{what} {length} at {at}"

    def _harm_batch(self, path, kind, at, one, chance):
        if kind == "gone":
            content = path.read_bytes()
            path.write_bytes(content[:at] + content[at + len(one.content) :])
            self.untold |= {one.base} if self.made.is_compacted else set()
            return f"{one.base}"
        end, bits = (at + 8, 64) if kind == "base offset" else (at + 16, 32)
        bit = chance.randrange(bits)
        damage.flip_bit(path, end - 1 - bit // 8, bit % 8)
        return f"bit {bit} at {at}"

    def _swap(self, path, found, chance):
        """Swap two batches. Which one of those in between is out of order then cannot be told."""
        low, high = sorted(chance.choices(range(len(found)), k=2))
        content = path.read_bytes()
        (a, first), (b, second) = found[low], found[high]
        if a == b:
            return "none"
        end, behind = a + len(first.content), b + len(second.content)
        path.write_bytes(content[:a] + content[b:behind] + content[end:b] + content[a:end] + content[behind:])
        self.disordered.update(batch.base for _, batch in found[low : high + 1])
        return f"{first.base} and {second.base}"

    def _note(self):
        """Note which batches are sound, as they lie there now."""
        there = set()
        paths = sorted(self.path.glob("*.log"))
        limits = [*(int(path.stem) for path in paths[1:]), self.made.end]
        for path, limit in zip(paths, limits, strict=True):
            content = path.read_bytes()
            found = in_order(content, self.made)
            there |= {one.base for _, one in found}
            self._note_holes(content, found, int(path.stem), limit)
            for at, one in found:
                self._note_batch(content, at, one, is_last=path == paths[-1] and at == found[-1][0])
            self._note_reach(found, int(path.stem))
        if self.made.is_compacted:
            self.untold |= self.disordered if self.made.shape == "wide" else self.disordered - there
            # A hole before a batch that was moved up tells nothing.
            for base, begin in self.moved.items():
                self.untold |= {one.base for one in self.made.batches if base < one.base < begin} - there
        for number, one in enumerate(self.made.batches):
            # Where a batch that overlaps another one belongs, only those around both tell.
            around = {near.base for near in self.made.batches[number - 2 : number + 2]}
            if one.told_from > one.base and not around <= self.sound:
                self.sound -= around

    def _note_batch(self, content, at, one, *, is_last):
        base, length, rest = (slice(0, 8), slice(8, 12), slice(12, 16))
        is_same = [content[at:][part] == one.content[part] for part in (base, length, rest)]
        if all(is_same) and one.base not in self.disordered:
            self.sound.add(one.base)
        elif is_same[:2] == [False, True]:
            is_end_known = self.is_clean and one is self.made.batches[-1]
            if one.base in self.disordered or (is_last and not is_end_known):
                self.moved[one.base] = claim(content, at)
            if one.base in self.disordered and self.made.is_compacted:
                self.untold.add(one.base)

    def _note_reach(self, found, start):
        """A gap that no segment reaches over is one that a flipped bit explains."""
        for one in [one for _, one in found if one.base in self.sound]:
            if one.base - start < REACH:
                start = one.end
            else:
                self.sound.remove(one.base)

    def _note_holes(self, content, found, start, limit):
        """Note which batches went into a hole, and which they meet there: in a compacted log either may be wrong."""
        for at, one in found:
            base = claim(content, at)
            end = base + one.end - one.base
            if base == one.base or base < start or limit < end:
                continue
            met = {near.base for at, near in found if near.base == claim(content, at) < end and base < near.end}
            if self.made.is_compacted or not met:
                self.moved[one.base] = base
            if self.made.is_compacted:
                self.disordered |= met


def places(content, made):
    """Yield each batch whose body is in a file, with its position there, whatever its place, length and epoch."""
    for one in made.batches:
        at = content.find(one.content[16:])
        if at >= 16:
            yield at - 16, one


def in_order(content, made):
    return sorted(places(content, made), key=lambda place: place[0])


def claim(content, at):
    """Return the base offset that a batch claims."""
    return int.from_bytes(content[at : at + 8], "big", signed=True)


def partition(chance, shape=None):
    """Make a partition of some shape."""
    shape = shape or chance.choice(SHAPES)
    made = Partition(shape)
    if shape == "empty":
        return made
    offset, epoch = 0, chance.randint(0, 2)
    overlapping = chance.randint(3, 8) if shape == "overlapping" else -1
    for number in range(chance.randint(4, 6) if shape == "wide" else chance.randint(12, 40)):
        epoch += chance.randint(1, 3) if chance.random() < 0.15 else 0
        count = chance.randint(1, 4)
        if number == overlapping - 1:
            count = chance.randint(4, 8)
        sizes = [300_000, 1_500_000] if shape == "large" and chance.random() < 0.1 else [5, 60, 400]
        begin = offset
        if number == overlapping:
            # No flipped bit explains it.
            begin, count = next(
                (at, offset - at + chance.randint(2, 5))
                for at in range(offset - 1, offset - 5, -1)
                if (at ^ offset).bit_count() > 1 or at == offset - 4
            )
        values = [chance.randbytes(chance.choice(sizes)) for _ in range(count)]
        deltas = list(range(count))
        if shape == "wide":
            deltas = sorted({0, (1 << 30) - 1, *deltas})
            values = (values * 3)[: len(deltas)]
        end = begin + deltas[-1] + 1
        content = batch(begin, values, timestamp=NOW + number * 10, leader_epoch=epoch, deltas=deltas)
        rows = [(begin + delta, value) for delta, value in zip(deltas, values, strict=True)]
        made.batches.append(Batch(begin, end, epoch, content, rows, offset))
        offset = end + (chance.randint(0, 5) if shape == "compacted" and chance.random() < 0.4 else 0)
    made.end = made.batches[-1].end
    if shape == "trimmed":
        made.start = chance.randrange(made.end)
    elif shape == "emptied":
        made.start = made.end
    return made


def stored(path, made, chance, *, is_clean):
    """Write a replica that rolled where chance has it."""
    replica = Replica(path, made, is_clean)
    batches = made.batches
    if made.shape == "emptied" and chance.random() < 0.5:
        # Retention took the segments, and left an empty one.
        write_segment(path, made.end, [])
        return replica
    kept = [one for one in batches if one.end > made.start] or batches[-1:]
    if made.shape == "emptied" or chance.random() < 0.5:
        kept = batches
    allowed = [at for at in range(1, len(kept)) if kept[at].base >= kept[at - 1].end]
    rolls = sorted({0, *chance.sample(allowed, min(len(allowed), chance.randint(0, 3)))})
    if not kept:
        write_segment(path, 0, [])
    for start, stop in zip(rolls, [*rolls[1:], len(kept)], strict=True):
        if kept:
            contents = [one.content for one in kept[start:stop]]
            write_segment(path, kept[start].base, contents, indexed=made.shape != "wide")
    return replica


def write_files_around(root, partitions, node, *, is_clean):
    """Write the files around the batches, as a broker that stopped, or was killed behind a flush.

    Args:
        root: the log directory.
        partitions: by topic and number.
        node: the broker's id.
        is_clean: whether the broker stopped.
    """
    for (topic, number), made in partitions.items():
        if is_clean:
            write_snapshot(root / f"{topic}-{number}", made.end)
        lines = "".join(f"{epoch} {start}\n" for epoch, start in made.epochs.items())
        path = root / f"{topic}-{number}"
        (path / "leader-epoch-checkpoint").write_text(f"0\n{len(made.epochs)}\n{lines}")
        if not (path / "partition.metadata").exists():
            (path / "partition.metadata").write_bytes(checkpoints.format_partition_metadata(TOPIC_ID))
    ends = {key: made.end for key, made in partitions.items()}
    compacted = {key: made.end for key, made in partitions.items() if made.shape == "compacted"}
    starts = {key: made.start for key, made in partitions.items() if made.start}
    files = {
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends,
        "cleaner-offset-checkpoint": compacted,
        "log-start-offset-checkpoint": starts,
    }
    for name, offsets in files.items():
        if offsets:
            (root / name).write_bytes(checkpoints.format_offset_checkpoint(offsets))
    if not (root / "meta.properties").exists():
        meta = checkpoints.MetaProperties(1, CLUSTER_ID, node, checkpoints.random_id())
        (root / "meta.properties").write_bytes(checkpoints.format_meta_properties(meta))
    if is_clean:
        (root / ".kafka_cleanshutdown").write_bytes(checkpoints.format_clean_shutdown(1))


def verify(there, ranges, made, replicas):
    """Hold what a repair or a rescue made of a partition to what is sound on any of the replicas that it had.

    Args:
        there: by offset, the value and the leader epoch of each record.
        ranges: the damaged ranges that it tells.
        made: the partition as it was.
        replicas: what it had.
    """
    there = dict(there)
    told = [(one.start_offset, one.end_offset or 1 << 62) for one in ranges if one.state == "lost"]
    untold = set().union(*(one.untold for one in replicas))
    sound = demanded(made, replicas)
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
        assert set(gone) <= set(lost) or one.base in untold, f"{gone} of batch {one.base} are gone, and not reported"
        assert not set(lost) - set(gone), f"{lost} are there, and reported as lost"


def demanded(made, replicas):
    """Return the base offsets of the batches that a result has to have: the sound ones that no replica contradicts."""
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


def index_entries(path):
    """Return the offset and position of each entry of an offset index, relative to its segment."""
    content = path.with_suffix(".index").read_bytes() if path.with_suffix(".index").exists() else b""
    return set(struct.iter_unpack(">ii", content[: len(content) // 8 * 8]))


def time_entries(path):
    content = path.with_suffix(".timeindex").read_bytes() if path.with_suffix(".timeindex").exists() else b""
    return set(struct.iter_unpack(">qi", content[: len(content) // 12 * 12]))


def missing_entries(path, batches):
    """Return what the indexes of a segment lack, of what a broker writes that recovers it (LogSegment.recover).

    Args:
        path: the `.log`.
        batches: its batches, each (position, last_offset, max_timestamp).
    """
    base = int(path.stem)
    offsets, times, indexed, latest, of_latest = set(), [], 0, -1, 0
    for position, last, timestamp in batches:
        if timestamp > latest:
            latest, of_latest = timestamp, last
        if position - indexed > INDEX_INTERVAL:
            indexed = position
            offsets.add((last - base, position))
            if not times or latest > times[-1][0]:
                times.append((latest, of_latest - base))
    if latest >= 0 and (not times or latest > times[-1][0]):
        times.append((latest, of_latest - base))
    return (offsets - index_entries(path)), (set(times) - time_entries(path))


def seeded(seed):
    return random.Random(seed)
