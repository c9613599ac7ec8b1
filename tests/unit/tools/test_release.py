"""A tag that is not the version of its commit publishes nothing, and a step that fails leaves nothing half done."""

import hashlib
import importlib.machinery
import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
TOOL, RELIABILITY, PUBLISHED = (str(TOOLS / name) for name in ("release", "reliability", "published_readme.py"))


def load(tool):
    loader = importlib.machinery.SourceFileLoader("release", str(tool))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def release(tmp_path, monkeypatch):
    module = load(TOOL)
    for name, file, text in (
        ("CARGO", "Cargo.toml", '[workspace.package]\nversion = "1.2.0"\n'),
        (
            "CHANGELOG",
            "CHANGELOG.md",
            "# Changelog\n\n## [1.2.0] - 2026-01-02\n\n- New.\n\n## [1.1.0] - unreleased\n\n- Old.\n",
        ),
    ):
        (tmp_path / file).write_text(text)
        monkeypatch.setattr(module, name, tmp_path / file)
    monkeypatch.setattr(module, "check_reliability", lambda: None)
    return module


def test_the_tag_of_the_version_is_right(release):
    release.check_tag("v1.2.0")


def test_a_version_between_two_releases_has_no_tag(release):
    release.CARGO.write_text('[workspace.package]\nversion = "1.2.0-dev.0"\n')
    with pytest.raises(SystemExit, match=r"the tag is v1\.2\.0, but the version in Cargo\.toml is 1\.2\.0-dev\.0"):
        release.check_tag("v1.2.0")
    with pytest.raises(SystemExit, match=r"has no section for 1\.2\.0-dev\.0"):
        release.check_tag("v1.2.0-dev.0")


@pytest.mark.parametrize("name", ["v1.2.1", "1.2.0", "v1.2.0-rc1", "v"])
def test_another_tag_is_refused(release, name):
    with pytest.raises(SystemExit, match=f"the tag is {name}, but the version in Cargo.toml is 1.2.0"):
        release.check_tag(name)


def test_a_version_without_a_date_or_a_section_is_refused(release):
    release.CARGO.write_text('[workspace.package]\nversion = "1.1.0"\n')
    with pytest.raises(SystemExit, match=r"has no date for 1\.1\.0"):
        release.check_tag("v1.1.0")
    release.CARGO.write_text('[workspace.package]\nversion = "1.0.0"\n')
    with pytest.raises(SystemExit, match=r"has no section for 1\.0\.0"):
        release.check_tag("v1.0.0")


PROJECT = Path(TOOL).parents[1].joinpath("pyproject.toml").read_text()
TOWNCRIER = PROJECT[PROJECT.index("[tool.towncrier]") :]
VERSION = '[workspace.package]\nversion = "1.1.1-dev.0"\n'
LOCK = 'version = 4\n\n[[package]]\nname = "a"\nversion = "{}"\n'
FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["a"]\nexclude = ["rust/fuzz"]\nresolver = "3"\n' + VERSION,
    "Cargo.lock": LOCK.format("1.1.1-dev.0"),
    "a/Cargo.toml": '[package]\nname = "a"\nedition = "2024"\nversion.workspace = true\n',
    "a/src/lib.rs": "",
    "rust/fuzz/Cargo.toml": '[package]\nname = "f"\nedition = "2024"\n[workspace]\n'
    '[dependencies]\na = { path = "../../a" }\n',
    "rust/fuzz/Cargo.lock": LOCK.format("1.1.1-dev.0")
    + '\n[[package]]\nname = "f"\nversion = "0.0.0"\ndependencies = [\n "a",\n]\n',
    "rust/fuzz/src/lib.rs": "",
    "CHANGELOG.md": "# Changelog\n\n<!-- towncrier -->\n\n## [1.1.0] - 2026-01-02\n\n- Old.\n",
    ".github/allowed_signers": "a ssh-ed25519 AAAA\n",
    "changes/README.md": "Fragments.\n",
    "changes/+new.added.md": "A new verb.\n",
    "changes/+old.fixed.md": "A fault less.\n",
}


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout


def state(root):
    """Return all that `prepare` could leave changed: the commit, the index, and every file."""
    left_out = {".git", "__pycache__"}
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and left_out.isdisjoint(path.parts)}
    return git(root, "rev-parse", "HEAD"), git(root, "write-tree"), git(root, "status", "--porcelain"), files


