"""The jar and the Python source read damaged logs alike: rows, warnings, errors. `make hunt` tries many more."""

import collections
import contextlib
import os
import random
import shutil
import warnings

import both_ways
import pytest
from needing_jar import jar_or_skip

import brokerless as bl
import brokerless.spark
from support.damage import append
from support.hunt import LEVELS, PARTITIONS, harm, original
from support.tally import tally

jar_or_skip()

LOGS = 12
"""The logs of a case."""
CASES = max(2, int(os.environ.get("BROKERLESS_HUNT", "0")) // 10 // LOGS)
EVERYTHING = (
    "key,value,topic,partition,offset,timestamp,timestampType,headers,leaderEpoch,baseOffset,position,magic,compression,"
    "producerId,producerEpoch,sequence,isTransactional"
)
COLUMNS = [EVERYTHING, "offset", "offset,timestamp", "value,offset", "headers,offset", "key,producerId,offset"]


@pytest.fixture(scope="module")
def originals():
    return {}


@pytest.fixture(scope="module")
def said(spark, tmp_path_factory):
    """The files that have the warnings of tasks: of those in Python, and of those in the JVM."""
    directory = tmp_path_factory.mktemp("said")
    files = directory / "python", directory / "jvm"
    both_ways.register(spark, str(files[0]))
    log = both_ways.LogOfJvm(spark, files[1])
    yield files
    log.close()


class Case:
    """Damaged logs in one directory."""

    def __init__(self, seed, golden, to, originals):
        self.chance = random.Random(seed)
        self.path = to / f"case-{seed}"
        self.damages = {}
        for number in range(LOGS):
            log_dir, name = self.chance.choice(PARTITIONS)
            of = originals.get((log_dir, name)) or originals.setdefault(
                (log_dir, name), original(golden, log_dir, name)
            )
            topic = f"t{number}"
            # `harm` also damages files beside the partition's directory, here none.
            shutil.copytree(of.path, self.path / topic / f"{topic}-0")
            tally("damage", "log in Python and in the JVM")
            self.damages[topic] = self._damage(self.path / topic / f"{topic}-0", of, name)
            (self.path / topic / f"{topic}-0").rename(self.path / f"{topic}-0")
            (self.path / topic).rmdir()
        if self.chance.random() < 0.5:
            (self.path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')

    def _damage(self, path, of, name):
        if self.chance.random() < 0.2:
            file = self.chance.choice(sorted(path.glob("*.log")))
            tail = self.chance.choice([bytes(100), self.chance.randbytes(100), file.read_bytes()[:70]])
            append(file, tail)
            return f"{name}: {tail[:8].hex()}... behind {file.name}"
        return f"{name}: {harm(path, self.chance, of.batches)}"

    def options(self):
        """Return options of a read, of all logs that can be planned with them."""
        options = {
            "kafka__isolation__level": self.chance.choice(LEVELS),
            "kafka__check__crcs": self.chance.choice(["true", "true", "false"]),
            "onCorrupt": self.chance.choice(["raise", "skip"]),
            "minPartitions": str(self.chance.choice([1, LOGS, LOGS * 4])),
            "columns": self.chance.choice([EVERYTHING, *COLUMNS]),
        }
        return {**options, "subscribe": ",".join(self._planned(options))}

    def _planned(self, options):
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for topic in self.damages:
                with contextlib.suppress(bl.BrokerlessError):
                    level, on_corrupt = options["kafka__isolation__level"], options["onCorrupt"]
                    bl.Log(self.path / f"{topic}-0").plan(isolation_level=level, on_corrupt=on_corrupt)
                    found.append(topic)
        return found


def warned(file):
    """Return what was said since the last call."""
    found = collections.Counter(file.read_text().splitlines()) if file.exists() else collections.Counter()
    with contextlib.suppress(FileNotFoundError):
        os.truncate(file, 0)
    return found


def both(spark, path, **options):
    return (both_ways.Tasks(spark, name, path, **options) for name in (both_ways.IN_PYTHON, "brokerless"))


def differences_of_tasks(spark, said, case):
    """Yield what differs between reads with the same options."""
    options = case.options()
    if not options["subscribe"]:
        return
    python, jvm = both(spark, case.path, **options)
    assert len(python) == len(jvm)
    for number in range(len(python)):
        for file in said:
            warned(file)
        expected, found = python.run(number), jvm.run(number)
        words = [warned(file) for file in said]
        if expected != found:
            yield f"{options}, task {number}:\n  {expected!s:.2000}\n  {found!s:.2000}"
        # What a task in Python would say before it fails, it does not say.
        elif not isinstance(expected, str) and words[0] != words[1]:
            yield f"{options}, task {number}:\n  {words[0] - words[1]}\n  {words[1] - words[0]}"


def differences_of_filters(spark, case):
    """Yield what differs where a filter narrows what the JVM reads: it meets no damage outside of the range."""
    options = case.options()
    if not options["subscribe"]:
        return
    if options["onCorrupt"] == "raise":
        options["subscribe"] = case.chance.choice(options["subscribe"].split(","))
    options["columns"] += "" if "offset" in options["columns"] else ",offset"
    low = case.chance.randrange(600)
    where = f"offset >= {low} and offset < {low + case.chance.choice([1, 20, 300])}"
    python, jvm = both(spark, case.path, where=where, **options)
    expected, errors = rows_and_errors(python)
    found, others = rows_and_errors(jvm)
    is_more = bool(found - expected) and not errors
    is_less = bool(expected - found) and not others
    if is_more or is_less or (others and not errors):
        yield f"{options} {where}:\n  {expected - found!s:.2000} {errors}\n  {found - expected!s:.2000} {others}"


def rows_and_errors(tasks):
    """Return how often tasks have each row, and their errors."""
    found = [tasks.run(number) for number in range(len(tasks))]
    rows = (repr(row) for one in found if not isinstance(one, str) for row in one)
    return collections.Counter(rows), [one for one in found if isinstance(one, str)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_damage_has_the_same_rows_warnings_and_errors(spark, golden, tmp_path, originals, said, seed):
    case = Case(seed, golden, tmp_path, originals)
    differences = [
        *differences_of_tasks(spark, said, case),
        *differences_of_tasks(spark, said, case),
        *differences_of_filters(spark, case),
        *differences_of_filters(spark, case),
    ]
    assert not differences, f"{case.damages}\n\n" + "\n\n".join(differences[:10])
