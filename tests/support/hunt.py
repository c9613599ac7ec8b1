"""Seeded damage to golden logs, and what has to hold whatever it is.

`hunt(seed, ...)` copies a partition that a real broker wrote, damages one of its files, and reads it in every way:

- each row outside the damage is there, or its loss is reported, or an error names the damage;
- each loss that is reported overlaps the damage;
- no row comes twice, out of order, or is not of the log; no aborted row comes with read_committed;
- so it is for a read of a range, to the high watermark, and from or up to a time, which reports what is lost in it as a
  read of all does;
- a read that skips damage returns the same rows whole, by splits and by ranges, but that a range may leave out more
  rows of a transaction whose marker may be in the damage, and reports them;
- only documented errors are raised, and no verb of the command meets an internal error;
- a verb that rewrites a log as it is loses no row that could be read before, done or refused;
- a verb that copies what a read refuses does not end with exit code 0;
- a report counts the rows of a read that skips damage, and has the findings of a check;
- a repair, beside or in place, keeps the rows that a read which skips damage returns and tells of all others, its
  source is untouched, a check finds nothing more, and a second repair changes no byte; from the log as it was, it
  brings all rows back;
- `produce` adds a row, or changes none; `recover` says how many it loses.
"""

import contextlib
import io
import itertools
import random
import re
import shutil
import struct
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import brokerless as bl
from brokerless import _native
from brokerless.cli import command
from brokerless.io.processes import Processes
from brokerless.log.segment import walk_headers
from brokerless.log_dir.recover import forecast, recovered
from brokerless.reporting.tables import compute
from support.tally import tally

PARTITIONS = [
    ("kafka-4.1", "txn-interleaved-0"),
    ("kafka-4.1", "txn-commit-abort-0"),
    ("kafka-4.1", "txn-abort-spanning-0"),
    ("kafka-4.1", "txn-open-0"),
    ("kafka-4.1", "compact-txn-0"),
    ("kafka-4.1", "compact-plain-0"),
    ("kafka-4.1", "idempotent-0"),
    ("kafka-4.1", "nulls-0"),
    ("kafka-4.1", "rolled-by-time-0"),
    ("kafka-4.1", "log-append-time-0"),
    ("kafka-4.1", "preallocated-0"),
    ("kafka-4.1", "trimmed-delete-records-0"),
    ("kafka-4.1-crashed", "crash-txn-0"),
    ("kafka-2.8-mixed", "txn-0"),
    ("kafka-2.8-mixed", "codec-zstd-0"),
    ("kafka-2.8-v1", "codec-mixed-0"),
    ("kafka-2.8-v1", "compact-0"),
    ("kafka-2.8-v0", "trimmed-0"),
]
LEVELS = ("read_uncommitted", "read_committed")
COLUMNS = ["offset", "key", "value"]
VERBS = [
    ("ls", "--json"),
    ("offsets", "--timestamp", "latest", "--isolation-level", "read_committed"),
    ("offsets", "--timestamp", "1700000000000"),
    ("read", "--on-corrupt", "skip", "--columns", "offset"),
    ("recover", "--dry-run"),
    ("compact", "--dry-run", "--roll"),
    ("convert", "--dry-run", "--compression", "gzip"),
    ("erase", "--dry-run", "--key", "k1"),
    ("retain", "--dry-run", "--retention-bytes", "1000"),
    ("compact", "--explain", "k1"),
    ("dump",),
    ("convert", "--compression", "gzip", "--output"),
    ("erase", "--key", "nobody", "--output"),
    ("retain", "--retention-bytes", "1000000", "--output"),
    ("truncate", "--offset", "1000000", "--output"),
    ("compact", "--drop-null-keys", "--output"),
]
REWRITING = [
    ("convert", "--compression", "gzip", "--in-place"),
    ("erase", "--key", "a key of no record", "--in-place"),
    ("retain", "--retention-bytes", "1000000", "--in-place"),
]
"""Verbs that leave the rows as they are: what was there before is there behind them, and if they end with an error."""
UNTOLD = {
    "compact": ("--min-compaction-lag-ms", "0", "--delete-retention-ms", "86400000"),
    "retain": ("--cleanup-policy", "delete"),
}
"""Settings that verbs need, and that the directories of old brokers do not tell."""
METADATA = "__cluster_metadata-0"
IDS = ("meta.properties",)
OF_CLUSTERS = {"partition-missing", "partition-lost", "metadata-missing", "ids-missing"}
"""What is found of a copy without the other partitions."""
OF_FILES = {
    "partition.metadata": {"topic-id-differs"},
    "meta.properties": {"ids-damaged", "ids-conflict", "directory-id-differs", "partition-stray"},
    "bootstrap.checkpoint": {"metadata-damaged"},
}
"""What is found of a damaged file that no other file tells."""


