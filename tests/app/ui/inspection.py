"""What is wrong with a page, all of it from one visit: to load a page costs more than to ask it.

The visit is made in the light theme at the width of a desk. The dark theme changes colours only:
there the rules about colours are asked once more, on the same document.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.app.ui.accessibility import RULES_OF_COLOUR, Fault, serious_faults
from tests.app.ui.layout import layout_faults

WATCH_POLICY = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""


@dataclass(frozen=True)
class Inspection:
    """Of one page; what is empty is in order."""

    violations: list[str]  # of the content policy
    hosts: set[str]  # which were sent requests
    accessibility: dict[str, list[Fault]]  # by theme
    layout: dict[int, list[str]]  # by width


def inspect(page: Page, paths: Iterable[str]) -> dict[str, Inspection]:
    """Visit the paths one after the other."""
    page.add_init_script(WATCH_POLICY)
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    inspections = {}
    for path in paths:
        hosts.clear()
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path)
        light = serious_faults(page)
        page.emulate_media(color_scheme="dark")
        dark = serious_faults(page, rules=RULES_OF_COLOUR)
        layout = layout_faults(page)
        violations = page.evaluate("window.violations")
        themes = {"light": light, "dark": dark}
        inspections[path] = Inspection(violations, set(hosts), themes, layout)
    return inspections
