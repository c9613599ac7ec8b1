"""A stand-in for a Spark session, in whose place calls are made in this process; and sessions in one of their own."""

import os
import subprocess
import sys
import textwrap


class Here:
    """Stands in for a session: calls are made in this process, one after the other."""

    def __init__(self, before=None):
        self.made = []
        self.before = before

    @property
    def sparkContext(self):  # noqa: N802
        return self

    def parallelize(self, arguments, slices):
        assert slices == len(arguments)
        return _Calls(self, arguments)


class _Calls:
    def __init__(self, here, arguments):
        self.here, self.arguments = here, arguments

    def map(self, call):
        self.call = call
        return self

    def collect(self):
        results = []
        for argument in self.arguments:
            if self.here.before is not None:
                self.here.before(argument)
            self.here.made.append(argument[0])
            results.append(self.call(argument))
        return results


class FailedError(Exception):
    """A task that fails."""


def failing_at(number):
    def fail(argument):
        if argument[0] == number:
            raise FailedError

    return fail


def run_spark(tmp_path, patch, code):
    """Run code in a Spark of its own, in which all Python processes have the patch."""
    (tmp_path / "site").mkdir(exist_ok=True)
    (tmp_path / "site/patched.py").write_text(textwrap.dedent(patch))
    (tmp_path / "site/sitecustomize.py").write_text("import os\nif 'PATCHED' in os.environ:\n    import patched\n")
    script = f"""
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false").getOrCreate()
{textwrap.dedent(code)}
spark.stop()
"""
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PATCHED": "1"},
    )