PAGE = """# Reliability

This page shows what the tests of brokerless tried, and how often, in one run of
`make reliability CHECKS="test"` on the commit {commit}.
It ended on 2026-01-02. *Held* counts the cases in tests that did not fail: a failure shows as fewer held than tried.

| what | tried | held | command |
| --- | ---: | ---: | --- |
{kinds}
| [Damaged logs](#damaged-logs) | {tried} | {held} | `make test-python` |

| case | tried | held |
| --- | ---: | ---: |
| one log, with each verb | 47 | {kind_held} |

| folder | passed | failed | skipped |
| --- | ---: | ---: | ---: |
| `tests/conformance` | 665 | 0 | 0 |
| `tests/crash` | 92 | 0 | 0 |
| `tests/spark` | 512 | 0 | 0 |
| `tests/unit` | {passed} | {failed} | 12 |
"""
FAILED_TEST = "\nThese tests failed:\n\n- `tests/unit/test_a.py::test_b[0]`\n"


def reliable(root, *, end="", without="", **values):
    """Commit the page of a run of tests on the commit that is checked out."""
    values = {
        "commit": git(root, "rev-parse", "--short=10", "HEAD").strip(),
        "tried": "1,347",
        "held": "1,347",
    } | values
    (root / "docs").mkdir(exist_ok=True)
    titles = [kind.title for kind in load(RELIABILITY).KINDS if kind.title not in ("Damaged logs", without)]
    kinds = "\n".join(f"| [{title}](#a) | 3 | 3 | `make test` |" for title in titles)
    values = {"kinds": kinds, "kind_held": "47", "passed": "7,129", "failed": "0"} | values
    (root / "docs/reliability.md").write_text(PAGE.format(**values) + end)
    git(root, "add", "docs")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "Test")


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout"
    settings = '[project.urls]\nSource = "https://example.com"\n' + TOWNCRIER
    for name, text in (FILES | {"pyproject.toml": settings, ".gitignore": "__pycache__/\n"}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tools").mkdir()
    for tool in (TOOL, RELIABILITY, PUBLISHED):
        shutil.copy(tool, root / "tools")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", root)
    for setting in ("user.name=a", "user.email=a@example.com", "commit.gpgsign=false"):
        git(root, "config", *setting.split("="))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "init", "--quiet", "--bare", tmp_path / "origin.git")
    git(root, "remote", "add", "origin", str(tmp_path / "origin.git"))
    reliable(root)
    push(root)
    return root


def push(root, *names):
    git(root, "push", "--quiet", "--force", "origin", "main", *names)


@pytest.fixture
def prepared(checkout, monkeypatch):
    """The tool in a checkout, with programs that change what the real ones change."""
    module = load(checkout / "tools/release")

    def run(program, *arguments):
        if program == "cargo":
            if arguments[0] == "fetch":
                return
            lock = (checkout / arguments[-1]).with_name("Cargo.lock")
            lock.write_text(re.sub('(?<="a"\nversion = ).*', f'"{module.version_here()}"', lock.read_text()))
            return
        assert program == "towncrier"
        changelog = checkout / "CHANGELOG.md"
        changelog.write_text(
            changelog.read_text().replace("-->\n", "-->\n\n## [1.2.0] - 2026-02-03\n\n- A new verb.\n")
        )
        git(checkout, "add", "CHANGELOG.md")
        git(checkout, "rm", "--quiet", "changes/+new.added.md", "changes/+old.fixed.md")

    monkeypatch.setattr(module, "run", run)
    return module


def test_prepare_commits_the_version_the_locks_and_the_changelog(checkout, prepared):
    prepared.prepare("1.2.0")
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "log", "-1", "--format=%s") == "Release 1.2.0\n"
    assert set(git(checkout, "diff", "--name-only", "HEAD~").split()) == {
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "changes/+new.added.md",
        "changes/+old.fixed.md",
        "rust/fuzz/Cargo.lock",
    }


def test_the_version_between_two_releases_follows_the_newest_one(checkout, prepared, capsys):
    prepared.begin()
    assert capsys.readouterr().out == "the version is 1.1.1-dev.0, which is later than each release\n"
    assert git(checkout, "log", "-1", "--format=%s") == "Test\n"
    prepared.prepare("1.2.0")
    prepared.begin()
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "log", "-2", "--format=%s") == "Begin 1.2.1-dev.0\nRelease 1.2.0\n"
    changed = ["Cargo.lock", "Cargo.toml", "rust/fuzz/Cargo.lock"]
    assert git(checkout, "diff", "--name-only", "HEAD~").split() == changed
    assert all((checkout / name).read_text().count('"1.2.1-dev.0"') == 1 for name in changed)
    # After a patch of this release, and not after one of an older release.
    changelog = checkout / "CHANGELOG.md"
    for patch, version in (("1.1.1", "1.2.1-dev.0"), ("1.2.1", "1.2.2-dev.0")):
        changelog.write_text(changelog.read_text() + f"\n## [{patch}] - 2026-03-01\n")
        git(checkout, "commit", "--quiet", "--all", "--message", "Merge")
        prepared.begin()
        assert prepared.version_here() == version


