"""The detail of an alert in the reader's language; it is kept in English, as receivers get it."""

import re

from app.ui.framework.language import N_, _, translated

LENGTHS = {
    "s": N_("%(n)s s"),
    "min": N_("%(n)s min"),
    "h": N_("%(n)s h"),
    "d": N_("%(n)s d"),
}
PHRASES = (
    N_("%(count)s unread"),
    N_("nothing is unread"),
    N_("oldest unread message: %(age)s"),
    N_("%(count)s new dead letters within %(window)s; %(open)s open in all"),
    N_(
        "%(count)s new dead letters within %(window)s, %(closed)s more are resent or dismissed; "
        "%(open)s open in all"
    ),
    N_("no group matches %(pattern)s"),
    N_("no group reads a topic like %(pattern)s yet"),
    N_("reads no topic like %(pattern)s"),
    N_("no topic matches %(pattern)s"),
    N_("last message: %(age)s ago"),
    N_("holds no message"),
    N_("%(percent)s %% used, %(free)s GiB free"),
    N_("none failed"),
    N_("%(count)s failed, the last: %(error)s"),
    N_("does not cover the last %(age)s"),
    N_("it has no figures yet"),
    N_("no report is scheduled"),
)


def _pattern(phrase: str) -> re.Pattern[str]:
    text = re.escape(phrase.replace("%%", "%"))
    text = re.sub(r"%\\\((pattern|error)\\\)s", r"(?P<\1>.+)", text)
    return re.compile(re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>[\\d.,]+(?: [a-z]+)?)", text))


PATTERNS = {phrase: _pattern(phrase) for phrase in PHRASES}


def detail_of(text: str) -> str:
    """The detail in words of the reader's language; what is no phrase of ours stays as it is."""
    for phrase, pattern in PATTERNS.items():
        if match := pattern.fullmatch(text):
            values = {name: _length(value) for name, value in match.groupdict().items()}
            return _(phrase, **values) if values else translated(phrase)
    return text


def _length(value: str) -> str:
    n, __, unit = value.rpartition(" ")
    return _(LENGTHS[unit], n=n) if unit in LENGTHS and n else value
