"""Make Spark start faster in the tests of one environment: run this with its Python.

Python workers then import PySpark from site-packages. By default they import it from `pyspark.zip`, which has no
bytecode, so each of the five or more Python processes of a query compiles PySpark again.

The classes that Spark loads are archived in `spark.jsa` (JEP 310), and `conftest.py` passes it to Spark. With
--no-archive, they are not.

Usage: quick_start.py [--no-archive]
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(sys.prefix) / "spark.jsa"
PATH = Path(sysconfig.get_path("purelib")) / "pyspark_without_zip.pth"
WITHOUT_ZIP = 'import sys; sys.path[:] = [path for path in sys.path if not path.endswith("/pyspark.zip")]\n'
# The JVM ends when the script's input does, and the archive is written then.
SCRIPT = """
import runpy, sys, tempfile
from pyspark import SparkContext
with tempfile.TemporaryDirectory() as output:
    sys.argv = ["demo.py", "examples/data", output]
    runpy.run_path("examples/demo.py", run_name="__main__")
SparkContext._gateway.proc.stdin.close()
SparkContext._gateway.proc.wait()
"""


def archive():
    """Run the demo in a JVM that archives what it has loaded."""
    ARCHIVE.unlink(missing_ok=True)
    options = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:cds=off,cds+dynamic=off"
    )
    environment = os.environ | {"SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if not ARCHIVE.exists():
        # Tests run without it, only slower.
        sys.stderr.write(f"note: no archive of Spark's classes: {ended.stderr}\n")


if __name__ == "__main__":
    PATH.write_text(WITHOUT_ZIP)
    if sys.argv[1:] != ["--no-archive"]:
        archive()
