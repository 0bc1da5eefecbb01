"""What is wrong with the layout of a page at a width: overflow, and targets too small to touch."""

from playwright.sync_api import Page

WIDTHS = (360, 768, 1280, 1920)
PHONE = WIDTHS[0]
TARGET_PX = 24
FAULTS_SHOWN = 6
# A link within a sentence is as high as its line, and what cannot be pressed is no target.
MEASURE = """([leastPx, isTouched]) => {
  const faults = [];
  const end = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > end) {
    const wide = [...document.querySelectorAll("main *, .bar *")].filter((element) =>
      element.getBoundingClientRect().right > end + 0.5
      && !element.closest(".table-box, [popover]"));
    faults.push(`overflow: ${wide.slice(0, 3).map((element) => element.outerHTML.slice(0, 120))}`);
  }
  if (!isTouched) return faults;
  const isSentence = (link) => {
    const all = link.parentElement.textContent.replace(/\\s+/g, "");
    const links = [...link.parentElement.querySelectorAll("a, .sr-only")];
    const theirs = links.reduce((sum, one) => sum + one.textContent.replace(/\\s+/g, "").length, 0);
    return getComputedStyle(link).display === "inline" && all.length - theirs > 3;
  };
  const targets = "a[href], button, summary, select, textarea, input:not([type=hidden])";
  for (const target of document.querySelectorAll(targets)) {
    if (!target.checkVisibility({ visibilityProperty: true })) continue;
    if (target.closest(".sr-only, .skip") || target.disabled) continue;
    const place = target.closest("label") ?? target;
    const { width, height } = place.getBoundingClientRect();
    if (!width || (width >= leastPx - 0.5 && height >= leastPx - 0.5)) continue;
    if (target.matches("a") && isSentence(target)) continue;
    const size = `${Math.round(width)}x${Math.round(height)}`;
    faults.push(`${size}: ${target.outerHTML.replace(/\\s+/g, " ").slice(0, 140)}`);
  }
  return faults;
}"""


def layout_faults(page: Page) -> dict[int, list[str]]:
    """The first faults of the page at each width; empty where there are none."""
    faults = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if there := page.evaluate(MEASURE, [TARGET_PX, width == PHONE]):
            faults[width] = there[:FAULTS_SHOWN]
    return faults
