"""Endpoints, pages and services reach the engine by verbs; what else they use of it is listed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import app

CLASSIC = "classic clients' port, which stays closed before another engine"
FIGURES = "figures of the embedded engine itself; `traffic_figures` or `log_figures`"
OWN_SERVICE = "a service of the embedded engine, with which another one brings its own"
STANDBY = "how far a standby is behind; only an embedded engine follows another"

# What may be used of the broker beside the verbs, and why. The lists only shrink.
USES: dict[str, dict[str, str]] = {
    "api": {"log_end": STANDBY},
    "grpc": {},
    "monitoring": {},
    "remoting": dict.fromkeys(
        (
            *("create_group", "events", "group", "groups", "groups_of", "health", "lag", "log_end"),
            *("durability_of", "members", "passed_levels", "replicas", "requests", "retention"),
            *("statistics", "topic", "topic_stats", "topics", ""),
        ),
        CLASSIC,
    ),
    "security": {"log_end": STANDBY},
    "services": {
        "is_broadcast": OWN_SERVICE,
        "log_end": OWN_SERVICE,
        "members": OWN_SERVICE,
        **dict.fromkeys(
            ("begin_epoch", "end", "is_settled", "refuse_changes", "resume", "suspend", ""),
            STANDBY,
        ),
        "when_flushed": STANDBY,
        "retention": OWN_SERVICE,
        "search": OWN_SERVICE,
        "traces": OWN_SERVICE,
    },
    "ui": {"log_end": STANDBY, "statistics": FIGURES},
    "ws": {},
}
# The services that hold the embedded engine; every other works before any engine.
SERVICES_OF_THE_ENGINE = {
    "group_members.py",
    "handover.py",
    "leadership.py",
    "retention.py",
    "search.py",
    "self_checks.py",
}
MEMBER_VERBS = {"assignment", "connect", "heartbeat", "leave", "seen"}


def uses_of_broker(folder: Path) -> Iterator[tuple[str, str]]:
    """Attributes of a `broker`, each with its place; "" for the whole broker."""
    for path in sorted(folder.rglob("*.py")):
        owners: set[ast.expr] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                owners.add(node.func)  # the figures of the whole broker are no broker
            if isinstance(node, ast.Attribute) and _is_broker(node.value):
                owners.add(node.value)
                yield node.attr, f"{path.name}:{node.lineno}"
            elif isinstance(node, ast.Attribute) and _is_broker(node) and node not in owners:
                yield "", f"{path.name}:{node.lineno}"


def _is_broker(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("broker", "_broker")


@pytest.mark.parametrize("endpoint", sorted(USES))
def test_an_endpoint_uses_of_the_broker_what_is_listed(endpoint: str) -> None:
    uses = list(uses_of_broker(Path(app.__path__[0]) / endpoint))
    assert [use for use in uses if use[0] not in USES[endpoint]] == []
    assert sorted(USES[endpoint].keys() - {name for name, _ in uses}) == [], "no longer used"


def test_a_service_that_holds_the_engine_is_listed() -> None:
    uses = uses_of_broker(Path(app.__path__[0]) / "services")
    assert {place.split(":")[0] for _, place in uses} == SERVICES_OF_THE_ENGINE


@pytest.mark.parametrize("endpoint", sorted(USES))
def test_signs_of_life_of_members_come_by_verbs(endpoint: str) -> None:
    for path in sorted((Path(app.__path__[0]) / endpoint).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in MEMBER_VERBS:
                owner = ast.unparse(node.value)
                if owner.split(".")[-1] == "members":
                    assert owner.endswith("messaging.members"), f"{path.name}:{node.lineno}"
