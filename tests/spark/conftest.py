"""One Spark session for all tests, in the settings that our documentation gives."""

import contextlib
import importlib
import os
import shutil
import sys

import pytest

pyspark = pytest.importorskip("pyspark")


def pytest_collection_modifyitems(items):
    """Spark's processes have the environment of the moment when the first session starts: that of the object store."""
    items.sort(key=lambda item: item.path.name != "test_object_store.py")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    from brokerless.spark import jar

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark names the host it listens on; in a sandbox the machine's own name may lead nowhere.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    if os.environ.get("BROKERLESS_JAR"):
        builder = builder.config("spark.jars", jar())
    session = (
        builder.master("local[2]")
        .appName("brokerless tests")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def load(spark):
    """Return a function that loads a path with options."""

    def load(path, schema=None, **options):
        reader = spark.read.format("brokerless").option("path", str(path))
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def topics(golden, tmp_path):
    """Three topics in a log directory of their own."""
    for name in ("codec-mixed-0", "codec-none-0", "codec-zstd-0"):
        shutil.copytree(golden / "logs/kafka-4.1" / name, tmp_path / "d" / name)
    return tmp_path / "d"


@pytest.fixture
def run(spark, monkeypatch, capfd):
    """Return a function that runs `brokerless spark` in the tests' session; it returns exit code, stdout and stderr."""
    from brokerless.cli import main
    from support.verbs import check_code

    session = importlib.import_module("brokerless.cli.spark.session")
    monkeypatch.setattr(session, "_session", lambda _settings: contextlib.nullcontext(spark))

    def run(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main(["spark", *map(str, arguments)])
        captured = capfd.readouterr()
        check_code(("spark", *arguments), exited.value.code)
        return exited.value.code, captured.out, captured.err

    return run
