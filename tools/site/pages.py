"""Pages of the site that are no files of docs/: one for each verb and for each public name, the changelog, security.

MkDocs calls `on_config`, `on_files` and `on_page_markdown`.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import griffe
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
VERBS = "command-line.md"
NAMES = "reference.md"
SINGLE = {"changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
"""Pages that are files of the project's root."""
LISTED = {
    "Start": r"index\.md",
    "Guides": r"guides/.*",
    "Verbs": r"verbs/.*",
    "Python": r"reference/.*",
    "Facts": r"(?!index)[a-z-]*\.md",
    "Internals": r"internals/.*",
}
"""The pages in llms.txt."""
FOUND = (
    (r"guides/broker-messages\.md", 1.5),
    (r"verbs/read\.md", 1.2),
    # Long pages have each word often.
    (r"verbs/(spark|produce)\.md|findings\.md", 0.6),
    (r"guides/testing\.md", 0.5),
    (r"(guides|verbs)/.*", 1),
    (r".*", 0.3),
)
"""How much a search prefers a page: those in trouble search most."""
SUMMARY = (
    "brokerless reads, writes, checks, repairs, compacts, converts and serves Apache Kafka log directories with no "
    "broker running: from Python, the command line and Spark."
)
DOCSTRING = re.compile(r"(?m)^::: (brokerless\.\S+)(?:\n(?: +.*)?)*")
"""The place of a docstring in a page, with its options."""
SHORT = 50
"""The fewest characters of a summary, if the page has as many."""
TEXTS: dict[str, str] = {}
"""The Markdown of each page, as it was built."""
SOURCE = "https://github.com/brokerless/brokerless/blob/main"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages into the navigation, where it names their sources."""
    # mike sets it. A site of one version has no list of versions.
    if "MIKE_DOCS_VERSION" not in os.environ:
        config.extra.pop("version", None)
    lists = {VERBS: list(verbs()), NAMES: list(names())}

    def expanded(entry: object) -> object:
        if not isinstance(entry, dict):
            return entry
        ((title, content),) = entry.items()
        if isinstance(content, list):
            return {title: [expanded(one) for one in content]}
        return {title: lists.get(content, content)}

    config.nav = [expanded(entry) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the pages that are one file in docs/ by the pages that they list."""
    for name in (VERBS, NAMES):
        if found := files.get_file_from_path(name):
            files.remove(found)
    for path, content in {**verbs(), **names(), **single()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the pages that were split, and to the project's other files."""
    here = page.file.src_uri
    boost = next((boost for pattern, boost in FOUND if re.fullmatch(pattern, here)), 1)
    page.meta.setdefault("search", {"boost": boost})
    page.meta.setdefault("tags", defined(markdown))
    # The text of a generated page comes from a file in docs/, or in the project's root.
    base = PurePosixPath(here).parent
    if page.file.generated_by:
        page.edit_url = None
        base = PurePosixPath(".." if here in SINGLE else ".")

    def lead(match: re.Match[str]) -> str:
        target, hash_, anchor = match[1].partition("#")
        if "://" in target or target.startswith("mailto:") or not target:
            return match[0]
        path = posixpath.normpath((base / target).as_posix())
        of_root = posixpath.normpath(f"docs/{path}")
        if path in (VERBS, NAMES):
            folder = "verbs" if path == VERBS else "reference"
            path, own = f"{folder}/index.md", f"{folder}/{anchor}.md"
            of_verb = f"{folder}/{anchor.partition('-')[0]}.md"
            if anchor and files.get_file_from_path(own):
                path, hash_, anchor = own, "", ""
            elif anchor not in _group_anchors() and files.get_file_from_path(of_verb):
                path = of_verb
        elif of_root in SINGLE.values():
            path = next(name for name, source in SINGLE.items() if source == of_root)
        elif path.startswith("../docs/"):
            path = path.removeprefix("../docs/")
        elif path.startswith("../"):
            return f"]({SOURCE}/{of_root}{hash_}{anchor})"
        return f"]({posixpath.relpath(path, posixpath.dirname(here) or '.')}{hash_}{anchor})"

    led = re.sub(r"\]\(([^)\s]+)\)", lead, markdown)
    TEXTS[here] = DOCSTRING.sub(lambda found: documented(found[1]), led)
    # The theme's template does not escape it.
    page.meta.setdefault("description", html.escape(summary_of(TEXTS[here]) or SUMMARY))
    # GitHub wants a bar in a cell escaped, in code as well; Python-Markdown does not.
    return re.sub(r"(?m)^\| `[^`]*`", lambda cell: cell[0].replace("\\|", "|"), led)


def defined(markdown: str) -> list[str]:
    """Return the options, codes and tools that a page heads or lists, each as the word that search.js looks for.

    The words begin with a digit, so that no search for the beginning of a word finds them.
    """
    names = re.findall(r"(?m)^(?:#+ .*?|\| `)(--[a-z]+(?:-[a-z]+)*|[a-z]+(?:[-_][a-z]+)+)\b", markdown)
    return sorted({f"0{re.sub('[-_]', '', name)}" for name in names})


def summary_of(markdown: str) -> str:
    """Return the first sentence of a page without its markup, or the first sentences if the first one is short."""
    prose = re.sub(r"(?ms)\A---\n.*?^---$|^```.*?^```$|^#.*?$|^!\[.*?$|^[|<-].*?$", "", markdown)
    for paragraph in re.split(r"\n\s*\n", prose):
        plain = re.sub(r"[`*]|\\(?=[*|])", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())))
        if plain:
            ends = [found.end() for found in re.finditer(r"[.!?](?= [A-Z]|$)", plain)]
            return plain[: next((end for end in ends if end >= SHORT), len(plain))].rstrip(":")
    return ""


