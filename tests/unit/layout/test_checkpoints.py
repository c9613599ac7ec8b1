"""The texts of a log directory, where Kafka's own cases say nothing: Java's properties, and odd line ends."""

import pytest

import brokerless as bl
from brokerless.layout import checkpoints

PROPERTIES = [
    (b"a=1\n", {"a": "1"}),
    (b"a = 1 \n", {"a": "1 "}),
    (b"a:1\nb 2\nc\n", {"a": "1", "b": "2", "c": ""}),
    (b"  a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    (b"# x=1\n! y=2\n\n \t\na=#1\n", {"a": "#1"}),
    (b"a=one \\\n   two\n", {"a": "one two"}),
    (b"# c \\\na=1\n", {"a": "1"}),
    (b"a=x\\\\\nb=2\n", {"a": "x\\", "b": "2"}),
    (b"a=\\u0041\\t\\n\\q\n", {"a": "A\t\nq"}),
    (b"a\\=b\\:c\\ d=1\n", {"a=b:c d": "1"}),
    (b"a==1\nb:=2\nc = = 3\n", {"a": "=1", "b": "=2", "c": "= 3"}),
    (b"a=1\na=2\n", {"a": "2"}),
    (b"a=caf\xe9\n", {"a": "caf\u00e9"}),
    (b"a=1\\", {"a": "1"}),
    (b"", {}),
]


@pytest.mark.parametrize(("content", "expected"), PROPERTIES)
def test_properties_as_java_reads_them(content, expected):
    assert checkpoints.parse_properties(content) == expected


def test_meta_properties_of_zookeeper_times():
    meta = checkpoints.parse_meta_properties(
        b"#\n#Fri Nov 20 21:18:57 UTC 2020\nbroker.id=3\nversion=0\ncluster.id=x\n"
    )
    assert meta == checkpoints.MetaProperties(version=0, cluster_id="x", node_id=3, directory_id=None)


def test_meta_properties_without_a_version_are_version_0():
    assert checkpoints.parse_meta_properties(b"broker.id=3\n").version == 0


@pytest.mark.parametrize("content", [b"broker.id=x\n", b"version=1.0\n", b"broker.id=2147483648\n"])
def test_meta_properties_with_a_number_that_is_none(content):
    with pytest.raises(bl.errors.CorruptRecordError, match="not an int32"):
        checkpoints.parse_meta_properties(content)


def test_a_checkpoint_line_is_not_cut_at_what_only_python_takes_for_a_line_end():
    with pytest.raises(bl.errors.CorruptRecordError, match="line 3 has 4 fields"):
        checkpoints.parse_offset_checkpoint(b"0\n1\nt\x0cu 0 5\n")
    assert checkpoints.parse_offset_checkpoint("0\n1\nt\u2028u 0 5\n".encode()) == {("t\u2028u", 0): 5}


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"brokerEpoch":true}' * 2, b'{"brokerEpoch":"9"}', b"\xff"])
def test_a_shutdown_marker_may_hold_anything(content):
    assert checkpoints.parse_clean_shutdown(content) is None


def test_an_offset_beyond_int64_is_refused():
    with pytest.raises(bl.errors.CorruptRecordError, match="not an int64"):
        checkpoints.parse_leader_epochs(b"0\n1\n0 9223372036854775808\n")


NAMES = ["x", "with space", " leading", "a=b:c#d!e", "back\\slash", ""]


@pytest.mark.parametrize("cluster_id", NAMES)
@pytest.mark.parametrize("version", [0, 1])
def test_meta_properties_are_read_back_as_java_reads_them(cluster_id, version):
    meta = checkpoints.MetaProperties(
        version=version, cluster_id=cluster_id, node_id=7, directory_id="VxOSAnLfzy4RI5jgcY3wIQ"
    )
    content = checkpoints.format_meta_properties(meta)
    assert content.isascii()
    assert checkpoints.parse_meta_properties(content) == meta
    assert (b"broker.id" in content, b"node.id" in content) == (version == 0, version == 1)


@pytest.mark.parametrize("cluster_id", ["caf\u00e9", "two\nlines"])
def test_an_id_that_kafka_cannot_have_is_not_written(cluster_id):
    meta = checkpoints.MetaProperties(version=1, cluster_id=cluster_id, node_id=7, directory_id=None)
    with pytest.raises(ValueError, match=r"not a cluster\.id"):
        checkpoints.format_meta_properties(meta)


@pytest.mark.parametrize("topic_id", ["", "x", "A" * 22, "A" * 21 + "=", "!" * 22, "A" * 23])
def test_what_is_no_topic_id_is_not_written(topic_id):
    with pytest.raises(ValueError, match="not a topic id"):
        checkpoints.format_partition_metadata(topic_id)
