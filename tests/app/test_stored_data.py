"""A data directory and a database of an earlier version open, and REST answers as it did then.

`tests/fixtures/make_data.py` made the archive and wrote down the answers, with the code of commit
86fd54c. `RENAMED` lists the fields of the API that have another name today. A field may be added.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.stored_data import ask, opened

FIXTURE = Path(__file__).parents[1] / "fixtures" / "data-2026-11-23"
RENAMED = {  # a field of REST then: its name today
    "promise": "durability",
    "again": "redelivered",
    "times": "redrive_count",
    "returned_from": "redriven_from",
}
MOVED = {  # a path then: today's for the same
    "/groups/audit/dead-letters": "/groups/audit/dead-letters?state=all",
    "/groups/audit/dead-letters?dismissed=true": "/groups/audit/dead-letters?state=dismissed",
}
SCHEDULED = "/scheduled?limit=50"  # then of exact times alone, today of delay levels too
STATES = "/groups/audit/dead-letters/counts"  # which the version then did not say

pytestmark = pytest.mark.anyio


def differences(expected: Any, answer: Any, path: str) -> list[str]:
    """Where an answer lacks or contradicts what was expected."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        lines = []
        for name, value in expected.items():
            today = RENAMED.get(name, name)
            if today in answer:
                lines += differences(value, answer[today], f"{path}.{today}")
            else:
                lines.append(f"{path}.{today} is missing")
        return lines
    if isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        pairs = enumerate(zip(expected, answer, strict=True))
        return [line for n, (old, new) in pairs for line in differences(old, new, f"{path}[{n}]")]
    return [] if expected == answer else [f"{path}: {expected!r} became {answer!r}"]


@pytest.mark.parametrize("copy", ["stopped", "killed"])
async def test_stored_data_of_an_earlier_version_opens_and_says_the_same(
    tmp_path: Path, copy: str
) -> None:
    facts = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))
    with tarfile.open(FIXTURE / "data.tar.xz") as archive:
        members = [member for member in archive if member.name.split("/")[0] == copy]
        archive.extractall(tmp_path, members, filter="data")
    answers = facts["answers"]
    if copy == "killed":
        answers |= facts["answers_after_kill"]
    place = {"stopped_ms": facts["stopped_ms"], "token": facts["token"]}
    async with opened(tmp_path / copy, settings=facts["settings"], **place) as http:
        answers = {MOVED.get(path, path): answer for path, answer in answers.items()}
        today = await ask(http, answers)
    waiting = today[SCHEDULED]["body"]
    waits_in_level = [item for item in waiting["items"] if item["delay_level"]]
    waiting["items"] = [item for item in waiting["items"] if item not in waits_in_level]
    waiting["total"] -= len(waits_in_level)
    bodies = sorted(item["message"]["body"] for item in waits_in_level)
    assert bodies == ["news 0", "order 4", "waits by level"]
    lines = [line for path in answers for line in differences(answers[path], today[path], path)]
    assert not lines, "\n".join(lines)
    assert today[STATES]["body"]["states"] == {"open": 4, "resent": 2, "dismissed": 2}
