"""What a user names to be rewritten, and where a copy of it may go."""

import pytest

import brokerless as bl
from brokerless import Retention, rewrite
from brokerless.rewriting.selection import select_partitions
from support.log_files import NOW, batch

VERB = Retention(retention_bytes=0)


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t", 3)
        for number in range(3):
            log_dir.log("t", number).append(batch(0, [b"v"], timestamp=NOW))
    return tmp_path / "data"


def test_names_that_can_be_gone_through_once(data):
    """Nothing would be done, and nothing said."""
    done = rewrite(VERB, data, topics=iter(["t"]), partitions=iter([1, 2]), dry_run=True)
    assert [result.name for result in done] == ["t-1", "t-2"]


def test_no_path_is_not_nothing_to_do():
    """As a shell's pattern that matched nothing has it."""
    with pytest.raises(ValueError, match="no path: a log directory or a partition directory is needed"):
        select_partitions([], None, None)


def test_a_partition_that_is_a_string_is_not_unknown(data):
    with pytest.raises(TypeError, match="partition: a number is expected, not the string '1'"):
        rewrite(VERB, data, topics=["t"], partitions=["1"], dry_run=True)


@pytest.mark.parametrize("name", ["new", "t-3"])
def test_a_copy_of_a_log_directory_is_not_made_in_one(data, name):
    """A broker would stop at it, or take it for a partition."""
    with pytest.raises(
        ValueError, match=r"data is a log directory. A broker loads the directories in it as partitions"
    ):
        rewrite(VERB, data, topics=["t"], output=data / name)
    assert sorted(path.name for path in data.glob("t-*")) == ["t-0", "t-1", "t-2"]


def test_a_copy_of_a_partition_in_a_log_directory_has_the_name_of_one(data):
    with pytest.raises(ValueError, match="a broker does not start with that name"):
        rewrite(VERB, data / "t-0", output=data / "new")
    rewrite(VERB, data / "t-0", output=data / "t-3")
    assert bl.LogDirs(data).log("t", 3).log_end_offset == 1
