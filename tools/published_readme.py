"""The README as PyPI shows it: with addresses in place of paths, because PyPI has no other file of the project.

PyPI also drops the tags `picture` and `source` (`readme_renderer/clean.py`), so only the `img` in them is left, also on
phones. It gets the picture for narrow pages, in a width that is legible on wide ones.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
TARGET = re.compile(
    r"(?P<image>!)?(?P<before>\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?P<target>[^)\s]+)"  # [text](target), ![text](target)
    r"|(?P<reference>^\[[^\]]+\]: *)(?P<of_reference>\S+)"
    r"|(?P<attribute>\b(?P<name>src|href)=\")(?P<of_attribute>[^\"]+)",
    re.MULTILINE,
)
INSIDE = re.compile(r"!\[[^\]]*\]\([^)\s]+")
# With its line, and not with the blank line that ends the block of HTML.
PICTURE = re.compile(r"[ \t]*</?(?:picture|source)\b[^>]*>(?:[ \t]*\n)?")
WITH_SOURCES = re.compile(r"<picture>.*?</picture>", re.DOTALL)
NARROW = re.compile(r'<source media="\(max-width: \d+px\)" srcset="([^"]+)">')
WIDE = re.compile(r'(<img\b[^>]*\bsrc=")[^"]+"')
WIDTH = 420
IS_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def published(text: str, version: str) -> str:
    """Return Markdown of the project's root for a place outside of it: targets name the files of a version's tag.

    A version between two releases, such as 1.2.1-dev.0, has no tag: targets name the files of main.

    >>> published("[how](docs/index.md#start)", "1.2.0")
    '[how](https://github.com/brokerless/brokerless/blob/v1.2.0/docs/index.md#start)'
    """
    with (ROOT / "pyproject.toml").open("rb") as file:
        source = tomllib.load(file)["project"]["urls"]["Source"]
    commit = "main" if "-" in version else f"v{version}"
    page = f"{source}/blob/{commit}/"
    raw = f"{source.replace('https://github.com/', 'https://raw.githubusercontent.com/')}/{commit}/"

    def address(target: str, *, is_image: bool) -> str:
        if IS_ABSOLUTE.match(target):
            return target
        if target.startswith("#"):
            return f"{page}README.md{target}"
        return f"{raw if is_image else page}{target.removeprefix('./')}"

    def rewritten(found: re.Match[str]) -> str:
        if found["reference"]:
            return found["reference"] + address(found["of_reference"], is_image=False)
        if found["attribute"]:
            return found["attribute"] + address(found["of_attribute"], is_image=found["name"] == "src")
        # A link may have an image as its text.
        before = INSIDE.sub(lambda inner: TARGET.sub(rewritten, inner[0]), found["before"])
        return (found["image"] or "") + before + address(found["target"], is_image=bool(found["image"]))

    parts = FENCED.split(PICTURE.sub("", WITH_SOURCES.sub(narrow, text)))
    # Every second part is a fenced block.
    parts[::2] = [TARGET.sub(rewritten, part) for part in parts[::2]]
    return "".join(parts)


def narrow(picture: re.Match[str]) -> str:
    """Return a picture with its file for narrow pages in place of that for wide ones, if it has one."""
    source = NARROW.search(picture[0])
    return WIDE.sub(rf'\g<1>{source[1]}" width="{WIDTH}"', picture[0]) if source else picture[0]


def published_metadata(text: str) -> str:
    """Return metadata (METADATA, PKG-INFO) whose description, the README, is as PyPI shows it."""
    head, blank, description = text.partition("\n\n")
    return head + blank + published(description, own_version())


def own_version() -> str:
    """Return the version as Cargo writes it."""
    with (ROOT / "Cargo.toml").open("rb") as file:
        version: str = tomllib.load(file)["workspace"]["package"]["version"]
    return version


def publish_metadata(path: Path) -> None:
    """Rewrite a METADATA file."""
    path.write_text(published_metadata(path.read_text()))


def publish_sdist(path: Path) -> None:
    """Rewrite the PKG-INFO of a source distribution. The same content makes the same bytes."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            content = old.extractfile(member)
            if content is not None and re.fullmatch(r"[^/]+/PKG-INFO", member.name):
                text = published_metadata(content.read().decode()).encode()
                member.size, content = len(text), io.BytesIO(text)
            new.addfile(member, content)
    path.write_bytes(packed.getvalue())
