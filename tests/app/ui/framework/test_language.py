"""The console in two languages: every text is in the catalogue, and every page is in Chinese."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest
from babel.messages.catalog import Message
from jinja2 import nodes
from playwright.sync_api import expect

from app.ui.framework import formats, language
from app.ui.framework.language import Language
from app.ui.framework.templating import ROOTS
from tests.app.ui import texts
from tests.app.ui.addresses import PAGES
from tests.app.ui.conftest import OpenPage, Site

AXE = Path(__file__).parents[1] / "vendor" / "axe-4.14.1.min.js"
CHINESE = re.compile(r"[\u4e00-\u9fff]")
PLACEHOLDER = re.compile(r"%\(\w+\)s|%%")
TAG = re.compile(r"<[^>]+>")
WORD = re.compile(r"[A-Za-z]{2,}")
SENTENCE = re.compile(r"[A-Za-z]{2,}[,.;:…]? [A-Za-z]{2,}")
SPOKEN_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt")
SILENT_TAGS = ("code", "kbd", "pre", "script", "style")
TRANSLATORS = ("_", "gettext", "ngettext")
# Names of products, formats and keys, and what is typed or read by programs.
CODE_WORDS = re.compile(
    r"KiteMQ|RocketMQ|API|Parquet|JSON|CSV|XLSX|NDJSON|UTC|OpenTelemetry|format=json|DLQ|WebSocket|Ctrl"
    r"|&\w+;"
)
CODE_LITERALS = re.compile(
    r"light dark$|(kitemq|curl) |(topics|groups) (show|lag|delete|change|import)\b"
    r"|source: |(strip|button|num|every)\b"
    # Classes, and what a form waits for.
    r"|((opt|mono|hex|(share|star|tail)-\w+)( [\w-]+)+|messages (found|tail-table))$|input delay:"
)
# The name of a rule in the scenery, and a detail that the engine writes.
SAID_BY_OTHERS = {"billing is behind", "no producer connected"}
# What a macro says that makes attributes only.
ATTRIBUTE = re.compile(r'[\w:-]+="[^"]*"|^<\w+|\bdata-live\b|^disabled\b')
NARROW_PAGES = ("/", "/groups", "/dlq/billing", "/trace/REMINDER1", "/topics/orders", "/engine")


@pytest.fixture
def chinese(site: Site) -> Iterator[httpx.Client]:
    headers = {"accept": "text/html", "accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}
    with httpx.Client(base_url=site.base, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
def in_chinese() -> Iterator[None]:
    language.speak(Language.CHINESE)
    yield
    language.speak(Language.ENGLISH)


def forms_of(message: Message) -> tuple[str, str]:
    """The English text that has all placeholders, and the Chinese one."""
    said = message.string if isinstance(message.string, str) else (message.string or [""])[0]
    return (message.id if isinstance(message.id, str) else message.id[-1]), said


def test_every_text_has_a_chinese_one_and_the_catalogue_holds_no_other() -> None:
    used = {message.id for message in texts.extract() if message.id}
    catalogue = texts.read(Language.CHINESE)
    held = {message.id: message for message in catalogue if message.id}
    assert len(used) > 1000
    assert sorted(map(str, used - held.keys())) == []
    assert sorted(map(str, held.keys() - used)) == []
    assert not catalogue.obsolete
    assert [id for id, message in held.items() if message.fuzzy] == []
    assert [id for id, message in held.items() if not texts.is_translated(message)] == []


def test_a_chinese_text_has_the_placeholders_and_the_tags_of_the_english_one() -> None:
    wrong = []
    for message in texts.read(Language.CHINESE):
        if message.id:
            english, said = forms_of(message)
            for pattern in (PLACEHOLDER, TAG):
                if sorted(pattern.findall(english)) != sorted(pattern.findall(said)):
                    wrong.append((english, said))
            # It may stand in an attribute, where a quotation mark would end it.
            if said.count('"') != english.count('"'):
                wrong.append((english, said))
    assert wrong == []


class Speech(HTMLParser):
    """What a page says: its texts, and the attributes that are read out."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT_TAGS
        self.said += [text for name, text in attrs if name in SPOKEN_ATTRIBUTES and text]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT_TAGS

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.said.append(data)


def speech(html: str) -> list[str]:
    parser = Speech()
    parser.feed(html)
    return [" ".join(text.split()) for text in parser.said if text.strip()]


def raw_html(environment: jinja2.Environment, source: str) -> str:
    """A template without what Jinja puts in, and without what is translated as a block."""
    html, is_translated, is_opening = "", False, False
    for _, kind, value in environment.lex(source):
        if kind == "block_begin":
            is_opening = True
        elif kind == "name" and is_opening:
            is_opening = False
            if value in ("trans", "endtrans"):
                is_translated = value == "trans"
        elif kind == "data" and not is_translated:
            html += value
        elif kind == "variable_begin":
            html += "\x00"
    return html