def test_nothing_begins_before_the_first_release_or_with_changes(checkout, prepared):
    write(checkout, "CHANGELOG.md", "# Changelog\n\n## [1.1.1] - unreleased\n")
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no release yet: run tools/release prepare VERSION first"):
        prepared.begin()
    (checkout / "other").write_text("new")
    with pytest.raises(SystemExit, match="the checkout has changes: commit them first"):
        prepared.begin()


@pytest.mark.parametrize("step", ["the lock file", "the lock file of the fuzz targets", "the index"])
def test_a_beginning_that_fails_changes_nothing(checkout, prepared, monkeypatch, step):
    prepared.prepare("1.2.0")
    before = state(checkout)
    name, arguments = STEPS[step]
    fail_after(prepared, monkeypatch, name, KeyboardInterrupt(), with_arguments=arguments)
    with pytest.raises(KeyboardInterrupt):
        prepared.begin()
    assert state(checkout) == before


def test_the_version_of_this_clone_is_that_of_a_release_or_of_what_follows_all():
    module = load(TOOL)
    version, dates = module.version_here(), module.sections()
    number, _, development = version.partition("-")
    if development:
        assert development == "dev.0"
        assert dates.get(number, "unreleased") == "unreleased"
        dates.pop(number, None)
        assert all(module.numbers(number) > module.numbers(other) for other in dates)
    else:
        assert dates[number] != "unreleased"
        fragments = sorted(path.name for path in Path(TOOL).parents[1].glob("changes/+*"))
        assert not fragments, "changes after a release: run tools/release begin"


def fail_after(module, monkeypatch, name, error, *, with_arguments=()):
    """Make a function of the tool fail after its work."""
    works = getattr(module, name)

    def fails(*arguments):
        said = works(*arguments)
        if set(with_arguments) <= set(arguments):
            raise error
        return said

    monkeypatch.setattr(module, name, fails)


STEPS = {
    "the lock file": ("run", ("cargo", "Cargo.toml")),
    "the lock file of the fuzz targets": ("run", ("cargo", "rust/fuzz/Cargo.toml")),
    "the changelog": ("run", ("towncrier",)),
    "the notes": ("notes", ()),
    "the index": ("git", ("add",)),
}


def test_each_title_of_the_changelog_has_a_target_which_the_notes_leave_out(checkout, prepared):
    prepared.link("1.1.0")
    git(checkout, "commit", "--quiet", "--all", "--message", "Link")
    prepared.prepare("1.2.0")
    text = (checkout / "CHANGELOG.md").read_text()
    page = "https://github.com/brokerless/brokerless/releases/tag"
    assert text.endswith(f"- Old.\n\n[1.2.0]: {page}/v1.2.0\n[1.1.0]: {page}/v1.1.0\n")
    assert prepared.notes("1.2.0") == "- A new verb."
    assert prepared.notes("1.1.0") == "- Old."
    prepared.link("1.2.0")
    assert (checkout / "CHANGELOG.md").read_text() == text


def test_the_changelog_of_this_clone_has_a_target_for_each_title():
    text = Path(TOOL).parents[1].joinpath("CHANGELOG.md").read_text()
    assert re.findall(r"(?m)^## \[(.+?)\]", text) == re.findall(r"(?m)^\[(.+?)\]: https://", text)


@pytest.mark.parametrize("error", [SystemExit, OSError, KeyboardInterrupt])
@pytest.mark.parametrize("step", STEPS)
def test_a_preparation_that_fails_changes_nothing(checkout, prepared, monkeypatch, step, error):
    before = state(checkout)
    name, arguments = STEPS[step]
    fail_after(prepared, monkeypatch, name, error(), with_arguments=arguments)
    with pytest.raises(error):
        prepared.prepare("1.2.0")
    assert state(checkout) == before


def test_a_commit_that_is_refused_changes_nothing(checkout, prepared):
    hook = checkout / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    before = state(checkout)
    with pytest.raises(SystemExit, match="git commit --quiet failed: no"):
        prepared.prepare("1.2.0")
    assert state(checkout) == before


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.2", "1.2 is no version"),
        ("01.2.0", "01.2.0 is no version: expected three numbers without leading zeros, such as 1.2.0"),
        ("1.1.0", "has 1.1.0 already"),
        ("1.0.0", "the tag v1.0.0 exists"),
        *(
            (version, f"{version} does not follow 1.1.0: expected 1.1.1, 1.2.0 or 2.0.0")
            for version in ("1.0.9", "1.1.2", "1.2.1", "1.3.0", "2.1.0", "3.0.0", "0.1.0")
        ),
    ],
)
def test_a_version_that_cannot_be_is_refused(checkout, prepared, version, message):
    # As another maintainer has pushed it.
    git(checkout, "tag", "--annotate", "v1.0.0", "--message", "x")
    push(checkout, "v1.0.0")
    git(checkout, "tag", "--delete", "v1.0.0")
    before = state(checkout)
    with pytest.raises(SystemExit, match=message):
        prepared.prepare(version)
    assert state(checkout) == before


