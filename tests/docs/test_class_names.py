"""A class name occurs once in the tree, so that a search for it finds one thing."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("analytics", "app", "engine", "kitemq", "protocol")

# One thing has one name in the engine and in the SDK, which imports no engine. The reports' Busy
# and Refused are among them: a failed run stores the name of its error.
ENGINE_AND_SDK = """
    AckResult Busy Durability Invalid Message NotFound Refused ReplyResult Transaction
    TransactionState
"""
# Values of the engine's journal, whose form does not follow the wire's (ADR 28).
JOURNAL_AND_MODEL = """
    Exponential Ladder LagBasis Mode ReplayState ReplayTo ResetNote ResetTo StartAt Steps
    Strategy TopicType
"""
# Values of the engine and of the wire: the engine imports nothing of the model (ADR 28).
ENGINE_AND_REST = """
    Branch Journey QueueLag QueueStats Stage TraceStatus
"""
# The base of all frames of the WebSocket protocol, and of all pages of the console.
BASES = "Frame"

ALLOWED = dict.fromkeys(
    " ".join((ENGINE_AND_SDK, ENGINE_AND_REST, JOURNAL_AND_MODEL, BASES)).split(), 3
)


def class_counts() -> Counter[str]:
    """How many files define a class of each name."""
    counts: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            counts.update({node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)})
    return counts


COUNTS = class_counts()


def test_a_class_name_occurs_once() -> None:
    too_many = {name: n for name, n in COUNTS.items() if n > ALLOWED.get(name, 1)}
    assert not too_many, "give each of these classes a name of its own"


def test_no_exception_is_listed_that_is_not_needed() -> None:
    mended = sorted(name for name in ALLOWED if COUNTS[name] < 2)
    assert not mended, "these names occur once now: take them off the list"