class Batch(NamedTuple):
    """Where a batch is in its file, and its offsets."""

    position: int
    end: int
    base_offset: int
    next_offset: int


@dataclass
class Original:
    """A golden partition as it is without damage.

    Attributes:
        rows: by isolation level, each offset with its key and value.
        stable: the offsets of no aborted or open transaction.
        batches: by the name of their file.
        times: of rows, by their offsets; empty where they do not rise with these.
        path: the partition's directory.
    """

    log_dir: str
    name: str
    rows: dict = field(default_factory=dict)
    stable: set = field(default_factory=set)
    batches: dict = field(default_factory=dict)
    end_offset: int = 0
    times: dict = field(default_factory=dict)
    path: Path = Path()

    def offsets(self, level, options):
        """Return the offsets that a read returns."""
        with quiet():
            reader = bl.Log(self.path).read(isolation_level=level, columns=COLUMNS, **options)
            return [offset for offset, _ in rows_of(reader)]


def original(golden, log_dir, name):
    """Read a golden partition."""
    found = Original(log_dir, name, path=golden / "logs" / log_dir / name)
    with quiet():
        log = bl.Log(found.path)
        found.end_offset = log.log_end_offset
        for level in LEVELS:
            found.rows[level] = dict(rows_of(log.read(isolation_level=level, columns=COLUMNS)))
        walk = _native.HeaderWalk()
        for segment in log.segments:
            end = log.files.extent.end_position if segment.is_last else segment.size
            with segment.open() as file:
                walk_headers(segment, walk, file, 0, end)
            walk.start_file()
            found.batches[segment.path.rpartition("/")[2]] = [
                Batch(row["position"], row["position"] + row["size"], _base(row), row["last_offset"] + 1)
                for rows in segment.scan()
                for row in rows.to_pylist()
            ]
        unstable = [(producer, first, last) for producer, first, last in walk.aborted]
        unstable += [(producer, first, 1 << 62) for producer, first in walk.open_transactions]
        for rows in log.read(columns=["offset", "producerId", "isTransactional"]):
            for row in rows.to_pylist():
                is_of = any(row["producerId"] == p and first <= row["offset"] < last for p, first, last in unstable)
                if not (row["isTransactional"] and is_of):
                    found.stable.add(row["offset"])
        # Markers count where a time is looked up.
        latest = [row["max_timestamp"] for rows in log.scan() for row in rows.to_pylist()]
        times = dict(_times(log))
        is_rising = all(found == sorted(found) and min(found, default=0) >= 0 for found in (latest, [*times.values()]))
        found.times = times if is_rising else {}
    return found


def _times(log):
    """Yield the offset and the time of each row, in ms."""
    for rows in log.read(columns=["offset", "timestamp"]):
        times = rows["timestamp"].cast("int64").to_pylist()
        yield from zip(rows["offset"].to_pylist(), times, strict=True)


def _base(row):
    return row["last_offset"] if row["base_offset"] is None else row["base_offset"]


class Damage(NamedTuple):
    """What was done: to which file, and to which bytes of a `.log` (or None)."""

    what: str
    file: str
    spans: list | None
    is_gone: bool = False
    """Whole batches were taken out: nothing tells of them, and of markers among them."""


def harm(directory, chance, batches):
    """Damage one file of a partition, or of its log directory, and return what was done."""
    logs = sorted(path for path in directory.glob("*.log") if path.stat().st_size)
    others = sorted(path for path in directory.iterdir() if path.suffix != ".log" and path.is_file())
    # Without its log start checkpoint a log shows records that were deleted, as a broker does.
    kept = (".lock", "log-start-offset-checkpoint")
    others += [path for path in sorted(directory.parent.iterdir()) if path.is_file() and path.name not in kept]
    others = [path for path in others if path.exists() and path.stat().st_size]
    if others and chance.random() < 0.25:
        path = chance.choice(others)
        content = bytearray(path.read_bytes())
        what = chance.choice(["flip", "cut", "zero", "remove", "append", "overwrite"])
        at = chance.randrange(len(content))
        if what == "remove":
            path.unlink()
            return Damage(what, path.name, None)
        path.write_bytes(_changed(content, what, at, chance))
        return Damage(f"{what} at {at}", path.name, None)
    path = chance.choice(logs)
    content = path.read_bytes()
    if chance.random() < 0.03:
        path.unlink()
        is_told = path.with_suffix(".index").exists() or path.with_suffix(".timeindex").exists()
        return Damage("removal", path.name, [(0, len(content))], not is_told)
    places = batches[path.name]
    end = places[-1].end if places else len(content)
    if len(places) < 4 or chance.random() < 0.5:
        return _harm_bytes(path, content[:end], content[end:], chance)
    return _harm_batches(path, content, places, chance)


