"""The recipes of the guide to serving that need Kafka's programs, Go, kcat or Spark run as they are shown."""

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from clients import HAS_GO
from kafka import SAY_LITTLE, Process, java
from test_serving_tools import MAINS

import brokerless as bl
from support.document_code import blocks, fill
from support.polling import until

GUIDE = "docs/guides/serving.md"
SHOWN = "127.0.0.1:9092"
HERE = Path(__file__).parent
SCRIPTS = {
    "kafka-topics.sh": "topics",
    "kafka-get-offsets.sh": "offsets",
    "kafka-consumer-groups.sh": "groups",
    "kafka-console-consumer.sh": "consumer",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A directory with 3000 records in 2 partitions of `orders`."""
    data = tmp_path_factory.mktemp("guide") / "data"
    fill(data)
    with bl.serve(data) as address:
        yield address


def recipe(language, word, address):
    """Return the block with a word, for this server."""
    (block,) = [block for block in blocks(GUIDE, language) if word in block]
    return block.replace(SHOWN, address)


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def test_kcat(address):
    if not shutil.which("kcat"):
        pytest.skip("NOT TESTED: kcat is missing; install your system's kcat package")
    listed, read = recipe("sh", f"kcat -b {SHOWN}", address).splitlines()
    assert 'topic "orders" with 2 partitions' in run("sh", "-c", listed)[1]
    assert run("sh", "-c", read)[1].count("\n") == 3000


def test_the_console_tools(address):
    said = {}
    for line in recipe("sh", "kafka-topics.sh", address).splitlines():
        script, *arguments = shlex.split(line)
        main = MAINS[SCRIPTS[script]][0]
        _, out, _ = run(*java("4.1.0"), SAY_LITTLE, main, *arguments)
        said[SCRIPTS[script]] = out.splitlines()
    assert "PartitionCount: 2" in said["topics"][0]
    assert sum(int(line.split(":")[2]) for line in said["offsets"]) == 3000
    assert said["consumer"] == ["v"] * 3000


def test_franz_go(address, tmp_path):
    if not HAS_GO:
        pytest.skip("NOT TESTED: franz-go, as Go is missing")
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / name, tmp_path)
    (tmp_path / "main.go").write_text(recipe("go", "kgo", address))
    code, out, error = run("go", "run", ".", cwd=tmp_path, env={**os.environ, "GOFLAGS": "-mod=mod"})
    assert code == 0, error
    assert {line.split()[2] for line in out.splitlines()} == {"v"}


def test_connect(address, tmp_path):
    of_connect = [block for block in blocks(GUIDE, "properties") if "converter" in block or "connector.class" in block]
    for number, block in enumerate(of_connect):
        (tmp_path / f"{number}.properties").write_text(
            block.replace(SHOWN, address)
            .replace("connect.offsets", f"{tmp_path}/connect.offsets")
            .replace("orders.txt", f"{tmp_path}/orders.txt")
        )
    files = tmp_path / "0.properties", tmp_path / "1.properties"
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    connect = Process("4.1.0", main, *files, output=tmp_path / "connect.log")
    try:
        copy = tmp_path / "orders.txt"
        until(lambda: copy.exists() and len(copy.read_text().splitlines()) >= 3000)
        assert copy.read_text().splitlines() == ["v"] * 3000
    finally:
        connect.kill()


def test_sparks_connector(address, tmp_path):
    block = recipe("python", "spark.read", address)
    script = tmp_path / "job.py"
    script.write_text(f"from job_session import session\nspark = session('connector')\n{textwrap.dedent(block)}")
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    code, out, error = run(sys.executable, script, env=environment)
    assert (code, out.split()) == (0, ["3000"]), error
