"""Documents name only what exists: files and functions, verbs and flags, options, make targets."""

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import click
import pytest

from brokerless.checking.codes import CODES
from brokerless.cli.command import _JOBS, cli
from brokerless.remarks import REMARKS

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def text(request):
    return request.param.read_text()


def test_files_and_functions(text):
    for name, function in re.findall(r"`((?:src|rust|tests|examples|tools)/[\w./-]*)(?::([\w.]+))?`", text):
        path = ROOT / name
        assert path.exists(), name
        if function:
            last = function.rpartition(".")[2]
            assert re.search(rf"\b(?:def|class|fn|import .* as) {last}\b", path.read_text()), f"{name}:{function}"
    sources = [str(path) for folder in ("src", "rust", "tests") for path in (ROOT / folder).rglob("*.[pr][ys]")]
    for name, function in re.findall(r"`(?!(?:src/brokerless|rust|tests|tools)/)([\w/]+\.(?:py|rs)):([\w.]+)`", text):
        (path,) = [path for path in sources if path.endswith(f"/{name}") and "/target/" not in path]
        last = function.rpartition(".")[2]
        assert re.search(rf"(?m)\b(?:def|class|fn) {last}\b|^{last}\b", Path(path).read_text()), f"{name}:{function}"


def test_verbs_and_flags(text):
    code = "\n".join(re.findall(r"^ *```.*?^ *```", text, flags=re.MULTILINE | re.DOTALL))
    typed = re.findall(r"^\s*brokerless .*", code, flags=re.MULTILINE)
    for line in typed + re.findall(r"`brokerless .*?`", text):
        command, words = cli, line.strip(" `").split()[1:]
        while isinstance(command, click.Group) and words and words[0] != "VERB" and words[0][0] not in "<.-":
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        flags = {"--help", *(flag for parameter in command.params for flag in parameter.opts)}
        for flag in re.findall(r"(?<=\s)--[\w-]+", line.partition("|")[0]):
            assert flag in flags, line


def test_make_targets(text):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for named in re.findall(r"`make (\w+)`|^make (\w+)", text, flags=re.MULTILINE):
        assert "".join(named) in targets


def test_spark_options():
    from brokerless.spark.source.options import _KNOWN

    guide = (ROOT / "docs/guides/spark.md").read_text()
    tables = re.split(r"^## ", guide, flags=re.MULTILINE)
    rows = [
        row
        for part in tables
        if part.startswith(("Options", "Streams"))
        for row in re.findall(r"(?m)^\| (`.*?) \|", part)
    ]
    named = {name for row in rows for name in re.findall(r"`(.+?)`", row)}
    assert named == set(_KNOWN) - {"paths"}


def test_every_verb_is_in_the_guide_to_the_command_line():
    guide = (ROOT / "docs/guides/cli.md").read_text()
    jobs = dict(part.split("\n", 1) for part in guide.split("\n## ")[1:])
    assert list(jobs) == [*_JOBS, "What holds for all verbs"]
    for job, verbs in _JOBS.items():
        for verb in verbs:
            assert f"[`{verb.name}`](../command-line.md#{verb.name})" in jobs[job], "a recipe links to its options"
    assert "Exit codes:" not in guide, "the help has them, and docs/command-line.md"
    spark = cli.commands["spark"]
    assert isinstance(spark, click.Group)
    assert set(re.findall(r"^brokerless spark (\w+)", guide, flags=re.MULTILINE)) == set(spark.commands)


def test_no_line_is_about_this_machine(text):
    assert not re.search(r"/work/|/tmp/|/root/|/home/", text)


def test_every_refusal_is_listed():
    """With what Kafka calls it: whoever catches an error looks it up there."""
    from brokerless import errors

    def leaves(error):
        return {error.__name__}.union(*(leaves(leaf) for leaf in error.__subclasses__()))

    text = (ROOT / "docs/supported.md").read_text()
    table = text[text.index("### Refused appends") : text.index("### Not as in Kafka")]
    listed = re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE)
    assert sorted(listed) == sorted({*leaves(errors.AppendError), "CorruptRecordError"})


