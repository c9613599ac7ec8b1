"""What runs in a release changes only after a review by those who answer for what is published."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IN_A_RELEASE = [
    *(f".github/workflows/{name}.yml" for name in ("release", "wheels", "full")),
    ".github/actions/setup/action.yml",
    ".cargo/config.toml",
    "Makefile",
    "Cargo.toml",
    "Cargo.lock",
    "constraints.txt",
    "deny.toml",
    "pyproject.toml",
    "rust/python/build.rs",
    "rust/core/Cargo.toml",
    *(f"tools/{name}.py" for name in ("build_backend", "cargo", "jar", "kept", "native", "published_readme", "wheels")),
    *(f"tools/{name}" for name in ("release", "third_party", "installed", "step", "prerequisites")),
    *(f"tools/ignored_advisories{suffix}" for suffix in ("", ".txt")),
    "tools/requirements/wheels.txt",
]


def owner(name):
    """Return who owns a file: the last rule that matches it decides."""
    found = None
    for line in (ROOT / ".github/CODEOWNERS").read_text().splitlines():
        if not line.startswith("#"):
            pattern, found_here = line.split()
            pattern = pattern.removeprefix("/")
            if pattern == "*" or fnmatch(name, pattern + "*" if pattern.endswith("/") else pattern):
                found = found_here
    return found


@pytest.mark.parametrize("name", IN_A_RELEASE)
def test_what_runs_in_a_release_has_its_owners(name):
    assert (ROOT / name).exists()
    assert owner(name) == "@brokerless/security"


def test_every_rule_is_of_something_that_exists():
    rules = [line.split()[0] for line in (ROOT / ".github/CODEOWNERS").read_text().splitlines() if line[0] != "#"]
    assert [rule for rule in rules if not list(ROOT.glob(rule.strip("/")))] == []
    assert owner("src/brokerless/log/log.py") == "@brokerless/maintainers"
    assert owner("rust/core/src/lib.rs") == "@brokerless/core"
