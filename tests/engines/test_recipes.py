"""The recipes for engines print what is shown, and the notebooks run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guides/engines.md"


def recipes():
    """Return the name and the code of each recipe, which begins with the code of the page's introduction."""
    first, *others = re.split(r"^## (.*)\n", PAGE.read_text(), flags=re.MULTILINE)
    return [(name, first + text) for name, text in zip(others[::2], others[1::2], strict=True)]


@pytest.mark.parametrize(("name", "text"), recipes(), ids=[name for name, _ in recipes()])
def test_a_recipe_prints_what_is_shown(tmp_path, name, text):
    """In a process of its own: Daft works in Ray's, once that has been started."""
    session = tmp_path / f"{name}.txt"
    session.write_text("".join(re.findall(r"^```pycon\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)))
    assert session.read_text().count(">>>") > 5
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "doctest", session]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_engine_of_the_page_is_run():
    assert [name for name, _ in recipes()] == ["DataFusion", "Dask", "Ray", "Daft"]


@pytest.mark.parametrize("notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_runs(notebook):
    import nbformat
    from nbclient import NotebookClient

    found = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in found.cells), "a notebook is stored without its outputs"
    client = NotebookClient(found, timeout=120, kernel_name="python3", resources={"metadata": {"path": ROOT}})
    client.execute()
    shown = [output for cell in found.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert not any(output["output_type"] == "error" for output in shown)
    assert os.fspath(ROOT) not in notebook.read_text()
