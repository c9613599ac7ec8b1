"""PyPI shows the README of a distribution's metadata, and has none of the files that a path would name."""

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tools"))
from published_readme import own_version, publish_sdist, published, published_metadata  # noqa: E402

PAGE = "https://github.com/brokerless/brokerless/blob/v1.2.0/"
RAW = "https://raw.githubusercontent.com/brokerless/brokerless/v1.2.0/"
# Each target of a link or an image, in Markdown or HTML, outside of code.
TARGETS = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: *(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)


def targets(text):
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return ["".join(found) for found in TARGETS.findall(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#b)", f"[a]({PAGE}docs/a.md#b)"),
        ("![a](./a.svg)", f"![a]({RAW}a.svg)"),
        ("[![a](a.svg)](b.md)", f"[![a]({RAW}a.svg)]({PAGE}b.md)"),
        ("[a](#b)", f"[a]({PAGE}README.md#b)"),
        ("[a]: b.md", f"[a]: {PAGE}b.md"),
        ("[a](https://b)", "[a](https://b)"),
        ('<img src="a.svg" alt="b">', f'<img src="{RAW}a.svg" alt="b">'),
        ('<picture><source srcset="dark.svg"><img src="a.svg"></picture>', f'<img src="{RAW}a.svg">'),
        ('<picture>\n  <img src="a.svg">\n</picture>\n\n**b**', f'  <img src="{RAW}a.svg">\n\n**b**'),
        (
            (
                '<picture>\n  <source media="(max-width: 9px) and (x)" srcset="dark.svg">\n'
                '  <source media="(max-width: 9px)" srcset="narrow.svg">\n  <img src="a.svg" alt="b">\n</picture>'
            ),
            f'  <img src="{RAW}narrow.svg" width="420" alt="b">\n',
        ),
        ("```\n[a](b)\n```", "```\n[a](b)\n```"),
    ],
)
def test_a_path_becomes_an_address(text, expected):
    assert published(text, "1.2.0") == expected


def test_the_addresses_of_a_version_between_two_releases_are_those_of_main():
    """It has no tag."""
    page, raw = PAGE.replace("v1.2.0", "main"), RAW.replace("v1.2.0", "main")
    assert published("[![a](a.svg)](b.md)", "1.2.1-dev.0") == f"[![a]({raw}a.svg)]({page}b.md)"


def test_each_address_of_the_readme_is_a_file_of_the_project():
    readme = (ROOT / "README.md").read_text()
    found = targets(published(readme, "1.2.0"))
    assert len(found) == len(targets(readme)) > 10
    assert [target for target in found if not target.startswith("https://")] == []
    files = [target.partition("#")[0] for target in found if target.startswith((PAGE, RAW))]
    paths = [file.removeprefix(PAGE).removeprefix(RAW) for file in files]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_the_metadata_that_pip_builds_have_no_relative_target(tmp_path):
    hook = "import build_backend, sys; print(build_backend.prepare_metadata_for_build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", hook, tmp_path]
    environment = {**os.environ, "PYTHONPATH": "tools"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    text = (tmp_path / done.stdout.splitlines()[-1] / "METADATA").read_text()
    head, _, description = text.partition("\n\n")
    assert [target for target in targets(description) if not target.startswith("https://")] == []
    assert "\nAuthor: The brokerless authors\n" in head
    assert f"\nVersion: {own_version().replace('-dev.', '.dev')}\n" in f"{head}\n"


def test_a_source_distribution_keeps_its_files(tmp_path):
    """Only the description is rewritten: the README is for those who have unpacked it."""
    info = b"Metadata-Version: 2.4\nVersion: 1.2.0\n\n[a](b.md)\n"
    contents = {"brokerless-1.2.0/PKG-INFO": info, "brokerless-1.2.0/README.md": b"[a](b.md)\n"}
    path = tmp_path / "brokerless-1.2.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    publish_sdist(path)
    with tarfile.open(path) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}
    contents["brokerless-1.2.0/PKG-INFO"] = published_metadata(info.decode()).encode()
    assert found == contents
    assert b"](https://github.com/brokerless/brokerless/blob/" in found["brokerless-1.2.0/PKG-INFO"]


def test_a_picture_does_not_swallow_the_paragraph_after_it():
    """A block of HTML lasts until a blank line: Markdown after it, without one, is shown with its asterisks."""
    markdown = pytest.importorskip("markdown_it")
    readme = published((ROOT / "README.md").read_text(), "1.2.0")
    pictures = re.findall(r"(?m)^ *<img .*\n(.*)$", readme)
    # The chart has no other form for a phone.
    assert len(re.findall(r'<img src="[^"]*-narrow\.\w+" width="420"', readme)) == len(pictures) - 1, (
        "legible on a phone"
    )
    assert readme.count("/docs/images/spark.svg") == 1
    assert pictures == ["", "", ""]
    shown = markdown.MarkdownIt("commonmark").enable("table").render(readme)
    assert not re.search(r"</?(picture|source)", shown)
    assert [
        line for line in re.sub(r"(?s)<pre>.*?</pre>|<code>.*?</code>", "", shown).splitlines() if "**" in line
    ] == []
    assert "<p><strong>Heal</strong> damaged logs" in shown
