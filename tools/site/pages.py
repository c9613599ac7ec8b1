"""Pages of the site that are no files of docs/: one for each verb and for each public name, the changelog, security.

MkDocs calls `on_config`, `on_files` and `on_page_markdown`.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import tomllib
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
CHECKING = {"check", "finding", "repair", "rescue", "recover", "report", "spark"}
"""The verbs that print findings."""
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
LONG = 22
"""The most characters of a name that a table of the site does not break, if the window is wide."""
TEXTS: dict[str, str] = {}
"""The Markdown of each page, as it was built."""
SOURCE = "https://github.com/brokerless/brokerless/blob/main"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages into the navigation, where it names their sources."""
    with (ROOT / "Cargo.toml").open("rb") as file:
        config.extra["release"] = tomllib.load(file)["workspace"]["package"]["version"]
    config.copyright = f"{config.site_name} {config.extra['release']}"
    # mike sets it. A site of one version has no list of versions.
    if "MIKE_DOCS_VERSION" not in os.environ:
        config.extra.pop("version", None)
    lists: dict[str, list[object]] = {VERBS: list(verbs()), NAMES: ["reference/index.md", *groups_of_names()]}

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
    """Mark what the style sheet breaks in its own way; lead from each picture to its full size.

    Code in a table breaks after a bar or a slash, and an option never after its hyphens. Rows of a command's table do
    not break, but other lines of its output do.
    """
    del config
    if page.file.src_uri.startswith("reference/"):
        output = lead_to_names(output, files)
    # The value of a field has one gap before it, and a row has several.
    output = re.sub(r'<span class="go">(?=[^<]*\S {2,}\S[^<]* {2,}\S)', '<span class="go row">', output)
    output = re.sub(r"(?s)<td[^>]*>.*?</td>", lambda cell: re.sub(r">[^<]+", breakable, cell[0]), output)
    option = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
    broken = re.sub(
        r"(?s)<pre>.*?</pre>|<code>(?:[^<]|<wbr[^>]*>)*</code>",
        lambda code: re.sub(r">[^<]+", lambda text: option.sub(r'<span class="whole">\g<0></span>', text[0]), code[0]),
        output,
    )

    picture = r'(?s)<picture>(?:(?!</picture>).)*?<img [^>]*src="([^"]+)".*?</picture>|<img [^>]*src="([^"]+)"[^>]*>'

    def led(found: re.Match[str]) -> str:
        return f'<span class="picture"><a href="{found[1] or found[2]}" title="Full size">{found[0]}</a></span>'

    return re.sub(picture, led, broken)


def lead_to_names(output: str, files: Files) -> str:
    """Return a page of the reference with links from names that its docstrings refer to, as in "see `plan`"."""

    def led(found: re.Match[str]) -> str:
        name = found[1].removeprefix("brokerless.")
        first, _, member = name.partition(".")
        own = re.search(rf'id="(brokerless\.\w+\.{re.escape(name)})"', output)
        # A member of the class of this page comes first.
        if own and name == found[1]:
            address = f"#{own[1]}"
        elif files.get_file_from_path(f"reference/{first}.md"):
            address = f"../{first}/" + (f"#brokerless.{name}" if member else "")
        else:
            return found[0]
        return f'see <a href="{address}"><code>{found[1]}</code></a>'

    return re.sub(r"see <code>([\w.]+)</code>", led, output)


def breakable(text: re.Match[str]) -> str:
    """Return the text of a cell with places to break it at.

    They are after signs, and within names that are too long for the page, or for a phone.
    """
    parts = r"(?<=\w[._])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])"

    def broken(name: re.Match[str]) -> str:
        return re.sub(parts, "<wbr>" if len(name[0]) > LONG else '<wbr class="narrow">', name[0])

    return re.sub(r"(?<=[|/])(?=\w)", "<wbr>", re.sub(r"[\w.]+", broken, text[0]))


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
            pages[f"verbs/{anchor}.md"] = f"# {verb}\n{body.rstrip()}\n{more_of(anchor)}"
            summary = body.strip().split("\n", 1)[0]
            index.append(f"| [`{verb}`]({VERBS}#{anchor}) | {summary} |")
        index.append("")
    return {"verbs/index.md": "\n".join(index), **pages}


def more_of(verb: str) -> str:
    """Return what other pages have of a verb: a session, recipes, fields and codes."""
    recipes = (ROOT / "docs/guides/cli.md").read_text(encoding="utf-8")
    session, links = "", []
    for part in re.split(r"(?m)^###? ", recipes)[1:]:
        title, _, body = part.partition("\n")
        if re.search(rf"\(\.\./command-line\.md#{verb}(?:-[a-z-]+)?\)", body):
            links.append(f"[{title}](guides/cli.md#{slug(title)})")
            typed = re.findall(rf"(?ms)^```console\n\$ brokerless {verb}\b.*?^```$", body)
            session = session or next(iter(typed), "")
    fields = re.findall(rf"(?m)^## ({verb}(?: .*)?)$", (ROOT / "docs/json.md").read_text(encoding="utf-8"))
    lines = [
        f"- Recipes: {', '.join(links)}" if links else "",
        f"- Fields of `--json`: {', '.join(f'[{name}](json.md#{slug(name)})' for name in fields)}" if fields else "",
        "- Codes of findings: [Findings](findings.md)" if verb in CHECKING else "",
    ]
    shown = f"\n## Example\n\n{session}\n" if session else ""
    return shown + "\n## More\n\n" + "".join(f"{line}\n" for line in lines if line) if any(lines) else shown


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-")


def names() -> dict[str, str]:
    """Return a page for each public name, and one that lists them."""
    index, pages = [], {}
    for line in (ROOT / "docs" / NAMES).read_text(encoding="utf-8").splitlines():
        if found := re.match(r"::: brokerless\.(\S+)", line):
            short = short_name(found[1])
            path = f"reference/{short}.md"
            pages[path] = f"---\ntitle: {short}\n---\n\n{line}\n    options:\n      heading_level: 1\n"
            docstring = package()[found[1]].docstring
            about = re.split(r"\n\s*\n", docstring.value.strip())[0] if docstring else ""
            about = " ".join(about.split()).replace("|", "\\|")
            index.append(f"| [`{short}`]({NAMES}#{short}) | {about} |")
        elif line.startswith("      "):
            pages[path] += f"{line}\n"
        elif line.startswith("## "):
            index += ["", line, "", "| name | what it is |", "| --- | --- |"]
        elif line.strip() != "options:" and (line or not index[-1].startswith("| ")):
            index.append(line)
    return {"reference/index.md": "\n".join(index) + "\n", **pages}


def groups_of_names() -> list[object]:
    """Return the groups of public names for the navigation."""
    groups: dict[str, list[object]] = {}
    for group in re.split(r"(?m)^## ", (ROOT / "docs" / NAMES).read_text(encoding="utf-8"))[1:]:
        listed = re.findall(r"(?m)^::: brokerless\.(\S+)", group)
        groups[group.partition("\n")[0]] = [f"reference/{short_name(name)}.md" for name in listed]
    return [{title: paths} for title, paths in groups.items()]


def short_name(name: str) -> str:
    """Return a public name without the module that only we import it from."""
    module, _, last = name.rpartition(".")
    return name if module == "spark" else last


def single() -> dict[str, str]:
    """Return the pages that are files of the project's root."""
    texts = {page: (ROOT / source).read_text(encoding="utf-8") for page, source in SINGLE.items()}
    # A version in brackets is a link only where one is defined.
    return {page: re.sub(r"(?m)^## \[(.*?)\]", r"## \1", text) for page, text in texts.items()}
