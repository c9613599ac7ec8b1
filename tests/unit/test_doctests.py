"""The examples in the documentation run."""

import doctest
import importlib
import pkgutil

import pytest

import brokerless
import brokerless.log

MODULES = [
    "brokerless",
    *(f"brokerless.{name}" for name in ("errors", "storage", "disk", "kraft", "log_dir", "producer", "rewriting")),
    *(f"brokerless.log.{module.name}" for module in pkgutil.iter_modules(brokerless.log.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(golden, tmp_path, name):
    module = importlib.import_module(name)
    sample = str(golden / "logs" / "kafka-4.1" / "preallocated-0")
    samples = {
        "SAMPLE": sample,
        "SAMPLE_DIR": str(golden / "logs" / "kafka-2.8-mixed-before-compaction"),
        "NEW": str(tmp_path / "new"),
        "NEW_DIR": str(tmp_path / "new-dir"),
    }
    globs = vars(module) | samples
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(module, name, extraglobs=globs):
        runner.run(test)
    assert runner.failures == 0
