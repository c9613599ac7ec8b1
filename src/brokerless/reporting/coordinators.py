"""What one pass over a partition of `__consumer_offsets` tells: its groups, what they committed last, and their lag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.reporting.lag_over_time import LagOverTime
from brokerless.state.groups import groups_of
from brokerless.state.offset_commits import SCHEMA, commits_of

if TYPE_CHECKING:
    from brokerless.log.log import Log
    from brokerless.state.offset_commits import Lags
    from brokerless.state.topic_names import TopicNames


class Coordinated(NamedTuple):
    """What the partition of a coordinator tells.

    Attributes:
        groups: rows of `brokerless.groups`.
        latest: the latest commits, as `brokerless.commits` has them.
        lags: the highest lags in intervals, as `LagOverTime.rows` has them.
        back: how many commits of each group went back.
    """

    groups: list[dict[str, Any]]
    latest: pa.Table
    lags: pa.Table
    back: Counter[str]


def coordinated(log: Log, names: TopicNames, lags: Lags) -> Coordinated:
    """Read the partition of a coordinator.

    Args:
        log: the partition.
        names: the names of topics.
        lags: computes the lag of commits.
    """
    over_time = LagOverTime()
    back: Counter[str] = Counter()
    for commits in commits_of(log):
        if commits.num_rows:
            over_time.push(lags.of(commits))
            went_back: Any = pc.fill_null(commits["is_back"], pa.scalar(False))
            back.update(str(group) for group in commits.filter(went_back)["group"].to_pylist())
    latest = [lags.of(commits) for commits in commits_of(log, history=False) if commits.num_rows]
    return Coordinated(groups_of(log, names), pa.Table.from_batches(latest, SCHEMA), over_time.rows(), back)
