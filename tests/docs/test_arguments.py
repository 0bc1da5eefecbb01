"""Constructors take at most eight parameters, and calls at most six positional arguments.

With more of them, two values of one type can change places and no type checker notices.
"""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARAMETERS_MAX = 8
POSITIONAL_MAX = 6

# Values are packed in the order of a layout, and Spark takes any number of columns.
VARIADIC = frozenset(
    {"HEAD.pack", "layout.pack", "pack_own", "ATTRIBUTES.pack", "frames.previous.select", "zip"}
    | {"rows.groupBy(*CELL).agg", "windows.groupBy(*SERIES, 't').agg", "map"}
)
# One of these is made for each message sent, received, pulled or traced: names would cost time.
HOT_PATH = frozenset(
    {"HandedOut", "MessagesDelivered", "Restored", "Retried", "Row", "StoredMessage", "self._read"}
    | {"Command", "SendFrame", "DeliverFrame", "Message", "Received", "cls"}
)

# A client's options have defaults and are given by name.
CONSTRUCTORS: dict[str, dict[str, int]] = {"kitemq": {"AsyncProducer": 1}}
CALLS: dict[str, dict[str, int]] = {}
FOLDERS = ("analytics", "app", "bench", "engine", "kitemq", "protocol")


@cache
def nodes(folder: str) -> list[ast.AST]:
    paths = sorted((ROOT / folder).rglob("*.py"))
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return [node for tree in trees for node in ast.walk(tree)]


def wide_constructors(folder: str) -> Counter[str]:
    """How many classes of each name have a constructor with too many parameters."""
    counts: Counter[str] = Counter()
    for node in nodes(folder):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    parameters = each.args
                    count = len(parameters.args) + len(parameters.kwonlyargs) - 1
                    counts[node.name] += count > PARAMETERS_MAX
    return +counts


def wide_calls(folder: str) -> Counter[str]:
    """How many calls of each name have too many positional arguments."""
    calls = (node for node in nodes(folder) if isinstance(node, ast.Call))
    wide = (ast.unparse(call.func) for call in calls if len(call.args) > POSITIONAL_MAX)
    return Counter(name for name in wide if name not in VARIADIC | HOT_PATH)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_constructor_has_at_most_eight_parameters(folder: str) -> None:
    assert wide_constructors(folder) <= Counter(CONSTRUCTORS.get(folder, {}))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_call_has_at_most_six_positional_arguments(folder: str) -> None:
    assert wide_calls(folder) <= Counter(CALLS.get(folder, {}))


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_exception_is_listed_that_is_not_needed(folder: str) -> None:
    assert Counter(CONSTRUCTORS.get(folder, {})) <= wide_constructors(folder)
    assert Counter(CALLS.get(folder, {})) <= wide_calls(folder)