def test_a_version_follows_the_newest_release_of_the_changelog(checkout, prepared):
    changelog = checkout / "CHANGELOG.md"
    begun = "## [{}] - unreleased\n\n- New.\n"
    # A first release has the version that its section says.
    changelog.write_text(begun.format("0.1.0"))
    prepared.check_next("0.1.0")
    with pytest.raises(SystemExit, match=r"has the section 0\.1\.0, which is unreleased"):
        prepared.check_next("1.0.0")
    # As after the merge of a patch of an older release: its section is not the newest.
    changelog.write_text("## [1.9.1] - 2026-03-01\n\n## [1.10.0] - 2026-02-01\n")
    for version in ("1.10.1", "1.11.0", "2.0.0"):
        prepared.check_next(version)
    changelog.write_text(begun.format("1.11.0") + "\n## [1.10.0] - 2026-02-01\n")
    prepared.check_next("1.11.0")
    with pytest.raises(SystemExit, match=r"has the section 1\.11\.0, which is unreleased"):
        prepared.check_next("1.10.1")


@pytest.mark.parametrize("name", ["+oops.fix.md", "+up.Fixed.md", "noplus.fixed.md", "+dir/+a.fixed.md", "+ä.fix.md"])
def test_a_fragment_with_a_wrong_name_is_refused(checkout, prepared, name):
    git(checkout, "update-ref", "refs/remotes/origin/main", "HEAD")
    write(checkout, f"changes/{name}")
    before = state(checkout)
    for refuses in (prepared.check_fragment, lambda: prepared.prepare("1.2.0")):
        with pytest.raises(SystemExit, match=f"wrong names: changes/{re.escape(name)}. .*KIND is added, .*security"):
            refuses()
    assert state(checkout) == before


def test_fragments_with_right_names_are_accepted(checkout):
    write(checkout, "changes/+kafka-4.5.added.md")
    load(checkout / "tools/release").check_names_of_fragments()
    load(TOOL).check_names_of_fragments()


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({"end": FAILED_TEST}, r"lists failed tests: tests/unit/test_a\.py::test_b\[0\]\n.*make reliability"),
        ({"held": "1,327"}, r"shows failures, .*: .*Damaged logs.* 1,347 1,327"),
        ({"held": "0", "tried": "0"}, "what was not tried: .*Damaged logs.* 0 0"),
        ({"kind_held": "46"}, "shows failures, .*: one log, with each verb 47 46"),
        ({"failed": "1"}, "shows failures, .*: `tests/unit` 7,129 1 12"),
        ({"without": "Real brokers"}, "shows nothing of Real brokers"),
        ({"passed": "0"}, "shows nothing of tests/unit"),
        ({"commit": "main"}, "names no commit"),
        ({"commit": "0123456789"}, "the commit 0123456789, which this clone lacks: run `git fetch`"),
    ],
)
def test_a_release_whose_tests_failed_is_refused(checkout, prepared, page, message):
    reliable(checkout, **page)
    before = state(checkout)
    with pytest.raises(SystemExit, match=message):
        prepared.prepare("1.2.0")
    assert state(checkout) == before


def test_all_faults_of_the_page_are_shown_at_once(checkout, prepared):
    reliable(checkout, held="1,327", without="Real brokers", end=FAILED_TEST, commit="0123456789")
    with pytest.raises(SystemExit) as refused:
        prepared.prepare("1.2.0")
    faults = [line for line in str(refused.value).splitlines() if line.startswith("- ")]
    assert [line.split()[2] for line in faults] == ["lists", "shows", "shows", "is"]


@pytest.mark.parametrize(
    "name",
    ["src/brokerless/a.py", "rust/core/src/a.rs", "java/A.java", "tools/native.py", "tools/requirements/wheels.txt"],
)
def test_a_release_of_code_that_was_not_tested_is_refused(checkout, prepared, name):
    write(checkout, name)
    with pytest.raises(SystemExit, match=f"the code has changed since: {name}\n.*run `make reliability`"):
        prepared.prepare("1.2.0")
    reliable(checkout)
    prepared.prepare("1.2.0")
    prepared.check_tag("v1.2.0")
    write(checkout, name, "after the preparation")
    with pytest.raises(SystemExit, match=f"the code has changed since: {name}"):
        prepared.check_tag("v1.2.0")


OF_OTHERS = '\n[[package]]\nname = "b"\nversion = "3.0.0"\nsource = "registry"\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Cargo.lock", LOCK.format("1.1.1-dev.0") + OF_OTHERS),
        ("Cargo.toml", FILES["Cargo.toml"] + "\n[profile.release]\nlto = true\n"),
        (
            "pyproject.toml",
            '[project]\nurls.Source = "https://example.com"\ndependencies = ["pyarrow>=19"]\n' + TOWNCRIER,
        ),
    ],
)
def test_a_release_with_other_crates_or_flags_than_those_tested_is_refused(checkout, prepared, name, text):
    write(checkout, name, text)
    with pytest.raises(SystemExit, match=f"the code has changed since: {name}\n.*run `make reliability`"):
        prepared.prepare("1.2.0")
    reliable(checkout)
    prepared.prepare("1.2.0")
    prepared.check_tag("v1.2.0")


