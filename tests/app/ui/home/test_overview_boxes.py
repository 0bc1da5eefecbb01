"""The Overview's tiles and cards stand beside one another at every width, whatever they hold."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.ui.conftest import OpenPage
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

WIDTHS = (320, 360, 390, 480, 560, 640, 720, 768, 820, 900, 960, 1024, 1100, 1180, 1280, 1366, 1440,
          1520, 1600)  # fmt: skip
# As large as figures get, in the places of those that the page came with.
LONG = """() => {
  const long = ["123,456.7", "98,765.4", "1,234,567,890 ", "12,345,678", "1,234,567", "1 h 23 min",
                "1,023.9 GiB", "1,023.9 GiB"];
  const notes = ["messages / s", "messages / s", "1,234 groups", "1,234,567 waiting to retry",
                 "all groups", "last minutes", "1,234,567,890 messages in 1,234 topics",
                 "on the data directory's disk"];
  document.querySelectorAll("#overview .metric").forEach((tile, index) => {
    const figure = tile.querySelector("dd:not(.note)");
    figure.textContent = long[index];
    if (index === 2) {
      const unknown = document.createElement("span");
      unknown.className = "unknown";
      unknown.innerHTML = "+1,234 unknown<span class='sr-only'>: " + "no member tells ".repeat(9);
      figure.append(unknown);
    }
    tile.querySelector(".note").textContent = notes[index];
  });
}"""
# What is wrong: texts outside of their tile or card, tiles or cards over one another.
WRONG = """() => {
  const found = [];
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
  const inside = (text, box) => text.left >= box.left - 0.5 && text.right <= box.right + 0.5
    && text.top >= box.top - 0.5 && text.bottom <= box.bottom + 0.5;
  const kinds = ["#overview .metric", "#overview .card", "#overview .facts > div",
                 "#overview .matters li", "#overview .tiles .metric > *"];
  for (const kind of kinds) {
    const boxes = [...document.querySelectorAll(kind)];
    boxes.forEach((one, index) => boxes.slice(index + 1).forEach((other) => {
      if (over(one.getBoundingClientRect(), other.getBoundingClientRect()))
        found.push(`${kind}: ${one.innerText} over ${other.innerText}`);
    }));
  }
  const parts = "#overview .metric > *, #overview .facts dt, #overview .facts dd, "
    + "#overview .matters p";
  document.querySelectorAll(parts)
    .forEach((part) => {
      const box = part.closest(".metric, .facts > div, .matters li").getBoundingClientRect();
      const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        if (text.parentElement.closest(".sr-only")) continue;  // clipped: it is only read out
        const range = document.createRange();
        range.selectNodeContents(text);
        for (const line of range.getClientRects())
          if (!inside(line, box)) found.push(`${part.innerText} leaves its box`);
      }
    });
  const heads = [...document.querySelectorAll("#overview .card-head > *, #overview h2")];
  heads.forEach((part, index) => {
    heads.slice(index + 1).forEach((other) => {
      const apart = !part.contains(other) && !other.contains(part);
      if (apart && over(part.getBoundingClientRect(), other.getBoundingClientRect()))
        found.push(`${part.innerText} over ${other.innerText}`);
    });
  });
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const end = document.documentElement.clientWidth;
  const widest = [...document.querySelectorAll("body *")].filter((part) =>
    part.getBoundingClientRect().right > end + 0.5 && !part.closest(".table-box, .side"))
    .map((part) => part.tagName + "." + part.className);
  if (wide > 0) found.push(`the page is ${wide} px too wide: ${widest.slice(0, 8)}`);
  return found;
}"""


def wrong(page: Page, widths: tuple[int, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        told = page.evaluate(WRONG)
        if told:
            found[width] = told
    return found


def test_every_tile_has_a_line_and_every_object_stands_once(
    open_page: OpenPage, scenery: Scenery
) -> None:
    scenery.send("tiles", [{"body": "1"}])
    scenery.ack("tiles-group", scenery.receive("tiles-group", "tiles", 1))
    scenery.post("/groups/tiles-group/pause", None)
    page = open_page("/", refresh_s=2)
    expect(page.locator(".tiles .tile-line .spark")).to_have_count(8, timeout=60_000)
    rows = page.locator(".matters li")
    billing = page.locator(".matters li").filter(has=page.get_by_role("link", name="billing"))
    expect(billing).to_have_count(1)
    expect(billing).to_contain_text("Alert “billing is behind”")
    expect(billing).to_contain_text("dead letters")
    ids = rows.evaluate_all("rows => rows.map((row) => row.id)")
    assert len(ids) == len(set(ids))
    tones = rows.evaluate_all("rows => rows.map((row) => row.className)")
    assert tones == sorted(tones), "tone-bad before tone-warn"
    stripes = rows.evaluate_all("rows => rows.map((row) => getComputedStyle(row).borderLeftColor)")
    assert len(set(stripes)) == len(set(tones)) == 2
    paused = page.locator("#matter-group-tiles-group")
    expect(paused.locator(".status")).to_have_text("Paused")
    paused.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume").click()
    expect(page).not_to_have_url(re.compile("/resume"))
    page.goto("/")
    expect(page.locator("#matter-group-tiles-group")).to_have_count(0)


@pytest.mark.parametrize("lang", ["en", "zh-CN"])
def test_nothing_on_the_overview_runs_over_something_else(
    open_page: OpenPage, scenery: Scenery, lang: str
) -> None:
    scenery.send("boxes", [{"body": "1"}])
    scenery.receive("boxes-group", "boxes", 1)
    page = open_page("/")
    cookie = {"name": "kitemq_language", "value": lang, "url": page.url}
    page.context.add_cookies([cookie])  # type: ignore[list-item]
    page.reload()
    assert wrong(page, WIDTHS) == {}
    page.evaluate(LONG)
    assert wrong(page, WIDTHS) == {}