def test_the_layers_are_those_that_are_checked():
    """And every module is in one of them: what is in none may import anything."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers" and "containers" not in one]
    file_map = (ROOT / "ARCHITECTURE.md").read_text().partition("## File map")[2]
    shown = re.search(r"(?:^ {4}\S.*\n)+", file_map, flags=re.MULTILINE)[0]
    assert [line.strip() for line in shown.splitlines()] == [layer.replace("brokerless.", "") for layer in layers]
    package = ROOT / "src" / "brokerless"
    modules = {path.stem for path in package.glob("[!_]*") if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {module for layer in layers for module in layer.replace("brokerless.", "").split(" | ")} == modules


def test_every_guide_is_found():
    nav = (ROOT / "tools/site/mkdocs.yml").read_text()
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    of_the_root = {"changelog.md", "security.md"}
    assert set(re.findall(r"\S+\.md", nav)) == pages | of_the_root


def test_the_findings_are_those_of_the_table():
    made = subprocess.run([sys.executable, ROOT / "tools/findings"], capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/findings.md").read_text() == made, "python tools/findings > docs/findings.md"


def test_the_verbs_are_those_of_the_command():
    made = subprocess.run(
        [sys.executable, ROOT / "tools/command_line"], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/command-line.md").read_text() == made, "python tools/command_line > docs/command-line.md"


@pytest.mark.slow
def test_the_fields_are_those_that_the_verbs_print():
    made = subprocess.run(
        [sys.executable, ROOT / "tools/json_shapes"], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/json.md").read_text() == made, "python tools/json_shapes > docs/json.md"


@pytest.mark.slow
def test_no_sentence_is_the_only_carrier_of_a_fact():
    """A program would have to parse it. A new sentence has to be in `SENTENCES` of tools/json_shapes, with a code."""
    shapes = json_shapes()
    with shapes.samples():
        runs = {(name, command): shapes.rows(command) for name, _, commands in shapes.VERBS for command in commands}
    assert all(runs.values())
    bare = {(command, path) for (name, command), rows in runs.items() for path in shapes.bare_sentences(name, rows)}
    assert bare == set()


def test_a_sentence_alone_is_seen():
    shapes = json_shapes()
    assert list(shapes.bare_sentences("ls", {"hint": "look at the log"})) == ["hint"]
    assert list(shapes.bare_sentences("rescue", {"notes": ["look at the log"]})) == ["notes"]
    assert list(shapes.bare_sentences("rescue", {"notes": [{"message": "look at the log"}]})) == ["notes.message"]
    assert list(shapes.bare_sentences("rescue", {"notes": [{"message": "look at the log", "code": "stray"}]})) == []


def test_each_code_of_a_remark_is_one_of_a_finding_or_has_a_meaning():
    made = set()
    for path in (ROOT / "src/brokerless").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(call, ast.Call)
                and (call_name(call) in ("Remark", "remark", "remark_on", "_note"))
                and call.args
            ):
                code = call.args[0]
                if isinstance(code, ast.Constant) and isinstance(code.value, str) and " " not in code.value:
                    made.add(code.value)
    assert made - REMARKS.keys() - CODES.keys() == set()
    assert "replica-unused" in made
    assert REMARKS.keys() & CODES.keys() == set()


def call_name(call):
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


def json_shapes():
    loader = SourceFileLoader("json_shapes", str(ROOT / "tools/json_shapes"))
    module = module_from_spec(spec_from_loader("json_shapes", loader))
    loader.exec_module(module)
    return module


def test_fields_are_in_snake_case_but_for_those_of_records():
    """The columns of records have the names of Spark's Kafka source."""
    for section in (ROOT / "docs/json.md").read_text().split("\n## ")[1:]:
        name, _, body = section.partition("\n")
        fields = re.findall(r"^\| `([^`]+)` \|", body, re.MULTILINE)
        assert fields
        assert name in ("read", "Codes of remarks") or all(
            re.fullmatch(r"[a-z_.]+", field.replace("NAME", "name")) for field in fields
        ), name


def test_each_verb_has_an_example_whose_fields_are_described():
    for section in (ROOT / "docs/json.md").read_text().split("\n## ")[1:-1]:
        name, _, body = section.partition("\n")
        (shown,) = re.findall(r"^```json\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL)
        assert json.loads(shown).keys() <= {*re.findall(r"^\| `([^`]+)` \|", body, re.MULTILINE)}, name


def test_every_package_names_its_modules():
    """A newcomer finds the file by the package's docstring: none may be missing there, and none be gone."""
    for package in (ROOT / "src/brokerless").rglob("__init__.py"):
        docstring = package.read_text().split('"""')[1]
        if "Modules:" in docstring:
            modules = {path.name for path in package.parent.glob("[!_]*.py")}
            assert set(re.findall(r"\b\w+\.py\b", docstring)) == modules, package


def test_the_architecture_is_a_page_that_is_read_at_once():
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 150


# They are not made by users, and stand under the name of their module.
RETURNED = {
    "rewriting.compact.report.CompactionReport",
    "rewriting.compact.report.SegmentReport",
    "rewriting.convert.ConversionReport",
    "rewriting.erase.ErasureReport",
    "rewriting.retain.RetentionReport",
    "rewriting.truncate.TruncationReport",
    "spark.jobs.export.ExportReport",
    "state.cluster.ClusterState",
    "spark.jobs.export.PartitionReport",
    "spark.jobs.restore.RestoreReport",
}


def test_the_reference_lists_every_public_name_and_what_functions_return():
    import brokerless
    import brokerless.spark

    listed = re.findall(r"^::: brokerless\.(\S+)", (ROOT / "docs/reference.md").read_text(), flags=re.MULTILINE)
    errors = {"errors", "BrokerlessError"}
    public = {*brokerless.__all__, *brokerless._ALSO, *(f"spark.{job}" for job in brokerless.spark.__all__)} - errors
    assert sorted(listed) == sorted({"errors", "testing", *public, *RETURNED})
    for name in RETURNED:
        module, _, returned = f"brokerless.{name}".rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), returned), type)
