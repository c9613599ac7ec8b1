"""A directory in which nothing is wrong: no verb finds anything that its broker does not share, at Kafka's defaults."""

import pytest
from fetch import OLDEST
from kafka import DEFAULT, NEWEST, Broker, OldBroker, again

import brokerless as bl
from brokerless.checking.codes import CODES
from brokerless.log_dir.recover import forecast

# The indexes of active segments are preallocated: 10 MiB of zeros, in no whole number of entries of a time index.
DEFAULTS = {"log_index_size_max_bytes": 10 << 20, "offsets_topic_num_partitions": 50}
# What a crash leaves, and what a broker puts in order when it starts.
OF_A_CRASH = {name for name, code in CODES.items() if code.severity == "note"} | {"checkpoint-ahead"}


def written(client, data, release, *, is_killed):
    """Write transactions and commits with a broker, then stop or kill the broker."""
    kind, version = (OldBroker, {}) if release == OLDEST else (Broker, {"version": release})
    broker = kind(data, log=data.with_name("broker.log"), **version, **DEFAULTS)
    try:
        client.create(broker, "t", partitions=2, **{"segment_bytes": 1 << 20} if release == OLDEST else {})
        for _ in range(5):
            client.produce(broker, "t", 0, 100)
        client.produce(broker, "t", 1, 50, mode="commit")
        client.produce(broker, "t", 1, 50, mode="abort")
        client.commit(broker, "g", "t", 0, 5)
        if not is_killed:
            broker.stop()
    finally:
        broker.kill()
    return data


@pytest.mark.parametrize("is_killed", [False, True], ids=["clean", "killed"])
@pytest.mark.parametrize("release", [NEWEST, OLDEST, again(DEFAULT), again("4.0.2"), again("3.9.2")])
def test_nothing_is_found_in_a_healthy_directory(client, tmp_path, release, is_killed):
    data = written(client, tmp_path / "data", release, is_killed=is_killed)
    found = [one for one in bl.check(data, level="deep") if not (is_killed and one.code in OF_A_CRASH)]
    assert found == []
    said = forecast(str(data))
    assert said.is_good
    assert [*said.cuts, *said.missing] == []
    codes = bl.report(data).tables["findings"]["code"].to_pylist()
    assert set(codes) <= (OF_A_CRASH if is_killed else set())
