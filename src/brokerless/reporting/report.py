"""`report`: the numbers of log directories as one page of HTML."""

from __future__ import annotations

import html
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from brokerless.arguments import check_paths
from brokerless.io.clock import now_ms
from brokerless.io.processes import Processes
from brokerless.io.runner import Threads
from brokerless.reporting.contents import read
from brokerless.reporting.samples import MOST_RECORDS
from brokerless.reporting.tables import compute

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from brokerless.io.runner import Progress
    from brokerless.reporting.tables import Numbers


class ClusterReport:
    """The numbers of log directories. A notebook shows it as its page.

    Its tables are:

    - `topics`: a row for each topic. `disk_bytes` is the size of all replicas' segments. The columns from `batches` to
      `compacted_records` describe one replica of each partition. `distinct_keys` and `compacted_records` are estimates.
      `compacted_records` is the number of records that a compaction of all segments would leave.
    - `partitions`: a row for each partition. `bytes`, offsets and records are those of one replica, `errors` and
      `warnings` count the findings in all replicas. `is_damaged` is true if batches or records are lost or wrong.
    - `commits`: the latest commit of each group and partition, with its lag. `is_out_of_range` is true if a consumer
      that starts with the committed offset resets (`auto.offset.reset`).
    - `samples`: the first and the latest records of partitions, as short text. Bytes that are not UTF-8 are hex digits.
    - `hours`: the records of each hour, and the bytes of its batches. `hour` is the number of hours since 1970. It is
      null without a timestamp in the years 1970 to 2200. A topic with very many hours has days, weeks or years instead.
    - `intervals`: the records and bytes of shorter intervals. `width` is their length in ms, between 10 and 600,000. A
      topic with records in more than 200 intervals of the greatest length has none.
    - `forms`: batches, bytes and records by message format and codec.
    - `batch_sizes`: batches by size; `size` is the power of two at or below it.
    - `space`: bytes per record in format 2 with each codec. `batch_size` is the `batch.size` of a producer that fills
      its batches; it is null for batches that hold the same records as now. It is measured on samples of the largest
      20 topics, from at most 32 segments of each.
    - `producers`: the producers that snapshots and logs still have, by topic.
    - `groups`: the groups, with the sum of the lags of their latest commits, the number of latest commits that are
      out of range, and the number of commits below the previous commit.
    - `lags`: the lag of a group in each interval in which it committed.
    - `transactions`: open and hanging transactions, as `brokerless.transactions` returns them.
    - `changes`: the newest changes of topics, settings, ACLs, users, quotas and features in the cluster's metadata,
      newest first: the `time` and the `offset` of the record in the metadata log, and the columns of
      `ClusterState.diff`.
    - `findings`: the first findings of a deep check, errors first, with the columns of `Finding.to_dict`.
    - `kinds`: the number of all findings by topic and code.

    Attributes:
        tables: the numbers as Arrow tables, by name.
        verdict: the worst faults in one or two sentences, and what is not known.
        notes: a sentence for each fact that is not known, with the reason.
        html: the page. It needs no other file and no network.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.tables: dict[str, pa.Table] = numbers.tables
        self.notes: list[str] = numbers.notes
        from brokerless.reporting.page import page  # noqa: PLC0415 - needs the extra
        from brokerless.reporting.verdict import verdict  # noqa: PLC0415 - needs the extra

        self.verdict: str = str(verdict(numbers))

        self.html: str = page(numbers, now_ms())
        self._paths = numbers.paths

    def __repr__(self) -> str:
        return f"<ClusterReport of {', '.join(map(repr, self._paths))}>"

    def _repr_html_(self) -> str:
        # A frame of its own: the page's styles and script stay in it.
        page = html.escape(self.html)
        # Links lead to the documentation, in a window of their own.
        sandbox = "allow-scripts allow-popups allow-popups-to-escape-sandbox"
        style = "width: 100%; height: 80vh; min-height: 480px; max-height: 1000px; border: 0"
        return f'<iframe srcdoc="{page}" sandbox="{sandbox}" title="Report" style="{style}"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)


def report(
    *paths: str | os.PathLike[str],
    topics: Iterable[str] | None = None,
    samples: int = 0,
    jobs: int = 1,
    progress: Progress = lambda _what, _done: None,
) -> ClusterReport:
    """Read log directories whole, and return their contents as one page and as tables.

    The report begins with a verdict. It shows topics, sizes, formats and codecs; the partitions of each topic; records
    and bytes by time; batch sizes, and the size with other codecs and batch sizes; distinct keys, and the records that
    a compaction would drop; producers; groups with their lag over time; open and hanging transactions; what changed in
    the cluster's metadata; and the findings of `brokerless.check` with level "deep". Nothing is changed.

    The report needs Jinja and Matplotlib: `pip install 'brokerless[report]'`.

    Args:
        paths: log directories, or partition directories.
        topics: only these topics, and the groups, producers and transactions as far as they concern these; None: all.
        samples: show this number of first and of latest records of each partition, up to 20, of at most 200
            partitions. Internal topics have no samples.
        jobs: how many processes work at the same time. More than one saves time from hundreds of partitions on. A
            script that asks for more needs `if __name__ == "__main__":`, because each process imports the script.
        progress: called with the progress of a step as text, and the number of tasks finished since the last call.

    Raises:
        FileNotFoundError: a path does not exist.
        ValueError: a path is no log directory, a topic does not exist, `jobs` is below 1, or `samples` is
            below 0 or above 20.
        ModuleNotFoundError: Jinja or Matplotlib is not installed.

    >>> import brokerless as bl
    >>> found = bl.report(SAMPLE_DIR, topics=["headers"])
    >>> found.tables["topics"].select(["topic", "records"]).to_pylist()
    [{'topic': 'headers', 'records': 120}]
    """
    check_paths("report", paths)
    check_installed()
    check_samples(samples)
    with Threads() if jobs == 1 else Processes(jobs) as runner:
        # Processes start while this one lists the directories.
        for _ in range(jobs if jobs > 1 else 0):
            runner.start(read, ())
        numbers = compute(tuple(os.fspath(path) for path in paths), topics, runner, progress, samples=samples)
    return ClusterReport(numbers)


def check_samples(samples: int) -> None:
    """Refuse a number of samples that is below 0 or above the most.

    Raises:
        ValueError: the number is not allowed.
    """
    if not 0 <= samples <= MOST_RECORDS:
        raise ValueError(f"samples {samples}: expected 0 to {MOST_RECORDS}")


def check_installed() -> None:
    """Refuse to begin without the libraries that make the page.

    Raises:
        ModuleNotFoundError: one of these libraries is missing.
    """
    for name in ("jinja2", "matplotlib"):
        if find_spec(name) is None:
            message = f"a report needs {name}: pip install 'brokerless[report]'"
            raise ModuleNotFoundError(message, name=name)
