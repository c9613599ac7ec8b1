"""What `import brokerless` offers is found at a prompt, before any of it was imported."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import brokerless as bl
from brokerless import public


@pytest.mark.parametrize("module", ["brokerless", "brokerless.spark"])
def test_completion_finds_names_that_are_not_imported_yet(module):
    script = (
        f"import {module} as found\n"
        "assert not set(found.__all__) & set(vars(found))\n"
        "assert set(found.__all__) | set(vars(found)) <= set(dir(found))\n"
        "assert all(hasattr(found, name) for name in dir(found))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_name_is_one_that_a_caller_types_or_one_of_a_result():
    names = {name for name in vars(public) if not name.startswith("_")}
    assert names == {*bl.__all__, *bl._ALSO}
    assert not {*bl.__all__} & {*bl._ALSO}
    assert all(getattr(bl, name) is getattr(public, name) for name in names)


def test_the_version_is_that_of_the_package(run):
    assert bl.__version__ == version("brokerless")
    said = subprocess.run([sys.executable, "-m", "brokerless", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == run("--version").out == f"brokerless, version {bl.__version__}\n"


def test_sparks_workers_do_not_import_pandas():
    """A query starts several of them, and pandas would take nearly half of the time that their imports take."""
    pytest.importorskip("pyspark")
    script = "import sys, pyspark_brokerless; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    "verb",
    [
        "ls",
        "groups",
        "transactions",
        "retain --topic * --retention-bytes 1000000000 --dry-run",
        "check --deep",
        "report",
    ],
)
def test_verbs_do_not_import_pandas(verb, golden, tmp_path):
    """Where it is installed, `pyarrow.array` imports it: that takes as long as all else of a short command."""
    script = (
        "import atexit, sys\nfrom brokerless.__main__ import process\n"
        "atexit.register(lambda: print('pandas', sys.modules.get('pandas'), file=sys.stderr))\nprocess()"
    )
    name, *flags = verb.split()
    flags += ["--output", tmp_path / "report.html"] if name == "report" else []
    command = [sys.executable, "-c", script, name, golden / "logs/kafka-4.1", *flags]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stderr.endswith("pandas None\n")


@pytest.mark.parametrize("name", ["export", "session"])
def test_what_needs_spark_says_what_to_install(name):
    script = f"import sys; sys.modules['pyspark'] = None; from brokerless.spark import jar, {name}"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert f"ModuleNotFoundError: brokerless.spark.{name} needs PySpark: pip install 'brokerless[spark]'" in said
