"""The code in the documents, as somebody would type it in; and logs where it looks for some."""

import re
from pathlib import Path

import brokerless as bl

ROOT = Path(__file__).parents[2]


def blocks(name, language):
    """Return the code blocks of a document."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / name).read_text(), flags=re.DOTALL | re.MULTILINE)


def run(name, directory, names, *, after=lambda: None):
    """Run the Python blocks of a document one after the other, with its absolute paths, and `data`, in a directory."""
    for number, block in enumerate(blocks(name, "python")):
        # What is in an object store is read in test_remote.py.
        if "s3://" not in block:
            code = re.sub('"/?(?=data")|"/', f'"{directory}/', block)
            exec(compile(code, f"{name}, block {number}", "exec"), names)
            after()


def fill(path):
    """Make a log directory with a topic of records."""
    rows = [{"key": b"%d" % (i % 50), "value": b"v", "timestamp": 1_714_521_600_000 + i * 1000} for i in range(3000)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with bl.Producer(path, "orders", partitions=2, retention_ms=-1) as producer:
        producer.send(rows)
