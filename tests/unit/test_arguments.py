"""Arguments that several public functions have mean the same in each."""

import inspect

import pytest

import brokerless as bl
import brokerless.spark

# What a function needs besides a directory, to get as far as its topics.
_OTHERS = {
    "compare": lambda path: (path, path),
    "rewrite": lambda path: (bl.Retention(retention_ms=1), path),
    "spark.export": lambda path: (None, path, path / "new"),
    "spark.restore": lambda path: (None, path, path / "new"),
    "spark.rewrite": lambda path: (None, bl.Retention(retention_ms=1), path),
}


def _functions():
    """Yield the public functions that take topics, each with its name."""
    named = [(name, getattr(bl, name)) for name in bl.__all__]
    named += [(f"LogDirs.{name}", method) for name, method in vars(bl.LogDirs).items() if not name.startswith("_")]
    if pytest.importorskip("pyspark"):
        named += [(f"spark.{name}", getattr(brokerless.spark, name)) for name in brokerless.spark.__all__]
    for name, function in named:
        if inspect.isfunction(function) and "topics" in inspect.signature(function).parameters:
            yield name, function


def _arguments(name, path):
    if name in _OTHERS:
        return _OTHERS[name](path)
    if name.startswith("LogDirs."):
        return (bl.LogDirs(path),)
    return (None, path) if name.startswith("spark.") else (path,)


def _begin(found):
    """Begin what a generator, or a context manager, does later."""
    found.__enter__() if hasattr(found, "__enter__") else next(found)


def test_no_function_takes_an_empty_list_of_topics_for_all_or_for_none(tmp_path):
    """A search that found no topic erased in none, repaired none and exported all, with no word about it."""
    path = tmp_path / "data"
    with bl.Producer(path, "orders") as producer:
        producer.send([{"value": b"v"}])
    names = set()
    for name, function in _functions():
        names.add(name)
        dry = {"dry_run": True} if "dry_run" in inspect.signature(function).parameters else {}
        for topics in ([], (), iter([])):
            with pytest.raises(ValueError, match="the list is empty; None selects all"):
                _begin(function(*_arguments(name, path), topics=topics, **dry))
    assert {"check", "rewrite", "LogDirs.logs", "spark.export"} <= names


# What a function takes before its paths.
_FIRST = {
    "register_duckdb": (None,),
    "rewrite": (bl.Retention(retention_ms=1),),
    "spark.rewrite": (None, bl.Retention(retention_ms=1)),
}


def _with_paths():
    named = [(name, getattr(bl, name)) for name in bl.__all__]
    named += [(f"spark.{name}", getattr(brokerless.spark, name)) for name in brokerless.spark.__all__]
    for name, function in named:
        if not (inspect.isroutine(function) or function is bl.LogDirs):
            continue
        several = [one for one in inspect.signature(function).parameters.values() if one.kind == one.VAR_POSITIONAL]
        if several:
            yield name, function


@pytest.mark.parametrize("paths", [["a", "b"], ("a",), {"a"}, None], ids=repr)
def test_a_list_of_paths_is_no_path(paths):
    names = set()
    for name, function in _with_paths():
        names.add(name)
        own = name.rpartition(".")[2]
        others = (*_FIRST.get(name, (None,) if name.startswith("spark.") else ()), paths)
        needed = {"output": "new"} if name == "rescue" else {}
        with pytest.raises(TypeError, match=f"^{own} takes paths as separate arguments: {own}\\(\\*paths\\), not "):
            _begin(function(*others, **needed))
    assert {"check", "LogDirs", "rescue", "rewrite", "serve", "report", "spark.check", "spark.report"} <= names