def test_prepare_names_the_steps_that_follow(prepared, capsys):
    """In the order of CONTRIBUTING.md: what was not tried, or is not on main, is not tagged."""
    prepared.prepare("1.2.0")
    said = capsys.readouterr().out
    steps = (
        "gh workflow run release.yml --ref BRANCH",
        "tools/release begin",
        "pull request",
        "tools/release tag",
        "git push origin v1.2.0",
    )
    assert sorted(steps, key=said.index) == list(steps)
    recipe = Path(TOOL).parents[1].joinpath("CONTRIBUTING.md").read_text().partition("## A release\n")[2]
    assert sorted(steps, key=recipe.index) == list(steps)


def test_a_change_of_what_users_do_not_run_needs_no_new_page(checkout, prepared):
    for name in ("docs/guide.md", "tests/test_a.py", "rust/fuzz/seeds/a", "rust/core/tests/a.rs"):
        write(checkout, name)
    prepared.prepare("1.2.0")
    prepared.check_tag("v1.2.0")


def write(root, name, text="new"):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    git(root, "add", name)
    git(root, "commit", "--quiet", "--message", "Change")


def test_the_page_of_this_clone_can_be_read():
    """What tools/reliability writes is what tools/release reads: the commit, and the numbers."""
    module = load(TOOL)
    page = module.RELIABILITY.read_text()
    assert module.COMMIT.search(page)
    rows = [row for row in map(module.cells, page.splitlines()) if row]
    assert ["what", "tried", "held", "command"] in rows
    assert {len(row) for row in rows} <= {2, 3, 4}
    # A page of an older commit may lack the newest kinds.
    assert not {"Real brokers", "Hostile bytes", "tests/unit"} & {*module.untried(page)}


def test_a_renamed_file_is_a_change(checkout, prepared):
    write(checkout, "src/brokerless/a.py")
    reliable(checkout)
    git(checkout, "mv", "src/brokerless/a.py", "docs/a.py")
    git(checkout, "commit", "--quiet", "--message", "Move")
    with pytest.raises(SystemExit, match=r"the code has changed since: src/brokerless/a\.py"):
        prepared.prepare("1.2.0")


def test_the_page_is_of_a_commit_that_did_not_change_while_it_was_tested(checkout):
    """And it lists the checks that failed, of whose tests in Rust only the exit code is known."""
    tool, tally = checkout / "tools/reliability", checkout.parent / "tally"

    def run(*words):
        return subprocess.run([sys.executable, tool, tally, *words], check=False, capture_output=True, text=True)

    assert run("--begin").returncode == 0
    page = run("test-core", "promises", "--failed", "test-core").stdout
    assert page.endswith("\nThese tests failed:\n\n- `make test-core`\n")
    assert "The run was without `make test-oldest`, `make test-python`, `make test-jar` and `make hunt`." in page
    (checkout / "CHANGELOG.md").write_text("other")
    assert "the checkout has changes" in run("test-core").stderr
    git(checkout, "commit", "--quiet", "--all", "--message", "Change")
    assert "the tests ran on another commit" in run("test-core").stderr


CARGO = """\
import os, pathlib, sys, time

if sys.argv[1] == "update":
    lock = pathlib.Path(sys.argv[-1]).with_name("Cargo.lock")
    lock.write_text(lock.read_text().replace("1.1.1-dev.0", "1.2.0"))
    pathlib.Path(os.environ["TOOL"]).write_text(str(os.getppid()))
    if "INTERRUPT" in os.environ:
        os.kill(os.getppid(), int(os.environ["INTERRUPT"]))
        time.sleep(60)
"""


