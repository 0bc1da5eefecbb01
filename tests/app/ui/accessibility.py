"""What axe-core finds on a page: tests demand that nothing of it is serious or critical."""

from pathlib import Path

from playwright.sync_api import Page

SCRIPT = (Path(__file__).parent / "vendor" / "axe-4.14.1.min.js").read_text()
RUN = """(within) => axe.run(within || document, {resultTypes: ["violations"]})"""
WEIGHTY = ("serious", "critical")
NODES_SHOWN = 3
HTML_SHOWN = 160


def serious_faults(page: Page, within: str | None = None) -> list[tuple[str, list[str]]]:
    """Each fault's rule and the first elements that break it; `within` is a selector."""
    page.evaluate(SCRIPT)
    report = page.evaluate(RUN, within)
    return [
        (fault["id"], [node["html"][:HTML_SHOWN] for node in fault["nodes"][:NODES_SHOWN]])
        for fault in report["violations"]
        if fault["impact"] in WEIGHTY
    ]
