"""The commands of the README, and the Python sessions of pages, print what is shown."""

import doctest
import glob
import io
import re
import shlex
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/guides/after-an-incident.md")
COMMANDS = [
    pytest.param(*found, id=f"{page} {found[0]}")
    for page in PAGES
    for found in re.findall(r"^\$ brokerless (.*)\n((?:(?!```).*\n)*)", (ROOT / page).read_text(), flags=re.MULTILINE)
]
# What is written before it is read: a row, and the arguments of `produce`.
PIPED = re.findall(r"^\$ echo '(.*)' \| brokerless produce (.*)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    # What is shown has times in UTC, wherever the reader is.
    monkeypatch.setenv("TZ", "America/New_York")


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_is_shown(run, monkeypatch, command, shown):
    for row, options in PIPED:
        if shlex.split(options)[0] in command:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(row.encode())))
            assert run("produce", *shlex.split(options)).code == 0
    result = run(*(name for word in shlex.split(command) for name in sorted(glob.glob(word)) or [word]))
    assert (result.code, result.out) == (1 if "error" in shown else 0, shown)


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("page", [*PAGES, "docs/guides/notebooks.md", "docs/guides/decoding.md"])
def test_a_python_session_prints_what_is_shown(page):
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert (runner.failures, runner.tries) == (0, len(example.examples))
    assert example.examples


def test_pages_show_commands():
    assert len(COMMANDS) >= 4 + 11


@pytest.mark.usefixtures("clone")
def test_no_command_writes_to_the_logs_that_it_reads(run):
    """The guide says so to people whose evidence it is."""
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files("examples/incident")}
    for command in (("groups", "--offsets"), ("transactions", "--open"), ("cluster", "topics"), ("ls",)):
        assert run(command[0], *command[1:], "examples/incident").code == 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files("examples/incident")} == before


def files(directory):
    return [path for path in Path(directory).rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "name"), [([], "incident.svg"), (["--narrow"], "incident-narrow.svg")])
def test_the_picture_shows_what_a_terminal_shows(options, name):
    tool = ROOT / "tools/recording"
    done = subprocess.run([sys.executable, tool, *options], check=True, capture_output=True, text=True)
    made = f"tools/recording {' '.join(options)} > docs/images/{name}"
    assert done.stdout == (ROOT / "docs/images" / name).read_text(), made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.png", "report-dark.png", "report-narrow.png", "report-narrow-dark.png"])
def test_the_picture_of_the_report_shows_the_text_of_the_page(name, monkeypatch):
    """The tool writes the text beside the pixels: a browser may draw them otherwise on each machine."""
    image = pytest.importorskip("PIL.Image")
    tool = load("report_picture")
    # It changes both.
    monkeypatch.setattr(tool.report, "now_ms", tool.report.now_ms)
    monkeypatch.chdir(ROOT)
    with image.open(ROOT / "docs/images" / name) as picture:
        assert tool.text_of(tool.made()) == picture.text["Text"], "tools/report_picture writes the pictures again"


def luminance(colour):
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def test_no_colour_of_text_is_legible_on_light_and_dark_pages():
    """So a chart needs a background: PyPI is a light page on a dark system, and no style of the picture knows that."""
    # The contrast of white and black is the product of those of a colour between them with each.
    assert contrast("#ffffff", "#0d1117") < 4.5 * 4.5


@pytest.mark.parametrize("name", ["spark.svg", "spark-dark.svg", "speed.svg", "speed-dark.svg"])
def test_a_chart_is_legible_on_every_page(name):
    chart = (ROOT / "docs/images" / name).read_text()
    assert "@media" not in chart
    background, *bars = re.findall(r'style="fill: (#[0-9a-f]{6})"', chart)
    width = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', chart).groups()
    assert f"L {' '.join(width)} \n" in chart.partition(background)[0], "the background fills the picture"
    texts = re.findall(r"<text style=\"font-size: ([\d.]+)px;[^\"]*fill: (#[0-9a-f]{6})[^\"]*\"", chart)
    assert len(texts) == len(re.findall("<text", chart)) >= 5
    assert min(contrast(colour, background) for _, colour in texts) >= 4.5
    assert min(contrast(colour, background) for colour in bars) >= 3
    # As wide as a page, and on a phone of 360 pixels, no text is smaller than 9 pixels.
    assert float(width[0]) / 72 * 96 >= 640
    assert min(float(size) for size, _ in texts) * 360 / float(width[0]) >= 9


@pytest.mark.parametrize("name", ["incident.svg", "incident-narrow.svg"])
def test_the_terminal_is_legible(name):
    picture = (ROOT / "docs/images" / name).read_text()
    (background,) = set(re.findall(r'<rect fill="(#[0-9a-f]{6})" stroke=', picture))
    colours = re.findall(r"\.recording-r\d+ \{ fill: (#[0-9a-f]{6})", picture)
    assert len(colours) >= 4
    assert min(contrast(colour, background) for colour in colours) >= 4.5


@pytest.mark.parametrize("name", ["spark", "speed"])
def test_the_chart_for_dark_pages_differs_in_its_colours_alone(name):
    light, dark = ((ROOT / f"docs/images/{name}{suffix}.svg").read_text() for suffix in ("", "-dark"))
    assert light != dark
    assert re.sub(r"#[0-9a-f]{6}\b", "", light) == re.sub(r"#[0-9a-f]{6}\b", "", dark)


@pytest.mark.parametrize(
    ("page", "pictures"), [("README.md", 1), ("docs/index.md", 2), ("docs/guides/coming-from.md", 2)]
)
def test_the_text_in_place_of_a_chart_has_its_numbers(page, pictures):
    content = (ROOT / page).read_text()
    found = re.findall(r"!\[([^]]*)\]\(\S*images/((?:spark|speed)\S*\.svg)[#)]", content)
    found += [(text, name) for name, text in re.findall(r'<img src="\S*images/(spark\.svg)" alt="(.*)">', content)]
    assert len(found) == pictures
    for text, name in found:
        shown = re.findall(r">([\d.]+ s)</text>", (ROOT / "docs/images" / name).read_text())
        assert re.findall(r"[\d.]+ s\b", text) == shown


def load(name):
    loader = SourceFileLoader(name, str(ROOT / "tools" / name))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