@pytest.fixture
def prepare(checkout, tmp_path, monkeypatch):
    """Returns a function that prepares a release in another process, with a program in place of cargo."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cargo").write_text(f"#!{sys.executable}\n{CARGO}")
    (tmp_path / "bin/cargo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("TOOL", str(tmp_path / "tool"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    command = [sys.executable, "tools/release", "prepare", "1.2.0"]
    return lambda: subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("interrupt", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("step", ["the lock file", "the commit", "after the commit"])
def test_an_interrupted_preparation_changes_nothing(checkout, prepare, monkeypatch, step, interrupt):
    if step == "the lock file":
        monkeypatch.setenv("INTERRUPT", str(interrupt.value))
    else:
        hook = checkout / ".git/hooks" / ("pre-commit" if step == "the commit" else "post-commit")
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f'#!/bin/sh\nkill -{interrupt.value} "$(cat "$TOOL")"\nexec >&- 2>&-\nsleep 1\n')
        hook.chmod(0o755)
    before = state(checkout)
    done = prepare()
    assert done.returncode == 128 + interrupt, done.stderr
    assert state(checkout) == before


def test_the_next_run_tells_how_to_undo_what_a_killed_one_has_left(checkout, prepare, monkeypatch):
    monkeypatch.setenv("INTERRUPT", str(signal.SIGKILL.value))
    before = state(checkout)
    assert prepare().returncode == -signal.SIGKILL
    monkeypatch.delenv("INTERRUPT")
    said = prepare().stderr
    assert "the checkout has changes: commit them first, or undo what a killed run has left: git restore" in said
    # Nothing of somebody else's would be undone.
    (checkout / "other").write_text("new")
    assert prepare().stderr == "the checkout has changes: commit them first\n"
    (checkout / "other").unlink()
    subprocess.run(["git", "-C", checkout, *said.rpartition(": git ")[2].split()], check=True)
    assert state(checkout) == before
    assert prepare().returncode == 0


def test_sections_of_the_changelog_are_one_blank_line_apart(checkout, prepare):
    assert prepare().returncode == 0
    text = (checkout / "CHANGELOG.md").read_text()
    assert re.fullmatch(
        r"# Changelog\n\n<!-- towncrier -->\n\n## \[1.2.0\] - [\d-]{10}\n\n### Added\n\n- A new verb\.\n\n### Fixed\n\n"
        r"- A fault less\.\n\n## \[1.1.0\] - 2026-01-02\n\n- Old\.\n\n\[1.2.0\]: .*\n",
        text,
    ), text
    assert git(checkout, "status", "--porcelain") == ""


def test_help_is_no_error():
    for word in ("--help", "-h"):
        done = subprocess.run([sys.executable, TOOL, word], check=True, capture_output=True, text=True)
        assert "tools/release prepare VERSION" in done.stdout
        assert done.stderr == ""
    done = subprocess.run([sys.executable, TOOL, "unknown"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "tools/release prepare VERSION" in done.stderr


@pytest.mark.slow
def test_prepare_with_the_real_programs(checkout):
    subprocess.run([sys.executable, "tools/release", "prepare", "1.2.0"], cwd=checkout, check=True)
    assert git(checkout, "status", "--porcelain") == ""
    assert [path.name for path in (checkout / "changes").iterdir()] == ["README.md"]
    assert "A new verb." in (checkout / "CHANGELOG.md").read_text()
    assert (checkout / "rust/fuzz/Cargo.lock").read_text().count("1.2.0") == 1
    subprocess.run([sys.executable, "tools/release", "begin"], cwd=checkout, check=True)
    assert git(checkout, "status", "--porcelain") == ""
    assert (checkout / "rust/fuzz/Cargo.lock").read_text().count("1.2.1-dev.0") == 1
    subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=checkout, check=True)


def test_the_tag_is_signed_with_a_key_that_main_lists(checkout, prepared, make_key):
    """Also if it came to the list after the commit of the release."""
    prepared.prepare("1.2.0")
    key = make_key("maintainer")
    git(checkout, "checkout", "--quiet", "-b", "keys")
    list_keys(checkout, key)
    git(checkout, "push", "--quiet", "origin", "keys:main")
    git(checkout, "checkout", "--quiet", "main")
    make_key("stranger")
    git(checkout, "config", "user.signingkey", str(checkout / "no key"))
    with pytest.raises(SystemExit, match=r"git tag --sign failed|git could not sign the tag"):
        prepared.tag()
    git(checkout, "config", "user.signingkey", str(checkout.parent / "stranger"))
    with pytest.raises(SystemExit, match=r"git could not sign the tag: .*user\.signingkey"):
        prepared.tag()
    assert git(checkout, "tag", "--list") == ""
    git(checkout, "config", "user.signingkey", str(checkout.parent / "maintainer"))
    prepared.tag()
    assert "A new verb." in git(checkout, "cat-file", "tag", "v1.2.0")
    git(checkout, "tag", "--delete", "v1.2.0")
    # As main has it when the pull request is merged.
    prepared.begin()
    git(checkout, "merge", "--quiet", "--message", "Merge", "keys")
    push(checkout)
    with pytest.raises(SystemExit, match=r"HEAD, whose version is 1\.2\.1-dev\.0, is not the commit of .* prepare"):
        prepared.tag()
    git(checkout, "switch", "--quiet", "--detach", "HEAD~2")
    prepared.tag()


def test_what_the_workflow_would_refuse_is_not_tagged(checkout, prepared, make_key):
    """A pushed tag is never deleted, so its version would be lost."""
    list_keys(checkout, make_key("maintainer"))
    push(checkout)
    prepared.prepare("1.2.0")
    with pytest.raises(SystemExit, match=r"the commit of v1\.2\.0 is not on main"):
        prepared.tag()
    write(checkout, "src/brokerless/a.py")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "Release 1.2.0")
    push(checkout)
    with pytest.raises(SystemExit, match="the code has changed since"):
        prepared.tag()
    assert git(checkout, "tag", "--list") == ""


def test_a_release_that_nobody_could_sign_is_not_prepared(checkout, prepared):
    list_keys(checkout)
    push(checkout)
    list_keys(checkout, "a ssh-ed25519 AAAA\n")
    before = state(checkout)
    with pytest.raises(SystemExit, match=r"\.github/allowed_signers of main lists no key yet"):
        prepared.prepare("1.2.0")
    assert state(checkout) == before


GH = """\
import json, os, pathlib, shutil, sys