def literals(node: nodes.Node) -> Iterator[str]:
    """Texts in a template's expressions that are given to no translator."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        yield node.value
    is_translator = (
        isinstance(node, nodes.Call)
        and isinstance(node.node, nodes.Name)
        and node.node.name in TRANSLATORS
    )
    parts = (
        [pair.value for pair in node.kwargs]
        if is_translator and isinstance(node, nodes.Call)
        else node.iter_child_nodes()
    )
    for part in parts:
        yield from literals(part)


@pytest.mark.parametrize(
    "path",
    sorted(path for root in ROOTS for path in root.glob("*.html")),
    ids=lambda path: path.name,
)
def test_a_template_says_nothing_that_cannot_be_translated(path: Path) -> None:
    environment = jinja2.Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    source = path.read_text()
    raw = speech(raw_html(environment, source))
    raw = [ATTRIBUTE.sub("", text) for text in raw]
    assert [text for text in raw if WORD.search(CODE_WORDS.sub("", text))] == []
    said = literals(environment.parse(source))
    assert [s for s in said if SENTENCE.search(s) and not CODE_LITERALS.match(s.strip())] == []


def test_the_test_above_finds_raw_text() -> None:
    environment = jinja2.Environment(extensions=["jinja2.ext.i18n"], autoescape=True)
    source = (
        '{{ _("fine") }}<p title="not fine">and {% trans %}fine{% endtrans %}</p>'
        '{{ m.empty("no good", _("fine", n="bad too")) }}<code>fine too</code>'
    )
    assert speech(raw_html(environment, source)) == ["\x00", "not fine", "and", "\x00"]
    assert list(literals(environment.parse(source))) == ["no good", "bad too"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_in_chinese(chinese: httpx.Client, path: str) -> None:
    html = chinese.get(path).text
    assert '<html lang="zh-CN"' in html
    assert "%(" not in html
    heading = re.findall(r"<h1.*?</h1>", html, re.DOTALL)[0]
    assert CHINESE.search(heading) or "mono-name" in heading, heading
    english = {id for id in map(english_of, texts.read(Language.CHINESE)) if SENTENCE.search(id)}
    assert [said for said in speech(html) if said in english - SAID_BY_OTHERS] == []


def english_of(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def test_the_twin_and_the_exports_are_english_whatever_the_browser_asks_for(
    chinese: httpx.Client,
) -> None:
    for path in ("/?format=json", "/dlq/billing?format=json", "/audit/export"):
        answer = chinese.get(path)
        assert answer.status_code == 200
        assert not CHINESE.search(answer.text), path
    assert CHINESE.search(chinese.get("/").text)


def test_the_language_is_the_browsers_until_one_is_chosen(site: Site) -> None:
    with httpx.Client(base_url=site.base, headers={"accept": "text/html"}, timeout=30) as client:
        form = {"theme": "auto", "refresh": "0", "zone": "UTC", "next": "/topics"}
        assert '<html lang="en"' in client.get("/topics").text
        german_first = {"accept-language": "de, zh;q=0.7, en;q=0.3"}
        assert '<html lang="zh-CN"' in client.get("/topics", headers=german_first).text
        client.post("/preferences", data={**form, "language": "zh-CN"})
        assert '<html lang="zh-CN"' in client.get("/topics").text
        client.post("/settings", data={**form, "language": "en"})
        assert '<html lang="en"' in client.get("/topics", headers=german_first).text
        client.post("/settings", data={**form, "language": "auto"})
        assert '<html lang="zh-CN"' in client.get("/topics", headers=german_first).text


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Language.ENGLISH),
        ("fr", Language.ENGLISH),
        ("zh", Language.CHINESE),
        ("ZH-Hans-CN", Language.CHINESE),
        ("en-GB,zh;q=0.9", Language.ENGLISH),
        ("en;q=0.2,zh-TW;q=0.3", Language.CHINESE),
        ("zh;q=0, en;q=0.1", Language.ENGLISH),
        ("zh;q=nonsense", Language.ENGLISH),
    ],
)
def test_what_a_browser_asks_for_first_is_what_it_gets(accept: str, expected: Language) -> None:
    assert language.preferred(accept) is expected


@pytest.mark.usefixtures("in_chinese")
def test_values_and_counts_are_put_into_the_chinese_sentence() -> None:
    assert formats.ago(1000, 61_000) == "60 秒前"
    assert formats.ago(61_000, 1000) == "60 秒后"
    one = "%(num)s dead letter, %(new)s new since yesterday."
    many = "%(num)s dead letters, %(new)s new since yesterday."
    comma = "\N{FULLWIDTH COMMA}"
    sentence = language.ngettext(one, many, 1, new="1")
    assert sentence == f"1 条死信{comma}自昨天以来新增 1 条。"
    sentence = language.ngettext(one, many, 1200, new="9")
    assert sentence == f"1,200 条死信{comma}自昨天以来新增 9 条。"
    assert language.translated("no such text") == "no such text"


def test_english_has_a_singular_and_a_plural() -> None:
    assert language.ngettext("%(num)s key", "%(num)s keys", 1) == "1 key"
    assert language.ngettext("%(num)s key", "%(num)s keys", 0) == "0 keys"


@pytest.mark.browser
def test_pages_in_chinese_are_accessible_and_fit_a_telephone(
    open_page: OpenPage, site: Site
) -> None:
    page = open_page("/settings", width=390)
    page.get_by_label("Language", exact=True).last.select_option("zh-CN")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="本浏览器的设置")).to_be_visible()
    script = AXE.read_text()
    faults: dict[str, Any] = {}
    for path in NARROW_PAGES:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.evaluate(script)
        report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [v for v in report["violations"] if v["impact"] in ("serious", "critical")]
        if serious:
            faults[path] = [(v["id"], [n["html"][:160] for n in v["nodes"][:3]]) for v in serious]
    assert not faults


@pytest.mark.browser
def test_scripts_speak_the_language_of_the_page(open_page: OpenPage, site: Site) -> None:
    page = open_page("/settings")
    page.context.add_cookies([{"name": "kitemq_language", "value": "zh-CN", "url": site.base}])
    page.goto("/topics/orders")
    expect(page.locator("#data-age")).to_have_text(re.compile(r"^\d+ 秒前$"))
    page.goto("/tail?topic=orders")
    expect(page.get_by_text("跟踪中", exact=True)).to_be_visible()
