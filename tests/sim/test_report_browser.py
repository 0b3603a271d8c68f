"""The report as people see it: opened from a disk in a real browser, wide and narrow, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import open_browser
from playwright.sync_api import Browser, Page
from test_report import EVIL, report_of

from muster.sim.scenario.loader import load

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on disk: of the demo, of a race (no nodes at all), and of names that try to do harm."""
    folder = tmp_path_factory.mktemp("reports")
    made = {name: report_of(load(str(EXAMPLES / f"{name}.yaml"))) for name in ("demo", "race")}
    made["evil"] = report_of(EVIL)
    paths = {}
    for name, text in made.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(text, encoding="utf-8")
    return paths


@contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, scheme: str = "light"
) -> Iterator[tuple[Page, list[str]]]:
    """A page, and all that the browser complains about or fetches beside it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page, trouble = context.new_page(), []
    page.on("console", lambda message: trouble.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: request.url == path.as_uri() or trouble.append(f"fetched: {request.url}"))
    page.goto(path.as_uri())
    yield page, trouble
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["demo", "race", "evil"])
def test_a_report_opens_without_complaint_and_fits_the_screen(browser, reports, name, scheme, width):
    with opened(browser, reports[name], width=width, scheme=scheme) as (page, trouble):
        for plot in page.query_selector_all("figure.plot svg"):
            plot.hover()
        lightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (lightness > 200) == (scheme == "light")
        assert trouble == []


def test_the_pointer_reads_values_out_and_leaves_nothing_behind(browser, reports):
    with opened(browser, reports["demo"]) as (page, _):
        plot = page.query_selector("figure.plot")
        readout = plot.query_selector(".readout")
        before = readout.inner_text().strip()
        plot.query_selector("svg").hover(position={"x": 20, "y": 40})
        during = readout.inner_text().replace("\u00a0", " ")
        page.mouse.move(0, 0)

        assert before == ""
        assert during == "0 s – 20 s: GPUs 25.0 %, cores 79.2 %, memory 27.5 %, goodput of GPUs 25.0 %"
        assert readout.inner_text().strip() == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_words_of_a_plot_lie_over_each_other_or_outside(browser, reports, width):
    with opened(browser, reports["demo"], width=width) as (page, _):
        overlaps = page.evaluate(_OVERLAPS)

    assert overlaps == []


_OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("figure.plot svg")) {
    const around = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([name, box], i) => {
      if (box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1)
        found.push(`outside: ${name}`);
      for (const [other, rest] of boxes.slice(i + 1))
        if (box.left < rest.right && rest.left < box.right && box.top < rest.bottom && rest.top < box.bottom)
          found.push(`${name} over ${other}`);
    });
  }
  return found;
}"""


def test_names_are_shown_as_they_are_and_never_run(browser, reports):
    with opened(browser, reports["evil"]) as (page, trouble):
        words = page.inner_text("body")

        assert page.evaluate("window.harmed") is None
        assert page.query_selector("img, iframe, a, link, object") is None
        assert "<script>window.harmed=1</script>" in words
        assert trouble == []


def test_every_table_has_headings_for_rows_and_columns_and_every_plot_has_words(browser, reports):
    with opened(browser, reports["demo"]) as (page, _):
        tables = page.query_selector_all("table")
        assert len(tables) == 5
        for table in tables:
            assert table.query_selector("caption").inner_text()
            assert len(table.query_selector_all("thead th[scope=col]")) > 2
            rows = table.query_selector_all("tbody tr")
            assert rows
            assert all(row.query_selector("th[scope=row]") for row in rows)
        assert all(svg.get_attribute("aria-label") for svg in page.query_selector_all("svg[role=img]"))
        assert page.title() == "test – Muster simulation report"