def on_page_content(output: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Break code in a table after a bar or a slash, not within a word; lead from each picture to its full size."""
    del page, config, files
    broken = re.sub(
        r"<td[^>]*>.*?</td>", lambda cell: re.sub(r"([|/])(?=\w)(?=[^<]*</code>)", r"\1<wbr>", cell[0]), output
    )
    full = r'<span class="picture"><a href="\2" title="Full size">\1</a></span>'
    return re.sub(r'(<img [^>]*src="([^"]+)"[^>]*>)', full, broken)


def documented(name: str) -> str:
    """Return the docstring of a public name and of its members, as Markdown for readers without a browser."""
    found = package()[name.removeprefix("brokerless.")]
    parts = [f"# {found.name}", text_of(found)]
    for member in found.all_members.values() if found.is_class else ():
        if member.docstring and not member.name.startswith("_"):
            parts += [f"## {found.name}.{member.name}", text_of(member)]
    return "\n\n".join(part for part in parts if part)


@cache
def package() -> griffe.Object | griffe.Alias:
    """Return the package as its files describe it, with fenced examples."""
    fences = griffe.load_extensions(str(Path(__file__).with_name("doctests.py")))
    return griffe.load("brokerless", search_paths=[ROOT / "src"], resolve_aliases=True, extensions=fences)


def text_of(found: griffe.Object | griffe.Alias) -> str:
    """Return the signature of a function, and the docstring."""
    signature = f"```python\n{found.signature()}\n```" if found.is_function else ""
    return "\n\n".join(part for part in (signature, found.docstring.value if found.docstring else "") if part)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the search a name for screen readers."""
    del page, config
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt`, which lists the pages for language models (llmstxt.org), and all of them in one file."""
    lines, whole = [f"# {config.site_name}", "", f"> {SUMMARY}"], []
    for title, paths in LISTED.items():
        lines += ["", f"## {title}", ""]
        for path in sorted(path for path in TEXTS if re.fullmatch(paths, path)):
            text = TEXTS[path]
            heading = re.search(r"(?m)^# (.*)$", text)
            # A name of Spark's has its module in the path alone.
            stem = PurePosixPath(path).stem
            name = stem if title == "Python" and stem != "index" else heading[1] if heading else path
            about = summary_of(text)
            lines.append(f"- [{name}]({str(config.site_url).rstrip('/')}/{path}){about and ': '}{about}")
            whole.append(text)
    site = Path(config.site_dir)
    for path, text in TEXTS.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")


def _group_anchors() -> set[str]:
    """Return the anchors of the groups of verbs, such as "check-and-heal"."""
    titles = re.findall(r"(?m)^## (.*)$", (ROOT / "docs" / VERBS).read_text(encoding="utf-8"))
    return {re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") for title in titles}


def verbs() -> dict[str, str]:
    """Return a page for each verb, and one that lists them."""
    text = (ROOT / "docs" / VERBS).read_text(encoding="utf-8")
    head, *groups = re.split(r"(?m)^## ", text)
    index, pages = [head], {}
    for group in groups:
        title, _, content = group.partition("\n")
        before, *parts = re.split(r"(?m)^### ", content)
        index.append(f"## {title}\n\n{before.strip()}\n\n| verb | what it does |\n| --- | --- |")
        for part in parts:
            verb, _, body = part.partition("\n")
            anchor = verb.replace(" ", "-")
            pages[f"verbs/{anchor}.md"] = f"# {verb}\n{body}"
            summary = body.strip().split("\n", 1)[0]
            index.append(f"| [`{verb}`]({VERBS}#{anchor}) | {summary} |")
        index.append("")
    return {"verbs/index.md": "\n".join(index), **pages}


def names() -> dict[str, str]:
    """Return a page for each public name, and one that lists them."""
    index, pages = [], {}
    for line in (ROOT / "docs" / NAMES).read_text(encoding="utf-8").splitlines():
        if found := re.match(r"::: brokerless\.(\S+)", line):
            module, _, last = found[1].rpartition(".")
            short = found[1] if module == "spark" else last
            path = f"reference/{short}.md"
            pages[path] = f"---\ntitle: {short}\n---\n\n{line}\n    options:\n      heading_level: 1\n"
            index.append(f"- [`{short}`]({NAMES}#{short})")
        elif line.startswith("      "):
            pages[path] += f"{line}\n"
        elif line.strip() == "options:":
            continue
        elif line or not index or not index[-1].startswith("- "):
            index.append(line)
        if line.startswith("#"):
            index.append("")
    return {"reference/index.md": "\n".join(index), **pages}


def single() -> dict[str, str]:
    """Return the pages that are files of the project's root."""
    texts = {page: (ROOT / source).read_text(encoding="utf-8") for page, source in SINGLE.items()}
    # A version in brackets is a link only where one is defined.
    return {page: re.sub(r"(?m)^## \[(.*?)\]", r"## \1", text) for page, text in texts.items()}
