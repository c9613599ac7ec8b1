"""What `import brokerless` offers is found at a prompt, before any of it was imported."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["brokerless", "brokerless.spark"])
def test_completion_finds_names_that_are_not_imported_yet(module):
    script = (
        f"import {module} as found\n"
        "assert not set(found.__all__) & set(vars(found))\n"
        "assert set(found.__all__) | set(vars(found)) <= set(dir(found))\n"
        "assert all(hasattr(found, name) for name in dir(found))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
