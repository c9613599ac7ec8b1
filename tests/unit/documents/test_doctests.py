"""The examples in the documentation run, all of them."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import brokerless

PACKAGE = Path(brokerless.__file__).parent
# As the reference says.
SAMPLES = str(Path(__file__).parents[3] / "examples/data")
# By their text: what needs Spark, and has no example, need not be imported.
EXAMPLES = {
    str(path.relative_to(PACKAGE)): count
    for path in sorted(PACKAGE.rglob("*.py*"))
    if path.suffix in (".py", ".pyi") and (count := len(re.findall(r"^ *>>> ", path.read_text(), flags=re.MULTILINE)))
}


def docstrings(name):
    """Return those of a file, with the names that their examples may use."""
    path = Path(name)
    parts = path.parts[:-1] if path.stem == "__init__" else (*path.parts[:-1], path.stem)
    module = importlib.import_module(".".join(("brokerless", *parts)))
    if path.suffix == ".py":
        return doctest.DocTestFinder().find(module, module.__name__)
    # A stub is not imported; what it describes is.
    parser = doctest.DocTestParser()
    return [
        parser.get_doctest(text, vars(module), getattr(node, "name", name), name, None)
        for node in ast.walk(ast.parse((PACKAGE / path).read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node))
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(golden, tmp_path, name):
    runner = doctest.DocTestRunner()
    for number, test in enumerate(docstrings(name)):
        own = tmp_path / str(number)
        own.mkdir()
        test.globs |= {
            "SAMPLE": f"{SAMPLES}/headers-0",
            "SAMPLE_DIR": SAMPLES,
            "CLUSTER_DIR": f"{SAMPLES.removesuffix('data')}incident",
            "REGISTRY_DIR": f"{SAMPLES.removesuffix('data')}registry",
            "NEW": str(own / "new"),
            "NEW_DIR": str(own / "new-dir"),
        }
        runner.run(test)
    # An example where no docstring is looked for would never fail.
    assert (runner.failures, runner.tries) == (0, EXAMPLES[name])


def test_examples_are_found():
    looked_for = {"__init__.py", "_native.pyi", "cli/options.py", "io/remote.py", "log/log.py", "rewriting/run.py"}
    assert looked_for <= EXAMPLES.keys()
