"""Stylesheets: what they may say, and for whom."""

import re
from pathlib import Path

from app.ui.framework.assets import ROOTS, STYLE_ORDER, Assets

UI = Path(__file__).parents[4] / "app/ui"
SHEETS = [
    path for root in ROOTS for path in sorted(root.rglob("*.css")) if path.parent.name != "vendor"
]
LITERAL = re.compile(r"font-(?:size: *[1-9]|weight: *(?!400\b)[1-9])[^;]*;")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SELECTOR = re.compile(r"([^{};]+)\{")
CLASS = re.compile(r"\.([a-zA-Z][\w-]*)")
ATTRIBUTE = re.compile(r'\bclass="((?:\{[{%].*?[%}]\}|[^"])*)"', re.DOTALL)
QUOTED = re.compile(r"""["'`]([^"'`\n]*)["'`]""")
WORD = re.compile(r"[a-zA-Z][\w-]*")
MADE = re.compile(r"([a-z][\w-]*-)(?:\$?\{|[\"'] [~+])")  # the rest of the class is a value
FOREIGN = {"uplot"}  # classes of vendored scripts


def test_stylesheets_take_sizes_and_weights_of_text_from_the_tokens() -> None:
    literal = {
        path.name: sizes
        for path in SHEETS
        if path.name != "tokens.css" and (sizes := LITERAL.findall(path.read_text()))
    }
    assert not literal


def test_each_file_of_the_common_style_has_its_place_in_the_order() -> None:
    folder = UI / "framework/static/app"
    assert sorted(STYLE_ORDER) == sorted(path.stem for path in folder.iterdir())
    assert Assets().url("app.css").startswith("/static/app.css?v=")


def test_no_rule_is_for_a_class_that_nothing_uses() -> None:
    used = set(FOREIGN)
    beginnings: set[str] = set()
    for path in UI.rglob("*"):
        if path.suffix not in {".html", ".js", ".py"} or "vendor" in path.parts:
            continue
        text = path.read_text()
        in_quotes = ATTRIBUTE if path.suffix == ".html" else QUOTED
        for value in [*in_quotes.findall(text), *QUOTED.findall(text)]:
            used.update(WORD.findall(value))
        beginnings.update(MADE.findall(text))
    unused = {
        f"{path.name}: .{name}"
        for path in SHEETS
        for selector in SELECTOR.findall(COMMENT.sub("", path.read_text()))
        for name in CLASS.findall(selector)
        if name not in used and not name.startswith(tuple(beginnings))
    }
    assert not unused
