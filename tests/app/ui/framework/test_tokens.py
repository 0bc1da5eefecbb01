"""Sizes and weights of text are those that app.css names."""

import re

from app.ui.framework.assets import ROOTS

LITERAL = re.compile(r"font-(?:size: *[1-9]|weight: *(?!400\b)[1-9])[^;]*;")


def test_stylesheets_take_sizes_and_weights_of_text_from_the_tokens() -> None:
    literal = {
        path.name: found
        for root in ROOTS
        for path in sorted(root.glob("*.css"))
        if (found := LITERAL.findall(path.read_text().partition(":root {")[2] or path.read_text()))
    }
    assert not literal
