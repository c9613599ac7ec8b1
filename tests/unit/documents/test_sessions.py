"""The sessions of guides that change files, typed one after the other in a clone, print what is shown."""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BAD_DAYS = "docs/guides/when-things-fail.md"
# How many commands of ours each page shows at least.
PAGES = {
    BAD_DAYS: 15,
    "docs/guides/cli.md": 17,
    "docs/guides/broker-messages.md": 5,
    "docs/guides/decoding.md": 9,
    "docs/guides/find-it.md": 3,
}
TITLES = [
    "My broker does not start",
    "A disk has errors",
    "We lost the controllers",
    "I have a volume snapshot",
    "Two replicas differ",
    "Production on my laptop",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_sessions_print_what_is_shown(tmp_path, page):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    scripts = sysconfig.get_path("scripts")
    env = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "TZ": "America/New_York", "COLUMNS": "120"}
    text = (ROOT / page).read_text()
    shown = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    count = 0
    for block in shown:
        typed = []
        for command in re.findall(r"^\$ (.*)\n", block, flags=re.MULTILINE):
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode in (0, 1, 3), f"{command}: {done.stderr}"
            typed.append(f"$ {command}\n{done.stdout.replace(str(tmp_path), '/srv')}")
            count += command.startswith("brokerless")
        assert "".join(typed) == block
    assert count >= PAGES[page]


def test_each_problem_of_a_bad_day_has_its_place():
    assert re.findall("^## (.*)", (ROOT / BAD_DAYS).read_text(), flags=re.MULTILINE) == TITLES
