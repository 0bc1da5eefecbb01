"""Untrusted Markdown as safe HTML. Pure.

Raw HTML is shown as text. Links lead to http, https, mailto and pages of this server, without a
referrer; an image becomes a link, because pages load nothing from other servers.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SCHEMES = frozenset({"", "http", "https", "mailto"})


def html(text: str) -> Markup:
    """Render the text as safe HTML: every part is generated here or escaped."""
    return Markup(_reader().render(text))  # noqa: S704 - raw HTML is off


def is_safe_link(address: str) -> bool:
    """Whether a link to the address is allowed."""
    address = address.strip()
    # Browsers pass over control characters inside a scheme and take "\\" for "/".
    if not address.isprintable() or "\\" in address or address.startswith("//"):
        return False
    try:
        return urlsplit(address).scheme.lower() in SCHEMES
    except ValueError:
        return False


@functools.cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # imported late, because it loads slowly

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    reader.validateLink = is_safe_link  # type: ignore[assignment]
    reader.add_render_rule("link_open", _link)
    reader.add_render_rule("image", _image)
    reader.add_render_rule("th_open", _cell)
    reader.add_render_rule("td_open", _cell)
    return reader


def _link(self: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    return str(self.renderToken(tokens, at, options, env))


def _cell(self: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    """A cell without the style attribute, which the content security policy forbids."""
    tokens[at].attrs.pop("style", None)
    return str(self.renderToken(tokens, at, options, env))


def _image(self: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    """The alternative text of an image as a link, or as plain text inside a link."""
    token = tokens[at]
    words = token.content or str(token.attrs["src"])
    link = '<a href="{}" rel="noopener noreferrer nofollow">{}</a>'
    types = [each.type for each in tokens[:at]]
    is_within = types.count("link_open") > types.count("link_close")
    template = Markup("{1}" if is_within else link)  # noqa: S704 - it escapes its values
    return str(template.format(token.attrs["src"], words))
