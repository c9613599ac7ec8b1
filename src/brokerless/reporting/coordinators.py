"""The contents of partitions of `__consumer_offsets`: the groups, their latest commits, and their lag over time."""

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
    from brokerless.metadata.topic_names import TopicNames
    from brokerless.state.offset_commits import Lags


class Coordinated(NamedTuple):
    """The contents of a partition of `__consumer_offsets`.

    Attributes:
        groups: `group type state` of rows of `brokerless.groups`, and the number of `members`.
        latest: the latest commits, as `brokerless.commits` has them, without `lag_then`.
        lags: the highest lags in intervals, as `LagOverTime.rows` has them.
        back: by topic, the number of each group's commits that are below the group's previous commit.
    """

    groups: list[dict[str, Any]]
    latest: pa.Table
    lags: pa.Table
    back: Counter[tuple[str, str]]


def coordinated(log: Log, names: TopicNames, lags: Lags) -> Coordinated:
    """Read a partition of `__consumer_offsets`.

    Args:
        log: the partition.
        names: the names of topics.
        lags: computes the lag of commits.
    """
    over_time = LagOverTime()
    back: Counter[tuple[str, str]] = Counter()
    for changes in lags.each(commits_of(log)):
        over_time.push(changes)
        went_back: Any = pc.fill_null(changes["is_back"], pa.scalar(False))
        chosen = changes.filter(went_back)
        pairs = zip(chosen["group"].to_pylist(), chosen["topic"].to_pylist(), strict=True)
        back.update((str(group), str(topic)) for group, topic in pairs)
    latest = lags.each(commits_of(log, history=False), then=False)
    groups = [
        {**{name: group[name] for name in ("group", "type", "state")}, "members": len(group["members"])}
        for group in groups_of(log, names)
    ]
    return Coordinated(groups, pa.Table.from_batches(latest, SCHEMA), over_time.rows(), back)
