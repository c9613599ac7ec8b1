"""A real server of the S3 protocol holds the logs: they are read, checked and planned there as on a disk."""

import socket
import subprocess
import time

import pyarrow as pa
import pytest
from kafka import BUILD, JAVA, free_ports

import brokerless as bl
from support.consumer import consume

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

WAIT_SECONDS = 60


def answers(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory):
    """An S3 server with an empty bucket, `logs`."""
    (port,) = free_ports(1)
    place = tmp_path_factory.mktemp("s3")
    (place / "data" / "logs").mkdir(parents=True)
    settings = {
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.identity": "key",
        "s3proxy.credential": "secret",
        "jclouds.provider": "filesystem-nio2",
        "jclouds.identity": "x",
        "jclouds.credential": "x",
        "jclouds.filesystem.basedir": place / "data",
    }
    (place / "conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    main = ["-cp", f"{BUILD / 's3' / 'lib'}/*", "org.gaul.s3proxy.Main", "--properties", str(place / "conf")]
    with (place / "said").open("wb") as said:
        server = subprocess.Popen([*JAVA, *main], stdout=said, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not answers(port):
            assert server.poll() is None, (place / "said").read_text()
            assert time.monotonic() < deadline, (place / "said").read_text()
            time.sleep(0.1)
        yield settings["s3proxy.endpoint"]
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def url(endpoint, golden):
    """The golden logs of a broker in the bucket, reached by what the environment says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FSSPEC_S3_KEY", "key")
        patch.setenv("FSSPEC_S3_SECRET", "secret")
        patch.setenv("FSSPEC_S3_ENDPOINT_URL", endpoint)
        # This server does not know the newest checksums of the protocol.
        for way in ("REQUEST_CHECKSUM_CALCULATION", "RESPONSE_CHECKSUM_VALIDATION"):
            patch.setenv(f"AWS_{way}", "when_required")
        import fsspec
        from fsspec.config import conf, set_conf_env

        set_conf_env(conf)
        fsspec.filesystem("s3").put(str(golden / "logs" / "kafka-4.1"), "logs/data", recursive=True)
        yield "s3a://logs/data"
        conf.pop("s3")


def test_every_log_reads_as_on_a_disk(url, golden):
    there, here = bl.LogDirs(url), bl.LogDirs(golden / "logs" / "kafka-4.1")
    assert there.topics() == here.topics()
    for log in here.logs():
        found = there.log(log.topic, log.partition)
        for level in ("read_uncommitted", "read_committed"):
            rows = [batch.to_pylist() for batch in found.read(isolation_level=level)]
            assert rows == [batch.to_pylist() for batch in log.read(isolation_level=level)], log.name


def test_an_error_names_the_missing_object(url):
    with pytest.raises(OSError, match=r"s3://logs/nothing"):
        bl.LogDirs("s3://logs/nothing")


def test_a_client_of_kafka_reads_there(url, golden):
    with bl.serve(url) as there, bl.serve(golden / "logs" / "kafka-4.1") as here:
        for topic in bl.LogDirs(golden / "logs" / "kafka-4.1").topics():
            if not topic.startswith("__"):
                assert consume(there, topic, "read_committed") == consume(here, topic, "read_committed"), topic


def test_an_export_there_comes_back(url, golden, spark, tmp_path):
    from brokerless.spark import export, restore

    to = "s3a://logs/exported"
    found = export(spark, url, to, options={"minPartitions": "3"})
    assert export(spark, url, to, options={"minPartitions": "3"}).partitions == found.partitions
    with pytest.raises(ValueError, match="has another export"):
        export(spark, url, to, compression="snappy")
    restore(spark, to, str(tmp_path / "d"))
    for log in bl.LogDirs(tmp_path / "d").logs():
        expected = bl.LogDirs(golden / "logs" / "kafka-4.1").log(log.topic, log.partition)
        columns = ["offset", "key", "value", "headers", "timestamp"]
        assert pa.table(log.read(columns=columns)) == pa.table(expected.read(columns=columns)), log.name


def test_spark_reads_it_by_its_url(url, golden, spark):
    def rows(path):
        loaded = spark.read.format("brokerless").option("path", str(path)).option("includeHeaders", "true").load()
        return sorted(map(repr, loaded.collect()))

    assert rows(url) == rows(golden / "logs" / "kafka-4.1")
