"""The words of the console: phrases that no text may use, each with the one to use instead."""

import re

from tests.app.ui import texts

# As a phrase, and the words of the field that say the same. Folded case, whole words.
ABOLISHED = {
    "tick": "select",
    "ticked": "selected",
    "mend": "fix, correct",
    "mending": "fix",
    "whoever": "everyone who",
    "in vain": "failed",
    "look through": "search",
    "look on": "continue",
    "go on": "continue",
    "somebody": "an operator, a user",
    "anybody": "the passive voice",
    "nobody": "none, not",
    "handed out": "delivered",
    "hand-out": "delivery",
    "hand-outs": "deliveries",
    "in its hands": "in flight",
    "sent again": "resent",
    "switched on": "enabled",
    "switched off": "disabled",
    "as things stand": "in the current state",
    "at hand": "available",
    "for want of": "because of",
    "makes no sense": "invalid",
    "of one's own": "custom",
    "what there is to see": "a noun",
    "looked at": "checked, read",
    "is told": "is notified",
    "are told": "are notified",
    "goes on": "continues",
    "went on": "has moved",
    "died": "dead-lettered, moved to dead letters",
    "dies": "is dead-lettered",
    "in hand": "in flight",
    "given up on": "failed all its attempts",
    "dealt with": "processed",
    "look at": "see, review",
    "comes again": "is redelivered",
    "once more": "again",
    "hardly": "unlikely",
    "redriven": "resent",
    "came to be": "was created",
    "come to be": "are created",
    "comes to be": "is created",
}
# Names of values and tags of a text, which nobody reads.
MARKUP = re.compile(r"%\(\w+\)s|<[^>]+>")


def test_no_text_uses_an_abolished_phrase() -> None:
    phrases = re.compile(rf"\b({'|'.join(map(re.escape, ABOLISHED))})\b", re.IGNORECASE)
    wrong = [
        f"{text}: say {ABOLISHED[match[1].lower()]}"
        for text in sorted(texts.english())
        if (match := phrases.search(MARKUP.sub("", text)))
    ]
    assert wrong == []
