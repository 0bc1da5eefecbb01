"""Help explains every word and names the keys that there are; each setting does something."""

import re
from pathlib import Path

import pytest
from markupsafe import escape

from app.ui.framework import language
from app.ui.framework.language import Language
from app.ui.framework.templating import ROOTS
from app.ui.help import glossary, help
from tests.app.conftest import URL, App, started

pytestmark = pytest.mark.anyio

HTML = {"accept": "text/html"}
STATIC = Path(language.__file__).parent / "static"
DRAWER = STATIC.parents[1] / "messages/static"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_every_word_is_there_with_its_place_in_both_languages(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as app:
        for spoken, said in ((Language.ENGLISH, "en"), (Language.CHINESE, "zh-CN")):
            headers = HTML | {"accept-language": said}
            html = (await app.http.get("/help", headers=headers)).text
            language.speak(spoken)
            assert f'<html lang="{said}"' in html
            for term in glossary.TERMS.values():
                assert f'id="{term.slug}"' in html
                assert language.translated(term.name) in html, term.slug
                text = language.translated(term.text)
                assert str(escape(text)) in html, term.slug
                assert (text == term.text) is (spoken is Language.ENGLISH), term.slug
        language.speak(Language.ENGLISH)
        for path in {term.href for term in glossary.TERMS.values()} | {p for p, __ in help.LINKS}:
            assert (await app.http.get(path, headers=HTML)).status_code == 200, path


async def test_words_are_found_by_a_piece_in_either_language(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as app:
        headers = HTML | {"accept-language": "zh-CN"}
        for text in ("Half mess", "半消息"):
            html = (await app.http.get(f"/help?q={text}", headers=headers)).text
            terms = {slug for slug in glossary.TERMS if f'<div id="{slug}">' in html}
            assert terms == {"half-message", "check"}, text
        twin = (await app.http.get("/help?q=receipt&format=json")).json()
        assert [term["slug"] for each in twin["chapters"] for term in each["terms"]] == ["pop"]
        none = await app.http.get("/help?q=no-such-word", headers=HTML)
        assert "No matching terms" in none.text


def test_links_to_words_lead_to_words_that_there_are() -> None:
    linked = set()
    for path in (path for root in ROOTS for path in root.glob("*.html")):
        linked |= set(re.findall(r'm\.word\("([a-z-]+)"\)', path.read_text()))
    assert len(linked) >= 8
    assert linked <= set(glossary.TERMS)


def test_help_names_exactly_the_keys_that_the_script_knows() -> None:
    script = (STATIC / "app.js").read_text()
    places = re.search(r"const PLACES = \{(.*?)\};", script, re.DOTALL)
    assert places is not None
    known = {f"g {key}" for key in re.findall(r'(\w): "/', places[1])}
    known |= set(re.findall(r'event\.key === "([/?r])"', script)) | {"Ctrl K", "Esc"}
    drawer = (DRAWER / "drawer.js").read_text()
    steps = re.search(r"\{ (\w): 1, (\w): -1 \}\[event\.key\]", drawer)
    assert steps is not None
    known.add(" ".join(steps.groups()))
    assert {keys for keys, __ in help.KEYS} == known


async def choose(app: App, **values: str) -> str:
    """Save settings as the page does; the page afterwards."""
    form = {"theme": "auto", "refresh": "5", "zone": "UTC", "language": "auto"} | values
    answer = await app.http.post("/settings", data=form, headers={"origin": URL})
    assert answer.status_code == 303, answer.text
    return (await app.http.get("/topics", headers=HTML)).text


SHOWN: tuple[tuple[dict[str, str], str], ...] = (
    ({"theme": "dark"}, 'data-theme="dark"'),
    ({"zone": "Asia/Tokyo"}, 'data-zone="Asia/Tokyo"'),
    ({"density": "compact"}, 'data-density="compact"'),
    ({"density": "comfortable"}, 'data-density="comfortable"'),
    ({"keys": "off"}, 'data-keys="off"'),
    ({"language": "zh-CN"}, '<html lang="zh-CN"'),
    ({"language": "auto"}, '<html lang="en"'),  # the browser's own, never the word "auto"
    ({"refresh": "2"}, 'value="2" selected'),
)


async def test_each_setting_shows_on_every_page(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as app:
        for values, expected in SHOWN:
            html = await choose(app, **values)
            assert expected in html, values
            settings = (await app.http.get("/settings", headers=HTML)).text
            assert 'lang="auto"' not in html + settings
            for value in values.values():
                chosen = f'value="{value}" selected'
                zone = f'name="zone" list="zones" value="{value}"'
                assert chosen in settings or zone in settings, values


async def test_what_no_setting_knows_changes_nothing(tmp_path: Path) -> None:
    async with started(tmp_path / "data") as app:
        await choose(app, density="compact", keys="off")
        html = await choose(app, density="tiny", keys="maybe", language="xx")
        assert 'data-density="compact"' in html
        assert 'data-keys="off"' in html
