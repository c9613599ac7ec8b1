"""Archive the classes that Spark loads (JEP 310), for the many that tests start: it halves what a start costs.

Usage: archive.py   The archive is in this environment, `conftest.py` finds it there.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(sys.prefix) / "spark.jsa"
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


def main():
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
    main()
