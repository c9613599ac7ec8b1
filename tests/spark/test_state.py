"""The views of a cluster's state have the rows of the tables in Python."""

import pyarrow as pa
import pytest

import brokerless as bl
from brokerless.spark.source.options import VIEWS
from support.state_records import commit_key, commit_value, write_records


def of_cluster(subject):
    return lambda path, **options: bl.cluster(path, **options).table(subject)


TABLES = {
    "groups": bl.groups,
    "commits": lambda path, **options: bl.commits(path, **options).read_all(),
    "transactions": bl.transactions,
    "producers": bl.producers,
    "remote_segments": bl.remote_segments,
    **{view: of_cluster(view.removeprefix("cluster.")) for view in VIEWS if view.startswith("cluster.")},
}


def plain(rows):
    """Rows in any order, with what Spark and Arrow call differently made the same."""
    return sorted(repr(row) for row in (_plain(row) for row in rows))


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return (
        value.replace(tzinfo=None)
        if hasattr(value, "tzinfo")
        else bytes(value)
        if isinstance(value, bytearray)
        else value
    )


def spark_rows(frame):
    return plain(row.asDict(recursive=True) for row in frame.collect())


@pytest.mark.parametrize("view", TABLES)
def test_a_view_is_the_table(golden, load, view):
    broker = golden / ("logs/kafka-4.1-tiered" if view == "remote_segments" else "logs/kafka-4.1")
    table = TABLES[view](broker)
    if view == "producers":
        # As in every view of data, internal topics only if they are named.
        table = table.filter(pa.array([not topic.startswith("__") for topic in table["topic"].to_pylist()]))
    frame = load(broker, view=view, minPartitions="3")
    assert frame.columns == table.column_names
    assert spark_rows(frame) == plain(table.to_pylist())


def test_views_at_a_time_and_their_history(golden, load):
    broker = golden / "logs/kafka-4.1"
    when = "2026-11-20T21:27:50.1Z"
    assert spark_rows(load(broker, view="groups", asOf=when)) == plain(bl.groups(broker, as_of=when).to_pylist())
    latest = bl.commits(broker, history=False).read_all()
    assert spark_rows(load(broker, view="commits", history="false")) == plain(latest.to_pylist())
    for view in ("groups", "transactions"):
        changes = TABLES[view](broker, history=True)
        assert spark_rows(load(broker, view=view, history="true")) == plain(changes.to_pylist())
    of_topic = {"view": "producers", "subscribe": "txn-interleaved"}
    at = bl.producers(broker, topics=["txn-interleaved"])["last_time"].to_pylist()[0]
    producers = bl.producers(broker, topics=["txn-interleaved"], as_of=at)
    assert spark_rows(load(broker, asOf=at.isoformat(), **of_topic)) == plain(producers.to_pylist())
    chosen = load(broker, view="commits", subscribe="headers").select("group", "offset").collect()
    assert len(chosen) == bl.commits(broker, topics=["headers"]).read_all().num_rows
    topics = load(broker, view="cluster.topics", asOf=str(bl.cluster(broker, as_of_offset=30).time)).count()
    assert topics == bl.cluster(broker, as_of=bl.cluster(broker, as_of_offset=30).time).topics.num_rows


def test_a_time_beyond_sparks_range_is_null(tmp_path, load):
    write_records(tmp_path, "__consumer_offsets", [(commit_key("g", "t", 0), commit_value(1, 2**62))])
    assert [tuple(row) for row in load(tmp_path, view="commits").select("offset", "commit_time").collect()] == [
        (1, None)
    ]


def test_options_that_do_not_apply(golden, load):
    broker = golden / "logs/kafka-4.1"
    with pytest.raises(Exception, match="option asOf does not apply to view records"):
        load(broker, asOf="1")
    with pytest.raises(Exception, match="option startingOffsets does not apply to view groups"):
        load(broker, view="groups", startingOffsets="earliest")
    for view, option in (
        ("groups", {"subscribe": "t"}),
        ("commits", {"subscribePattern": "t"}),
        ("producers", {"history": "true"}),
        ("cluster.topics", {"onCorrupt": "skip"}),
    ):
        (name,) = option
        with pytest.raises(Exception, match=f"option {name} does not apply to view {view}"):
            load(broker, view=view, **option)
