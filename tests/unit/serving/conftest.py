import pytest

import brokerless as bl
from support.log_files import NOW, batch
from support.served import PARTITIONS


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A directory of a topic with many partitions, `wide`, and of one with a record, `t`."""
    path = tmp_path_factory.mktemp("served") / "data"
    with bl.create_log_dir(path) as log_dir:
        log_dir.create_topic("wide", partitions=PARTITIONS)
        log_dir.create_topic("t")
        log_dir.log("t", 0).append(batch(0, [b"v" * 100_000], timestamp=NOW))
    return path