def _changed(content, what, at, chance):
    match what:
        case "flip":
            content[at] ^= 1 << chance.randrange(8)
        case "cut":
            del content[at:]
        case "zero":
            content[at : at + chance.choice([1, 8, 100])] = bytes(min(chance.choice([1, 8, 100]), len(content) - at))
        case "append":
            content += chance.choice([bytes(34), chance.randbytes(34), bytes(content[:at])])
        case "overwrite":
            content[at : at + 8] = chance.randbytes(min(8, len(content) - at))
    return bytes(content)


def _harm_bytes(path, content, tail, chance):
    at = chance.randrange(len(content))
    length = min(chance.choice([1, 4, 61, 512, 4096]), len(content) - at)
    other = chance.randrange(len(content))
    what = chance.choice(["flip", "flip", "cut", "zero", "overwrite", "delete", "insert", "double"])
    spans = [(at, at + length)]
    match what:
        case "flip":
            bit = chance.randrange(8)
            new = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            what, spans = f"flip {bit}", [(at, at + 1)]
        case "cut":
            new, tail, spans = content[:at], b"", [(at, len(content))]
        case "zero":
            new = content[:at] + bytes(length) + content[at + length :]
        case "overwrite":
            new = content[:at] + chance.randbytes(length) + content[at + length :]
        case "delete":
            new, end = content[:at] + content[at + length :], at + length
            # Bytes that were equal to those before them may as well have been the ones that went.
            while end < len(content) and content[end] == content[end - length]:
                end += 1
            spans = [(at, min(end + 1, len(content)))]
        case "insert":
            new, spans = content[:at] + chance.randbytes(length) + content[at:], [(at, at)]
        case "double":
            block = content[other : other + length]
            new, spans = content[:at] + block + content[at:], [(at, at)]
    path.write_bytes(new + tail)
    return Damage(f"{what} {length} at {at}", path.name, spans)


def _harm_batches(path, content, places, chance):  # noqa: C901 - one case after the other
    i = chance.randrange(len(places))
    count = min(chance.choice([1, 1, 2, 5]), len(places) - i)
    start, end = places[i].position, places[i + count - 1].end
    block = content[start:end]
    what = chance.choice(["swap", "double", "delete", "zero", "length", "offset", "header", "cut"])
    spans = [(start, end)]
    match what:
        case "swap":
            j = chance.choice([k for k in range(len(places)) if not i <= k < i + count] or [i])
            other = places[j]
            if other.position < start:
                new = content[: other.position] + block + content[other.end : start]
                new += content[other.position : other.end] + content[end:]
            elif other.position >= end:
                new = content[:start] + content[other.position : other.end] + content[end : other.position]
                new += block + content[other.end :]
            else:
                new = content
            # Which of the batches in between is out of order cannot be told.
            spans = [(min(start, other.position), max(end, other.end))]
        case "double":
            j = chance.randrange(len(places))
            new = content[: places[j].position] + block + content[places[j].position :]
            spans.append((places[j].position, places[j].position))
        case "delete":
            new = content[:start] + content[end:]
        case "zero":
            new = content[:start] + bytes(end - start) + content[end:]
        case "length":
            new = _flipped(content, start + 8 + chance.randrange(4), chance)
            spans = [(start, places[i].end)]
        case "offset":
            new = _flipped(content, start + chance.randrange(8), chance)
            spans = [(start, places[i].end)]
        case "header":
            new = _flipped(content, start + 12 + chance.randrange(min(49, places[i].end - start - 12)), chance)
            spans = [(start, places[i].end)]
        case "cut":
            new, spans = content[:end], [(end, len(content))]
    path.write_bytes(new)
    return Damage(f"{what} of {count} batches at {start}", path.name, spans, what in ("cut", "delete"))


def _flipped(content, at, chance):
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


class Failed(AssertionError):  # noqa: N818 - what pytest shows
    """A property that does not hold, with the seed and the damage."""


def _is_said(warned):
    """Tell whether a warning says that the end may be gone after a crash, and markers among it."""
    return any(re.search(r" ends at \d+, but ", str(one.message)) for one in warned)


def is_doubt(lost):
    """Tell whether a loss is that of a transaction's rows, of which it is not known whether it was committed."""
    return "it is not known whether the transaction" in lost.reason