home = pathlib.Path(os.environ["FAKE_GH"])
state = json.loads((home / "state").read_text())
assets = home / "assets"
arguments = sys.argv[1:]
with (home / "calls").open("a") as file:
    print(*arguments[:2], file=file)
match arguments:
    case ["release", "list", *_]:
        print(json.dumps([{"tagName": "v1.2.0", "isDraft": state == "draft"}] if state else []))
    case ["release", "create", "v1.2.0", "--draft", "--verify-tag", *_]:
        assert state is None
        (home / "state").write_text('"draft"')
    case ["release", "upload", "v1.2.0", "--clobber", *files]:
        assert state == "draft"
        for number, name in enumerate(files):
            if os.environ.get("FAIL") == f"upload {number}":
                # As after a connection that broke.
                (assets / pathlib.Path(name).name).write_bytes(b"half")
                sys.exit(1)
            shutil.copy(name, assets)
    case ["release", "download", "v1.2.0", "--dir", to]:
        shutil.copytree(assets, to, dirs_exist_ok=True)
    case ["release", "edit", "v1.2.0", "--draft=false"]:
        assert state == "draft"
        (home / "state").write_text('"published"')
    case _:
        sys.exit(f"unexpected: {arguments}")
if os.environ.get("FAIL") == " ".join(arguments[:2]):
    sys.exit(1)
"""


@pytest.fixture
def hub(tmp_path, release, monkeypatch):
    """A GitHub with no release, and a PyPI that has the files in `dist`."""
    programs, home, dist = tmp_path / "bin", tmp_path / "hub", tmp_path / "dist"
    for directory in (programs, home / "assets", dist):
        directory.mkdir(parents=True)
    (home / "state").write_text("null")
    (programs / "gh").write_text(f"#!{sys.executable}\n{GH}")
    (programs / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("FAKE_GH", str(home))
    for name in ("b.whl", "a.tar.gz"):
        (dist / name).write_text(name)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}
    monkeypatch.setattr(release, "on_pypi", lambda version, count: sums if (version, count) == ("1.2.0", 2) else {})
    return home


def published(hub):
    assets = {path.name: path.read_text() for path in (hub / "assets").iterdir()}
    return json.loads((hub / "state").read_text()), assets


UPLOADS = ["upload 0", "upload 1", "upload 2"]
STEPS_OF_PUBLISHING = ["release create", *UPLOADS, "release upload", "release download", "release edit"]


@pytest.mark.parametrize("failure", [None, *STEPS_OF_PUBLISHING])
def test_a_release_can_be_published_again_after_a_failure_at_each_step(hub, release, tmp_path, monkeypatch, failure):
    if failure:
        monkeypatch.setenv("FAIL", failure)
        with pytest.raises(SystemExit):
            release.publish("v1.2.0", tmp_path / "dist")
        # Nobody sees a part of it.
        if failure != "release edit":
            assert published(hub)[0] == "draft"
        monkeypatch.delenv("FAIL")
    release.publish("v1.2.0", tmp_path / "dist")
    state, assets = published(hub)
    assert state == "published"
    assert set(assets) == {"a.tar.gz", "b.whl", "SHA256SUMS"}
    checked = subprocess.check_output(["sha256sum", "--check", "SHA256SUMS"], cwd=hub / "assets", text=True)
    assert checked.splitlines() == ["a.tar.gz: OK", "b.whl: OK"]


def test_a_published_release_is_compared_and_never_replaced(hub, release, tmp_path):
    release.publish("v1.2.0", tmp_path / "dist")
    before = published(hub)
    (hub / "calls").unlink()
    release.publish("v1.2.0", tmp_path / "dist")
    assert (hub / "calls").read_text().splitlines() == ["release list", "release download"]
    (hub / "assets/b.whl").write_text("other")
    with pytest.raises(SystemExit, match=r"GitHub has other files: b\.whl: .*a release is never replaced"):
        release.publish("v1.2.0", tmp_path / "dist")
    assert before[0] == published(hub)[0]


def test_files_that_pypi_does_not_have_are_not_published(hub, release, tmp_path):
    """A second build may differ from the one that PyPI has kept."""
    (tmp_path / "dist/b.whl").write_text("built again")
    with pytest.raises(SystemExit, match=r"PyPI has other files: b\.whl: .*run only the failed jobs again"):
        release.publish("v1.2.0", tmp_path / "dist")
    assert published(hub) == (None, {})


@pytest.fixture
def make_key(checkout, tmp_path):
    """Returns a function that makes a key, and signs with it from then on."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("needs ssh-keygen")
    git(checkout, "config", "gpg.format", "ssh")

    def make(name):
        key = tmp_path / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key], check=True)
        git(checkout, "config", "user.signingkey", str(key))
        return f'{name} namespaces="git" {key.with_suffix(".pub").read_text()}'

    return make


