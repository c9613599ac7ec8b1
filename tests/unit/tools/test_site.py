"""The site has a directory for each version: an address without one leads nowhere."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SITE = "https://brokerless.github.io/brokerless/"


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout


def test_each_link_to_the_site_names_the_latest_version():
    """The root alone leads there by itself."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    texts = [
        ROOT / name for name in listed if Path(name).suffix in {".md", ".py", ".toml", ".yml", ".rs", ".html", ".svg"}
    ]
    found = {
        f"{path.relative_to(ROOT)}: {link}"
        for path in texts
        if path.is_file()
        for link in re.findall(rf"{re.escape(SITE)}([\w/.#-]*)", path.read_text(errors="replace"))
        if link and not link.startswith("latest/")
    }
    assert found == set()


@pytest.fixture
def pages(tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=gh-pages")
    for setting in ("user.name=a", "user.email=a@example.com"):
        git(tmp_path, "config", *setting.split("="))
    (tmp_path / "index.html").write_text("index")
    git(tmp_path, "add", "index.html")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "checkout", "--quiet", "-b", "main")
    for name in ("not_found", "404.html"):
        (tmp_path / "tools/site").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools/site" / name, tmp_path / "tools/site")
    return tmp_path


def test_an_address_that_does_not_exist_leads_to_the_latest_version(pages):
    for _ in range(2):
        subprocess.run(["tools/site/not_found"], cwd=pages, check=True)
    assert git(pages, "ls-tree", "--name-only", "gh-pages").split() == ["404.html", "index.html"]
    assert 'href="/brokerless/latest/"' in git(pages, "show", "gh-pages:404.html")
    assert len(git(pages, "log", "--format=%s", "gh-pages").splitlines()) == 2, "the second time changes nothing"
    assert git(pages, "status", "--porcelain") == "?? tools/\n"


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/brokerless/guides/cli/", "/brokerless/latest/guides/cli/#a"),
        ("/brokerless/latest/guides/gone/", None),
        ("/brokerless/0.1.0/guides/gone/", None),
        ("/brokerless/", None),
    ],
)
def test_an_address_without_a_version_leads_to_that_of_the_latest(path, leads_to):
    if not shutil.which("node"):
        pytest.skip("needs node")
    script = re.search(r"(?s)<script>(.*?)</script>", (ROOT / "tools/site/404.html").read_text())[1]
    given = f"const location = {{ pathname: '{path}', search: '', hash: '#a', replace: console.log }};"
    shown = subprocess.run(["node", "-e", given + script], check=True, capture_output=True, text=True).stdout
    assert (shown.strip() or None) == leads_to


@pytest.mark.parametrize(
    ("version", "alias"),
    [("1.10.1", "latest"), ("1.10.0", "latest"), ("1.9.1", ""), ("1.2.0", ""), ("2.0.0", "latest")],
)
def test_a_patch_of_an_older_release_does_not_become_the_latest_version(pages, version, alias):
    """Also before its tag is there, as in a rehearsal."""
    for tag in ("v1.2.0", "v1.9.0", "v1.9.1", "v1.10.0", "video"):
        git(pages, "tag", tag)
    shown = subprocess.run([ROOT / "tools/site/alias", version], cwd=pages, check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == alias
    recipe = (ROOT / "Makefile").read_text().partition("\nsite:")[2].partition("\n\n")[0]
    assert '--update-aliases "$(VERSION)" $$(tools/site/alias "$(VERSION)")\n' in recipe
