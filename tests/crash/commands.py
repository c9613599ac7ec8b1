"""Commands that write, the directories they write in, and what may be seen there: for tests that disturb them."""

import contextlib
import json

import brokerless as bl
from brokerless.cli.command import run
from support.log_files import NOW, batch

SIZE = len(batch(0, [b"0"], keys=[b"k0"]))
# Names of what is under way. A broker deletes some, and recovers others.
UNFINISHED = (".tmp", ".cleaned", ".swap", ".deleted", "-delete", ".partial", ".aside", "journal")

IN_PLACE = {
    "retain": ["--topic", "t", "--partition", "0", "--before-offset", "5", "--in-place"],
    "compact": ["--topic", "c", "--roll", "--in-place"],
    "convert": ["--topic", "c", "--compression", "lz4", "--in-place"],
    "erase": ["--topic", "c", "--key", "k1", "--in-place"],
    "recover": [],
}

BESIDE = {
    "retain": ["D/data", "--topic", "t", "--partition", "0", "--before-offset", "5", "--output", "D/new"],
    "truncate": ["D/data", "--topic", "t", "--timestamp", str(NOW + 4), "--output", "D/new"],
    "repair": ["D/data", "--output", "D/new"],
    "rescue": ["D/data", "--output", "D/new"],
    "report": ["D/data", "--output", "D/new"],
    "read": ["D/data", "--output", "D/new"],
}


def make_outer(tmp_path):
    """Make a log directory with a topic of two partitions, and a compacted one; and rows for a new topic."""
    data = tmp_path / "outer/data"
    data.parent.mkdir()
    with bl.create_log_dir(data) as log_dir:
        small = {"segment_bytes": 3 * SIZE, "index_interval_bytes": 0, "segment_index_bytes": 1200}
        log_dir.create_topic("t", 2, **small)
        log_dir.create_topic("c", **small, cleanup_policy="compact")
        for topic, partition, count in (("t", 0, 7), ("t", 1, 1), ("c", 0, 4)):
            for i in range(count):
                log = log_dir.log(topic, partition)
                log.append(batch(0, [b"%d" % i], timestamp=NOW + i, keys=[b"k%d" % (i % 3)]))
    rows = [json.dumps({"value": str(i), "partition": i % 2}) for i in range(6)]
    (data.parent / "rows.jsonl").write_text("\n".join(rows) + "\n")
    return data.parent


def rows(data):
    """Return the rows of each log; None: there is no log directory."""
    if not (data / "meta.properties").exists():
        return None
    columns = ["offset", "key", "value"]
    return {log.name: log.to_table(columns=columns).to_pylist() for log in bl.LogDirs(data).logs()}


def unfinished(directory):
    names = (str(path.relative_to(directory)) for path in directory.rglob("*"))
    return [name for name in names if name.endswith(UNFINISHED) or ".unfinished" in name]


def errors(data):
    return [str(one) for one in bl.check(data) if one.severity == "error"]


def command(*arguments):
    """Run a command as a user does; its exit code says no more than the test sees."""

    def work(path):
        with contextlib.suppress(SystemExit):
            run([argument.replace("D/", f"{path}/") for argument in arguments])

    return work


def names(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
