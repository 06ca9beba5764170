"""The page in a browser: what it draws, with keys, in light and dark, and where it loads from."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import muntin
from muntin.spark.dashboard import Dashboard
from tests.dashboard.chromium import BINARY, MISSING, Browser, browser
from tests.dashboard.stream import Query
from tests.dashboard.test_dashboard import results

pytestmark = pytest.mark.skipif(BINARY is None, reason=MISSING)


@pytest.fixture(scope="module")
def page() -> Iterator[Dashboard]:
    with muntin.dashboard(Query(), results=results) as page:
        yield page


@pytest.fixture(scope="module")
def seen(page: Dashboard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(page.url)
        opened.wait_for("document.documentElement?.dataset.ready === 'yes'")
        yield opened


def test_it_draws_the_figures_and_takes_no_markup_from_data(seen: Browser) -> None:
    shown = seen.evaluate("document.documentElement.outerHTML")
    assert "running, batch 29, watermark 2024-05-01T11:29:00.000Z" in shown
    assert "1,200,000" in shown
    assert shown.count('role="img"') == 8
    assert shown.count('class="band') == 3
    assert 'aria-label="Watermark behind the clock. Last: lag: 60 min"' in shown
    assert "<img" not in shown
    assert "&lt;img src=x onerror" in shown


def test_everything_comes_from_the_page_itself(seen: Browser, page: Dashboard) -> None:
    seen.wait_for("performance.getEntriesByType('resource').length >= 4")
    assert {url.removeprefix(page.url) for url in seen.requested} == {"", "page.css", "page.js", "figures.json"}
    seen.evaluate("window.left = null; fetch('http://127.0.0.1:9/').catch(() => { window.left = 'refused'; }); 0")
    seen.wait_for("window.left === 'refused'")  # by the policy, before a connection


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colour(seen: Browser, selector: str, name: str) -> str:
    found: str = seen.evaluate(f"getComputedStyle(document.querySelector('{selector}'))['{name}']")
    return found


def test_it_is_light_or_dark_as_the_system_is_and_readable_in_both(seen: Browser) -> None:
    papers = {}
    for scheme in ("light", "dark"):
        seen.scheme(scheme)
        papers[scheme] = colour(seen, "body", "background-color")
        for selector in ("body", "#name", "a", "button", "caption", "dt"):
            assert contrast(colour(seen, selector, "color"), papers[scheme]) >= 4.5, (scheme, selector)
        for number in range(3):  # parts of charts need less than text
            assert contrast(colour(seen, f"svg path.s{number}", "stroke"), papers[scheme]) >= 3, (scheme, number)
        assert contrast(colour(seen, "svg text", "fill"), papers[scheme]) >= 4.5
    assert luminance(papers["light"]) > 0.9
    assert luminance(papers["dark"]) < 0.05


def test_it_works_with_the_keyboard(seen: Browser) -> None:
    focused = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
    order = []
    for _ in range(6):
        seen.press("Tab")
        order.append(seen.evaluate(focused))
    assert order == ["skip", "pause", "SUMMARY", "scroll", "A", "BODY"]

    seen.press("Tab")
    seen.press("Enter", text="\r")
    assert seen.evaluate(focused) == "figures"
    seen.evaluate("document.getElementById('pause').focus({focusVisible: true}); 0")
    assert colour(seen, "#pause", "outline-style") == "solid"
    seen.press(" ", text=" ")
    assert seen.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    seen.press(" ", text=" ")
    assert seen.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "false"


def test_screen_readers_hear_what_the_charts_show(seen: Browser) -> None:
    nodes = seen.call("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    charts = [name for role, name in named if role in ("image", "img")]
    assert len(charts) == 8
    assert all("Last: " in name for name in charts)
    assert ("button", "Pause") in named
    assert any(role == "table" and "latest first" in name for role, name in named)
    assert sum(role == "status" for role, _ in named) == 1
    assert all(name for role, name in named if role in ("link", "button", "region", "heading"))
