"""Details of alerts in the reader's language."""

import re
from collections.abc import Iterator

import pytest

from app.ui.alerts.details import PATTERNS, detail_of
from app.ui.framework.language import Language, speak

# As app/services/alerts/readings.py writes them.
DETAILS = (
    "4,800 unread",
    "nothing is unread",
    "oldest unread message: 12 min",
    "3 new dead letters within 24 h; 1,234 open in all",
    "3 new dead letters within 24 h, 2 more are resent or dismissed; 9 open in all",
    "no group matches GROUPS*",
    "no group reads a topic like TOPIC* yet",
    "reads no topic like TOPIC*",
    "no topic matches X*",
    "last message: 3 d ago",
    "holds no message",
    "91.5 % used, 1,024.0 GiB free",
    "none failed",
    "2 failed, the last: OUT OF MEMORY",
    "does not cover the last 7 h",
    "it has no figures yet",
    "no report is scheduled",
)


@pytest.fixture
def chinese() -> Iterator[None]:
    speak(Language.CHINESE)
    yield
    speak(Language.ENGLISH)


@pytest.mark.parametrize("text", DETAILS)
def test_a_detail_is_itself_in_english(text: str) -> None:
    assert detail_of(text) == text


@pytest.mark.parametrize("text", DETAILS)
def test_a_detail_leaves_no_english_words_in_chinese(text: str, chinese: None) -> None:
    told = detail_of(text)
    assert not re.search(r"\b[a-z]{2,}", told), told
    for value in re.findall(r"\d[\d.,]*|[A-Z]{2,}", text):
        assert value.rstrip(",") in told


def test_each_phrase_is_of_a_detail_and_another_text_stays() -> None:
    for pattern in PATTERNS.values():
        assert any(map(pattern.fullmatch, DETAILS)), pattern
    assert detail_of("the engine's clock stands still") == "the engine's clock stands still"
