"""What axe-core finds on a page: tests demand that nothing of it is serious or critical."""

from pathlib import Path

from playwright.sync_api import Page

SCRIPT = (Path(__file__).parent / "vendor" / "axe-4.14.1.min.js").read_text()
RUN = """([within, rules]) => axe.run(within || document,
  {resultTypes: ["violations"], ...(rules.length ? {runOnly: rules} : {})})"""
# Those whose outcome another theme can change.
RULES_OF_COLOUR = ("color-contrast", "link-in-text-block")
WEIGHTY = ("serious", "critical")
NODES_SHOWN = 3
HTML_SHOWN = 160

Fault = tuple[str, list[str]]


def serious_faults(
    page: Page, within: str | None = None, *, rules: tuple[str, ...] = ()
) -> list[Fault]:
    """Each fault's rule and the first elements that break it.

    `within` is a selector; `rules` are those that are asked, all where none is named.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(SCRIPT)
    report = page.evaluate(RUN, [within, rules])
    return [
        (fault["id"], [node["html"][:HTML_SHOWN] for node in fault["nodes"][:NODES_SHOWN]])
        for fault in report["violations"]
        if fault["impact"] in WEIGHTY
    ]