def list_keys(checkout, *lines):
    write(checkout, ".github/allowed_signers", "# A comment.\n" + "".join(lines))


def push_tag(checkout, *options):
    git(checkout, "tag", "--force", *options, "v1", "--message", "1")
    push(checkout, "v1")


def test_a_tag_is_released_if_a_key_that_main_lists_has_signed_it(checkout, make_key):
    list_keys(checkout, make_key("maintainer"))
    push_tag(checkout, "--sign")
    # As the checkout of the workflow may have it: the commit in place of the tag, and no branch.
    git(checkout, "tag", "--force", "v1", "HEAD^{}")
    git(checkout, "checkout", "--quiet", "--detach")
    load(checkout / "tools/release").check_source("v1")


@pytest.mark.parametrize("signature", ["--annotate", "--sign"])
def test_a_tag_that_no_key_of_the_list_has_signed_is_refused(checkout, make_key, signature):
    list_keys(checkout, make_key("maintainer"))
    make_key("stranger")
    push_tag(checkout, signature)
    with pytest.raises(
        SystemExit, match=r"the tag v1 is refused: .*sign it with a key that .*allowed_signers of main lists"
    ):
        load(checkout / "tools/release").check_source("v1")


def test_a_key_that_only_the_commit_of_the_tag_lists_is_refused(checkout, make_key):
    list_keys(checkout, make_key("maintainer"))
    push(checkout)
    git(checkout, "checkout", "--quiet", "-b", "other")
    list_keys(checkout, make_key("stranger"))
    push_tag(checkout, "--sign")
    with pytest.raises(SystemExit, match="the tag v1 is refused"):
        load(checkout / "tools/release").check_source("v1")


def test_without_a_key_nothing_is_released(checkout, make_key):
    list_keys(checkout)
    make_key("maintainer")
    push_tag(checkout, "--sign")
    with pytest.raises(SystemExit, match=r"\.github/allowed_signers of main lists no key yet"):
        load(checkout / "tools/release").check_source("v1")


def test_a_tag_of_a_commit_that_is_not_on_main_is_refused(checkout, make_key):
    list_keys(checkout, make_key("maintainer"))
    push_tag(checkout, "--sign")
    module = load(checkout / "tools/release")
    git(checkout, "checkout", "--quiet", "-b", "other")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "Not reviewed")
    with pytest.raises(SystemExit, match="the tag v1 is of another commit than the checkout, so somebody has moved it"):
        module.check_source("v1")
    push_tag(checkout, "--sign")
    with pytest.raises(SystemExit, match="the commit of v1 is not on main"):
        module.check_source("v1")


@pytest.fixture
def built(tmp_path):
    """Files that a job has built, and the lines that it has put out."""
    for name in ("a.tar.gz", "amd64/lib.so"):
        (tmp_path / "dist" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dist" / name).write_text(name)
    command = [sys.executable, TOOL, "sums", "a.tar.gz", "amd64/lib.so"]
    return tmp_path / "dist", subprocess.check_output(command, cwd=tmp_path / "dist", text=True)


def test_the_files_that_a_job_has_built_are_accepted(built, release):
    directory, sums = built
    subprocess.run(["sha256sum", "--check", "--quiet"], cwd=directory, input=sums, text=True, check=True)
    # As GitHub joins the outputs of jobs.
    release.check_sums(directory, sums.replace("\n", "\n\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("amd64/lib.so", "poisoned", r"other files: amd64/lib\.so: .*another job of this run has replaced them"),
        ("amd64/one_more.so", "poisoned", r"amd64/one_more\.so: [0-9a-f]{64} there, missing here"),
        ("amd64/lib.so", None, r"amd64/lib\.so: missing there"),
    ],
)
def test_files_that_another_job_has_replaced_are_refused(built, release, name, content, message):
    directory, sums = built
    (directory / name).unlink() if content is None else (directory / name).write_text(content)
    with pytest.raises(SystemExit, match=message):
        release.check_sums(directory, sums)


def test_files_without_a_sum_are_refused(built, release):
    """An output that a workflow misspells is empty."""
    with pytest.raises(SystemExit, match="no SHA-256 is known"):
        release.check_sums(built[0], "\n")
