"""A report opens in a real browser: without errors and requests, in light and dark, on a desk and on a phone."""

import json
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

import brokerless as bl
from support.log_files import batch, write_segment

DESK, PHONE = 1280, 390


@pytest.fixture(scope="module")
def browser():
    options = Options()
    # CI runs as root, where Chromium's own sandbox does not start.
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(golden, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    bl.report(golden / "logs/kafka-4.1").save(path)
    return path


def opened(browser, path, width=DESK, *, dark=False):
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(path.as_uri())
    return browser


def column(browser, section, number):
    cells = browser.find_elements(By.CSS_SELECTOR, f"#{section} table:first-of-type tbody tr td:nth-child({number})")
    return [cell.get_attribute("textContent") for cell in cells]


def click(browser, selector):
    """Click an element in the middle of the window, where the navigation does not cover it."""
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def test_no_errors_and_no_requests(browser, page):
    opened(browser, page)
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]


def test_a_click_sorts(browser, page):
    opened(browser, page)
    names = column(browser, "groups", 1)
    click(browser, "#groups th:first-child button")
    assert column(browser, "groups", 1) == sorted(names) != names
    click(browser, "#groups th:first-child button")
    assert column(browser, "groups", 1) == sorted(names, reverse=True)
    assert browser.find_element(By.CSS_SELECTOR, "#groups th:first-child").get_attribute("aria-sort") == "descending"
    click(browser, "#topics th:nth-child(4) button")
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('#topics table')][0].tBodies[0].rows.length && "
        "[...document.querySelectorAll('#topics table')[0].tBodies[0].rows].map(row => +row.cells[3].dataset.sort)"
    )
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_page_fits_the_screen_and_is_legible(browser, page, width, dark):
    opened(browser, page, width, dark=dark)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # Contrast of text to its ground, by WCAG's formula: at least 4.5.
    contrast = """
        const light = (text) => {
            const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map(one => one / 255)
                .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const colour = getComputedStyle(at).backgroundColor;
                if (!colour.endsWith(', 0)')) return colour;
            }
        };
        return [...document.querySelectorAll('h1, p, li, td, th button, figcaption, caption, a, svg text')].map(one => {
            const style = getComputedStyle(one);
            const pair = [light(one.tagName === 'text' ? style.fill : style.color), light(ground(one))];
            return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        });
    """
    ratios = browser.execute_script(contrast)
    assert len(ratios) > 100
    assert min(ratios) >= 4.5
    text = browser.find_element(By.CSS_SELECTOR, "svg text")
    assert text.size["height"] >= 5


def test_hostile_names_do_nothing(browser, tmp_path):
    write_segment(tmp_path / "<script>document.title='broken'<" / "t-0", 0, [batch(0, [b"v"])])
    bl.report(tmp_path / "<script>document.title='broken'<").save(tmp_path / "page.html")
    opened(browser, tmp_path / "page.html")
    assert browser.get_log("browser") == []
    assert browser.title == "Kafka logs"


def test_a_link_leads_to_its_section_in_a_frame_too(browser, golden, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title>{bl.report(golden / 'logs/kafka-4.1')._repr_html_()}")
    opened(browser, path)
    browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, "iframe"))
    browser.find_element(By.CSS_SELECTOR, "nav a[href='#producers']").click()
    assert browser.execute_script("return document.getElementById('producers').getBoundingClientRect().top") < 800
    assert browser.find_elements(By.ID, "topics")
    browser.switch_to.default_content()
