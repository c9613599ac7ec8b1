"""Let the many starts of Spark in tests cost less than half, in the environment whose Python runs this.

Workers import PySpark from site-packages. Spark puts a `pyspark.zip` before it, which has no bytecode: each of the five
or more processes that Python has in a query would compile PySpark again.

The classes that Spark loads are archived (JEP 310) in `spark.jsa`, where `conftest.py` finds it; not with --no-archive.

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
