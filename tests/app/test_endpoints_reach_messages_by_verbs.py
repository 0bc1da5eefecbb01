"""Endpoints reach messages through `Messaging`; what else they use of the broker is listed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import app

TOPICS = "topics: their lists and figures are no messages"
GROUPS = "groups: their lists and figures are no messages"
MEMBERS = "members of groups: their lists are no messages"
JOBS = "jobs and reports of the embedded engine, which no other engine has"
FIGURES = "figures of the embedded engine itself"
EVENTS = "the engine's events, which connections follow"

# What an endpoint may use of the broker, and why. The lists only shrink.
USES: dict[str, dict[str, str]] = {
    "api": {
        "dead_letters": JOBS,
        "groups": GROUPS,
        "health": FIGURES,
        "lag": GROUPS,
        "log_end": FIGURES,
        "members": MEMBERS,
        "replays": JOBS,
        "retention": JOBS,
        "statistics": FIGURES,
        "topic_stats": TOPICS,
        "topics": TOPICS,
        "traces": FIGURES,
    },
    "grpc": {},
    "remoting": {
        "create_group": GROUPS,
        "events": EVENTS,
        "group": GROUPS,
        "groups": GROUPS,
        "groups_of": TOPICS,
        "health": FIGURES,
        "lag": GROUPS,
        "log_end": FIGURES,
        "members": MEMBERS,
        "passed_levels": FIGURES,
        "retention": FIGURES,
        "statistics": FIGURES,
        "topic": TOPICS,
        "topic_stats": TOPICS,
        "topics": TOPICS,
    },
    "ui": {
        "dead_letters": JOBS,
        "delay_levels": FIGURES,
        "group": GROUPS,
        "groups": GROUPS,
        "groups_of": TOPICS,
        "health": FIGURES,
        "lag": GROUPS,
        "log_end": FIGURES,
        "members": MEMBERS,
        "replays": JOBS,
        "resets": JOBS,
        "retention": JOBS,
        "scheduled_counts": FIGURES,
        "search": JOBS,
        "statistics": FIGURES,
        "topic": TOPICS,
        "topic_stats": TOPICS,
        "topics": TOPICS,
        "traces": FIGURES,
    },
    "ws": {},
}
MEMBER_VERBS = {"assignment", "connect", "heartbeat", "leave", "seen"}


def uses_of_broker(folder: Path) -> Iterator[tuple[str, str]]:
    """Attributes of a `broker`, each with its place."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and _is_broker(node.value):
                yield node.attr, f"{path.name}:{node.lineno}"


def _is_broker(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("broker", "_broker")


@pytest.mark.parametrize("endpoint", sorted(USES))
def test_an_endpoint_uses_of_the_broker_what_is_listed(endpoint: str) -> None:
    uses = list(uses_of_broker(Path(app.__path__[0]) / endpoint))
    assert [use for use in uses if use[0] not in USES[endpoint]] == []
    assert sorted(USES[endpoint].keys() - {name for name, _ in uses}) == [], "no longer used"


@pytest.mark.parametrize("endpoint", sorted(USES))
def test_signs_of_life_of_members_come_by_verbs(endpoint: str) -> None:
    for path in sorted((Path(app.__path__[0]) / endpoint).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in MEMBER_VERBS:
                owner = ast.unparse(node.value)
                if owner.split(".")[-1] == "members":
                    assert owner.endswith("messaging.members"), f"{path.name}:{node.lineno}"
