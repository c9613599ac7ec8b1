"""A Spark of its own for a piece of code: one that may be killed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from support.tally import tally

_START = """
import os, sys
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["DRIVER"] = str(os.getpid())
import pyspark
os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
builder = builder.config("spark.python.unix.domain.socket.enabled", "true").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.executor.extraJavaOptions", os.environ["SPARK_SUBMIT_OPTS"])
if os.environ.get("BROKERLESS_JAR"):
    import brokerless.spark
    builder = builder.config("spark.jars", brokerless.spark.jar())
spark = builder.getOrCreate()
PATH = sys.argv[2]
"""


def run(code, path, *, master="local[2]", kill=(), seconds=300):
    """Run code, which knows `spark` and `PATH`; return the finished process.

    `kill` has (what, n, victim): at the n-th call of it, see `killing/sitecustomize.py`.
    """
    lines = [f"{place} {number} {victim} {path}.kill-{index}" for index, (place, number, victim) in enumerate(kill)]
    for _, _, victim in kill:
        tally("killed process", f"Spark, {victim}")
    site = Path(__file__).with_name("killing")
    return _run(code, path, master, site, seconds, KILL="\n".join(lines))


def run_patched(code, path, patch):
    """Run code as `run` does, with tasks that are tried three times; every Python process runs `patch` first."""
    site = path / "site"
    site.mkdir(exist_ok=True)
    (site / "patched.py").write_text(textwrap.dedent(patch))
    (site / "sitecustomize.py").write_text("import patched\n")
    return _run(code, path, "local[2,3]", site, 300)


def _run(code, path, master, site, seconds, **environment):
    places = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", _START + textwrap.dedent(code), master, str(path)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "PYTHONPATH": places, **environment},
    )