def rows_of(reader):
    """Yield (offset, (key, value)) of a read."""
    for rows in reader:
        columns = (rows[name].to_pylist() for name in COLUMNS)
        for offset, key, value in zip(*columns, strict=True):
            yield offset, (key, value)


def _content(root):
    """Return the content of each file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _rows_differ(one, other):
    return [(o.code, o.start_offset, o.end_offset) for o in one.ranges] != [
        (o.code, o.start_offset, o.end_offset) for o in other.ranges
    ]


@contextlib.contextmanager
def quiet():
    """Let warnings pass: they are reports too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Hunt:
    """One case."""

    def __init__(self, seed, golden, to, originals):
        self.chance = random.Random(f"damage {seed}")
        self.ranges = random.Random(f"ranges {seed}")
        log_dir, name = self.chance.choice(PARTITIONS)
        if (log_dir, name) not in originals:
            originals[log_dir, name] = original(golden, log_dir, name)
        self.original = originals[log_dir, name]
        self.root = to / str(seed)
        self.directory = self.root / name
        shutil.copytree(golden / "logs" / log_dir / name, self.directory)
        for source in (golden / "logs" / log_dir).iterdir():
            if source.is_file():
                shutil.copy2(source, self.root)
            elif source.name == METADATA:
                shutil.copytree(source, self.root / METADATA)
        self.is_clean = is_clean = self.chance.random() < 0.5
        if not is_clean:
            (self.root / ".kafka_cleanshutdown").unlink(missing_ok=True)
        is_indexed = self.chance.random() < 0.7
        if not is_indexed:
            for path in [*self.directory.glob("*.index"), *self.directory.glob("*.timeindex")]:
                path.unlink()
        self.damage = harm(self.directory, self.chance, self.original.batches)
        # What guides type is relative.
        self.is_relative = self.ranges.random() < 0.5
        how = f"clean={is_clean} indexed={is_indexed} relative={self.is_relative}"
        self.label = f"seed {seed}: {log_dir}/{name} {how} {self.damage}"
        self.damaged = self._damaged_offsets()

    def run(self):
        """Check everything that has to hold.

        Raises:
            Failed: something does not.
        """
        with contextlib.ExitStack() as stack:
            if self.is_relative:
                stack.enter_context(contextlib.chdir(self.root.parent))
                self.root = Path(self.root.name)
                self.directory = self.root / self.directory.name
            self._run_all()

    def _run_all(self):
        try:
            with quiet():
                for level in LEVELS[:1] if self.damage.is_gone else LEVELS:
                    self._raising(level)
                    self._skipping(level)
                    self._limited(level)
                self._checking()
                self._reporting()
                self._repairing()
                self._verb(*self.chance.choice(VERBS))
                self.chance.choice([self._rewriting, self._rewriting, self._producing, self._recovering])()
        except Failed:
            raise
        except Exception as error:
            raise Failed(f"{self.label}\n{type(error).__name__}: {error}") from error
        finally:
            shutil.rmtree(self.root)

    def _checking(self):
        """Damage that changes rows is found."""
        # The copy lacks all other partitions.
        found = [one for one in bl.check(self.root, level="deep") if one.code not in OF_CLUSTERS]
        rows = dict(rows_of(bl.Log(self.directory).read(on_corrupt="skip", columns=COLUMNS)))
        # No checksum covers offsets. Where compaction left gaps, a batch may lie in one as well as in another.
        is_untold = self.damage.is_gone or ("compact" in self.original.name and self.damage.spans and self._moved_to())
        if rows != self.original.rows["read_uncommitted"] and not found and not is_untold:
            self._fail(f"rows changed, and check found nothing: {len(rows)} rows")

    def _reporting(self):
        """A report counts the rows of a read that skips damage, and finds what a check finds."""
        tables = compute((str(self.root),), None, Processes(1)).tables
        topic = self.original.name.rpartition("-")[0]
        counted = {
            sum(row["records"] for row in tables[name].to_pylist() if row["topic"] == topic)
            for name in ("topics", "partitions", "hours", "forms")
        }
        log, rows = bl.Log(self.directory), self._skipped()
        # A read begins at the log start offset; the records below it are still in the files.
        is_trimmed = bool(log.segments) and log.local_log_start_offset > log.segments[0].base_offset
        if len(counted) != 1 or (counted != {len(rows)} and not is_trimmed):
            self._fail(f"a report counts {counted} rows, a read {len(rows)}")
        found = {one.code for one in bl.check(self.root, level="deep")}
        codes = set(tables["kinds"]["code"].to_pylist())
        if codes != found:
            self._fail(f"a report finds {codes}, a check {found}")

    def _repairing(self):
        """Repair: the rows of a read that skips damage are there, a check finds nothing, and again is the same."""
        rows = self._skipped()
        committed = [] if self.damage.is_gone else self._read("read_committed", on_corrupt="skip")[0]
        before = _content(self.root)
        try:
            repaired = bl.repair(self.root, self._beside("repaired"))
            self._check_repaired(repaired, rows)
            self._check_committed(repaired, committed)
            bl.repair(repaired.output, self._beside("again"))
            if _content(Path(repaired.output)) != _content(self._beside("again")):
                self._fail(f"repairing again changes it: {repaired}")
            if self.damage.spans is not None and not self._is_end_untold():
                self._filling()
            if _content(self.root) != before:
                self._fail("repair changed its source")
            shutil.copytree(self.root, self._beside("place"))
            placed = bl.repair(self._beside("place"), in_place=True)
            self._check_repaired(placed, rows)
            if not any(one.suffix == ".json" for one in self._beside("place").iterdir()) and _rows_differ(
                placed, repaired
            ):
                self._fail(f"in place it is another one: {placed}")
        except bl.errors.CorruptRecordError as error:
            # Whose the directory is, no other file tells.
            if self.damage.file not in IDS or self.damage.file not in str(error):
                raise
        finally:
            for place in self.root.parent.glob(f"{self.root.name}-*"):
                shutil.rmtree(place)

    def _is_end_untold(self):
        """Return whether the damage is at the end of an unclean log: no other file shows it."""
        places = self.original.batches[self.damage.file]
        end = places[-1].position if places else 0
        is_last = self.damage.spans[-1][1] > end and self.damage.what.startswith(("flip", "offset", "zero", "cut"))
        is_legacy_gap = "compact" in self.original.name and self.original.log_dir.startswith("kafka-2.8-v")
        return is_legacy_gap or (is_last and not (self.root / ".kafka_cleanshutdown").exists())

    def _is_move_untold(self):
        """Return whether batches of a compacted log were moved into holes: no other batch contradicts them."""
        if not self.damage.what.startswith("offset of") or "compact" not in self.original.name:
            return False
        content = (self.directory / self.damage.file).read_bytes()
        position, end = 0, int(self.damage.file.removesuffix(".log"))
        while position < len(content):
            base, length = struct.unpack_from(">qi", content, position)
            (delta,) = struct.unpack_from(">i", content, position + 23)
            if base < end:
                return False
            position, end = position + 12 + length, base + delta + 1
        return True

    def _beside(self, name):
        return self.root.with_name(f"{self.root.name}-{name}")

    def _check_repaired(self, repaired, rows):
        log = bl.Log(Path(repaired.output) / self.directory.name)
        after = list(rows_of(log.read(columns=COLUMNS)))
        # A batch whose header was mended is as it was.
        mended = [(one.start_offset, one.end_offset) for one in repaired.ranges if one.state == "recovered"]
        back = {offset for offset, _ in after if any(start <= offset < end for start, end in mended)}
        known = self.original.rows["read_uncommitted"]
        wrong = [offset for offset, row in after if offset in back and known.get(offset) != row]
        if wrong:
            self._fail(f"repair mends {wrong} into something else: {repaired}")
        rows = sorted([*rows, *((offset, known[offset]) for offset in back)])
        if after != rows:
            missing, more = (
                [o for o, _ in one if o not in dict(other)] for one, other in ((rows, after), (after, rows))
            )
            self._fail(f"repair loses {missing}, adds {more}, of {len(rows)} rows: {repaired}")
        told = [(one.start_offset, one.end_offset or 1 << 63) for one in repaired.ranges]
        offsets = self.original.rows["read_uncommitted"].keys() - dict(after).keys()
        untold = sorted(o for o in offsets if not any(start <= o < end for start, end in told))
        is_known = self.damage.spans is not None and not self.damage.is_gone
        if untold and is_known and not self._is_end_untold() and not self._is_move_untold():
            self._fail(f"repair does not tell that {untold} are lost: {repaired}")
        hidden = OF_CLUSTERS | OF_FILES.get(self.damage.file, set())
        found = [one for one in bl.check(repaired.output) if one.severity != "note" and one.code not in hidden]
        if found:
            self._fail(f"found in the repaired directory: {found}, {repaired}")

    def _check_committed(self, repaired, rows):
        """Check that committed rows stay so: a read leaves out those in doubt, and those behind an open transaction."""
        log = bl.Log(Path(repaired.output) / self.directory.name)
        after = dict(rows_of(log.read(columns=COLUMNS, isolation_level="read_committed")))
        stable = max(after, default=-1)
        missing = [offset for offset, row in rows if offset <= stable and after.get(offset) != row]
        aborted = [
            offset
            for offset in after
            if offset in self.original.rows["read_uncommitted"]
            and offset not in self.original.stable
            and not self._is_damaged(offset)
        ]
        if (missing or aborted) and not (repaired.doubts or self.damage.is_gone):
            self._fail(f"read_committed loses {missing} and gets aborted {aborted}: {repaired}")

    def _filling(self):
        """Repair from the log as it was: what is lost then is known."""
        repaired = bl.repair(self.root, self._beside("filled"), sources=[self.original.path])
        after = dict(rows_of(bl.Log(self._beside("filled") / self.directory.name).read(columns=COLUMNS)))
        missing = {o: row for o, row in self.original.rows["read_uncommitted"].items() if after.get(o) != row}
        if missing and not self.damage.is_gone and not self._is_move_untold():
            self._fail(f"repair from the log as it was loses {list(missing)}: {repaired}")

    def _fail(self, what):
        raise Failed(f"{self.label}\n{what}\ndamaged: {self.damaged}")

    def _damaged_offsets(self):
        """Return the ranges of offsets whose bytes were touched; those in between belong to them."""
        if self.damage.spans is None:
            return []
        places = self.original.batches[self.damage.file]
        found = []
        for start, end in self.damage.spans:
            touched = [one for one in places if one.position < max(end, start + 1) and start < one.end]
            if start == end:
                # What is put between two batches touches neither.
                touched = [one for one in touched if one.position < start]
            before = [one.next_offset for one in places if one.end <= start]
            low = max(before, default=int(self.damage.file[:20]))
            behind = [one.base_offset for one in places if one.position >= max(end, start + 1)]
            following = [int(name[:20]) for name in self.original.batches if name > self.damage.file]
            high = min(behind, default=min(following, default=self.original.end_offset))
            if touched:
                low, high = min(low, touched[0].base_offset), max(high, touched[-1].next_offset)
            found.append((low, max(low, high)))
        return found + self._moved_to()

    def _moved_to(self):
        """Return the offsets that batches claim now: no checksum covers them, and another one may have them."""
        known = {one.position: one for one in self.original.batches[self.damage.file]}
        found = []
        if not self.damage.what.startswith(("flip", "offset")):
            return []
        with bl.Log(self.directory / self.damage.file).segments[0].open() as file:
            for start, end in self.damage.spans:
                for position, one in known.items():
                    if position < end and start < position + 8:
                        base = int.from_bytes(file.read(position, 8), "big", signed=True)
                        if file.read(position + 16, 1) < b"\x02":
                            # A wrapper's is its last one.
                            base -= one.next_offset - one.base_offset - 1
                        stop = base + one.next_offset - one.base_offset
                        met = [b for b in known.values() if b.base_offset < stop and base < b.next_offset]
                        low, high = min(stop, one.next_offset), max(base, one.base_offset)
                        passed = [b for b in known.values() if b is not one and low <= b.base_offset < high]
                        if len(passed) == 1:
                            # Of two that changed places, nothing tells which one was moved.
                            met += passed
                        if met:
                            found.append((min(b.base_offset for b in met), max(b.next_offset for b in met)))
        return found

    def _is_damaged(self, offset):
        return any(start <= offset < end for start, end in self.damaged)

    def _read(self, level, **options):
        """Return rows, and what is lost, or the error that ended the read."""
        log = bl.Log(self.directory)
        found, error, reader = [], None, None
        try:
            reader = log.read(isolation_level=level, columns=COLUMNS, **options)
            found.extend(rows_of(reader))
        except (bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError) as caught:
            error = caught
            if error.path is None:
                self._fail(f"an error without its file: {error}")
        return found, [] if reader is None else reader.lost, error

    def _check_rows(self, level, rows, error=None):
        """Check that rows are those of the log, once and in order. A batch that was moved shows at the next one."""
        offsets = [offset for offset, _ in rows]
        if any(after <= before for before, after in itertools.pairwise(offsets)):
            self._fail(f"{level}: rows do not rise: {offsets}")
        known = self.original.rows["read_uncommitted"]
        for offset, row in rows:
            if error is None and not self._is_damaged(offset) and offset in known and known[offset] != row:
                self._fail(f"{level}: row {offset} is another one")
            if offset not in known and not self.damaged:
                self._fail(f"{level}: row {offset} is not of the log")
            is_stable = level == "read_uncommitted" or offset in self.original.stable or offset not in known
            if not is_stable and not self._is_damaged(offset):
                self._fail(f"{level}: row {offset} is of an aborted or open transaction")

    def _raising(self, level):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            rows, _, error = self._read(level)
        self._check_rows(level, rows, error)
        seen = {offset for offset, _ in rows}
        for target_bytes in (700,):
            by_splits = []
            caught = None
            try:
                for split in bl.Log(self.directory).plan(isolation_level=level, target_bytes=target_bytes):
                    by_splits += rows_of(bl.read_split(split, COLUMNS))
            except (bl.errors.CorruptRecordError, bl.errors.UnsupportedFormatError) as met:
                caught = met
            if (caught is None) != (error is None) or (error is None and by_splits != rows):
                self._fail(f"{level}: whole {error}, by splits {caught}; {len(rows)} and {len(by_splits)} rows")
        if error is None and not _is_said(warned):
            missing = [o for o in self.original.rows[level] if o not in seen and not self._is_damaged(o)]
            if missing:
                self._fail(f"{level}: rows {missing} are missing without an error")

    def _skipping(self, level):  # noqa: C901 - one check after the other
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            rows, lost, error = self._read(level, on_corrupt="skip")
        if error is not None:
            self._fail(f"{level}: skip raises {error}")
        self._check_rows(level, rows)
        seen = {offset for offset, _ in rows}
        spans = [(one.start_offset, 1 << 63 if one.end_offset is None else one.end_offset) for one in lost]
        self.lost = spans

        def is_lost(offset):
            return any(start <= offset < end for start, end in spans)

        missing = [o for o in self.original.rows[level] if o not in seen and not self._is_damaged(o)]
        unsaid = [offset for offset in missing if not is_lost(offset)]
        if unsaid and not _is_said(warned):
            self._fail(f"{level}: skip loses {unsaid} and does not say so; lost: {spans}")
        for start, end in spans:
            is_near = any(start <= high and low <= end for low, high in self.damaged)
            # Where compaction has left a hole, it cannot be told from a loss.
            is_empty = not any(start <= offset < end for offset in self.original.rows["read_uncommitted"])
            if not (is_near or is_empty) and start < self.original.end_offset:
                self._fail(f"{level}: {start} to {end} is reported as lost, and is not damaged: {lost}")
        if level == "read_uncommitted" and missing:
            self._fail(f"skip loses {missing}, which are not damaged; lost: {lost}")
        by_splits = []
        for split in bl.Log(self.directory).plan(isolation_level=level, target_bytes=700, on_corrupt="skip"):
            by_splits += rows_of(bl.read_split(split, COLUMNS))
        if by_splits != rows:
            self._fail(f"{level}: skip returns other rows by splits")
        log = bl.Log(self.directory)
        low, high = log.local_log_start_offset, log.log_end_offset
        cuts = sorted(self.chance.randrange(low, high + 1) for _ in range(2)) if low <= high else []
        ends = [low, *cuts, high]
        by_ranges, expected = [], []
        for start, end in itertools.pairwise(ends):
            found, lost, _ = self._read(level, on_corrupt="skip", start_offset=start, end_offset=end)
            seen = {offset for offset, _ in found}
            # A range may not see the marker that ends a doubt.
            by_ranges += found
            expected += [
                row
                for row in rows
                if start <= row[0] < end
                and (
                    row[0] in seen
                    or not any(
                        one.start_offset <= row[0] < (one.end_offset or 1 << 63) for one in lost if is_doubt(one)
                    )
                )
            ]
        if by_ranges != expected:
            self._fail(f"{level}: skip returns other rows by ranges {ends}: {len(by_ranges)} for {len(rows)}")

    def _limited(self, level):
        """Read a range, by offsets, the high watermark, times: what is not damaged is there, or said to be lost."""
        start, end = sorted(self.ranges.randrange(self.original.end_offset + 1) for _ in range(2))
        start = max(start, bl.Log(self.original.path).local_log_start_offset)
        cases = [{"end_offset": end}, {"start_offset": start}, {"start_offset": start, "end_offset": max(start, end)}]
        if bl.Log(self.directory).high_watermark is not None and self.damage.spans is not None:
            cases.append({"end_offset": "high-watermark"})
        if self.original.times:
            time = self.ranges.choice(list(self.original.times.values()))
            cases += [{"start_timestamp": time}, {"end_timestamp": time}]
        if self._is_end_moved():
            # A range that ends before it ends within the transaction whose marker it is.
            cases = [options for options in cases if "end_offset" not in options]
        for options in cases:
            offsets = self.original.offsets(level, options)
            # What a read of all reports as lost, one of a part has to report, too.
            reported = [offset for offset in offsets if any(start <= offset < end for start, end in self.lost)]
            self._has(level, sorted({*reported, *(o for o in offsets if not self._is_damaged(o))}), options)

    def _is_end_moved(self):
        """Tell whether the last batch was moved where nothing tells of it: its directory was left by a crash."""
        path = self.directory / self.damage.file
        is_last = path == max(self.directory.glob("*.log"), default=None)
        return (
            not self.is_clean
            and is_last
            and self.damage.what.startswith("offset of")
            and self.damage.spans[-1][1] == path.stat().st_size
        )

    def _has(self, level, wanted, options):
        """Check that a read has rows, or that their loss is said."""
        for on_corrupt in ("raise", "skip"):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    rows, lost, error = self._read(level, on_corrupt=on_corrupt, **options)
                except bl.errors.OffsetOutOfRangeError:
                    return
            if _is_said(warned) or (error is not None and on_corrupt == "raise"):
                continue
            if error is not None:
                self._fail(f"{level} {options}: skip raises {error}")
            self._check_rows(level, rows)
            there = {offset for offset, _ in rows}
            spans = [(one.start_offset, one.end_offset or 1 << 63) for one in lost]
            missing = [
                offset
                for offset in wanted
                if offset not in there and not any(start <= offset < end for start, end in spans)
            ]
            if missing:
                self._fail(f"{level} {options} {on_corrupt}: rows {missing} are missing, lost: {spans}")

    def _verb(self, verb, *options):
        """Run a verb: it ends with an exit code that is documented."""
        path = {"recover": self.root, "dump": self.directory / self.damage.file}.get(verb, self.directory)
        copy = self.root.with_name(f"{self.root.name}-copy")
        if options[-1:] == ("--output",):
            options = (*options, str(copy))
        if not (self.root / METADATA).exists() and verb != "truncate":
            options = (*options, *UNTOLD.get(verb, ()))
        code, err = self._run(verb, path, *options)
        if code not in (0, 1, 2) or "please report this" in err.getvalue() or "Traceback" in err.getvalue():
            self._fail(f"{verb} ends with {code}: {err.getvalue()[-2000:]}")
        shutil.rmtree(copy, ignore_errors=True)
        # Of a marker that is gone nobody but a read of committed rows knows.
        if str(copy) in options and self._read(LEVELS[0])[2] is not None and code == 0:
            self._fail(f"{verb} copies what cannot be read, and ends with 0: {err.getvalue()[-2000:]}")

    def _run(self, verb, path, *options):
        """Run a verb, and return its exit code and what it writes to stderr."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = command.run([verb, str(path), *options])
            except SystemExit as exited:
                code = exited.code
        return code, err

    def _skipped(self):
        return self._read("read_uncommitted", on_corrupt="skip")[0]

    def _producing(self):
        """Append a row: none that was there is out of reach then."""
        before = self._skipped()
        topic, _, partition = self.original.name.rpartition("-")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with bl.Producer(self.root, topic, sole_replica=True) as producer:
                    producer.send([{"key": b"new", "value": b"new", "partition": int(partition)}])
            except (bl.BrokerlessError, ValueError, OSError) as error:
                said = error
            else:
                said = None
        after = self._skipped()
        added = [row for _, row in after[len(before) :]]
        # What fails at the end, when indexes are closed, leaves the row.
        if after[: len(before)] != before or added not in (
            [[(b"new", b"new")]] if said is None else [[], [(b"new", b"new")]]
        ):
            self._fail(f"produce ends with {said}: {len(before)} rows before, {len(after)} after")

    def _recovering(self):
        """Recover the directory: rows that are gone then were counted."""
        before = self._skipped()
        try:
            lost = forecast(str(self.root)).lost_records
            list(recovered(str(self.root)))
        except (bl.BrokerlessError, ValueError, OSError):
            lost = 0
        offsets = {offset for offset, _ in self._skipped()}
        gone = [offset for offset, _ in before if offset not in offsets]
        if len(gone) > lost:
            self._fail(f"recover loses {gone}, and says {lost}")

    def _rewriting(self):
        before = self._skipped()
        verb, *options = self.chance.choice(REWRITING)
        self._verb(verb, *options)
        after = self._skipped()
        if after != before:
            offsets = {offset for offset, _ in after}
            self._fail(f"{verb} loses {[offset for offset, _ in before if offset not in offsets]}")


def hunt(seed, golden, to, originals):
    """Run one case."""
    tally("damage", "log")
    Hunt(seed, golden, to, originals).run()
