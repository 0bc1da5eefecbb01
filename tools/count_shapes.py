"""Counts how often the tree says one thing twice: `python -m tools.count_shapes [FOLDER]`.

Prints, over the code without tests: classes that hold values (dataclasses, msgspec structs, named
tuples) with three or more fields; pairs of them that share at least three quarters of the smaller
one's fields; class names that occur in more than one file; casts from `app.state`; and lines by
folder.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("analytics", "app", "engine", "kitemq", "migrations", "protocol")
FIELDS_MIN = 3
SHARED_MIN = 0.75
VALUE_BASES = ("Struct", "NamedTuple", "TypedDict", "JournalEntry")


class ValueClass(NamedTuple):
    """A class that holds values, its own fields and those it inherits in the same file."""

    place: str
    name: str
    fields: frozenset[str]


def modules(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the code below `root`, parsed."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def value_classes(place: Path, tree: ast.Module) -> Iterator[ValueClass]:
    """The module's classes that hold values."""
    known: dict[str, frozenset[str]] = {}
    for node in classes(tree):
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        decorated = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
        inherited = [known[base] for base in bases if base in known]
        if not (decorated or inherited or any(base in VALUE_BASES for base in bases)):
            continue
        own = {
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        }
        known[node.name] = frozenset(own.union(*inherited))
        yield ValueClass(str(place), node.name, known[node.name])


def is_alike(one: ValueClass, other: ValueClass) -> bool:
    smaller = min(len(one.fields), len(other.fields))
    return len(one.fields & other.fields) >= SHARED_MIN * smaller


def state_casts(tree: ast.Module) -> int:
    """Annotated assignments whose value is read from the application's state."""
    return sum(
        isinstance(node, ast.AnnAssign)
        and node.value is not None
        and ".state." in ast.unparse(node.value)
        for node in ast.walk(tree)
    )


def main() -> None:
    """Print the counts of the tree in the folder given, else of this one."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    values: list[ValueClass] = []
    places: defaultdict[str, set[Path]] = defaultdict(set)
    lines: Counter[str] = Counter()
    casts = 0
    for path, tree in modules(root):
        values += [each for each in value_classes(path, tree) if len(each.fields) >= FIELDS_MIN]
        for node in classes(tree):
            places[node.name].add(path)
        casts += state_casts(tree)
        lines[path.parts[0]] += len((root / path).read_text(encoding="utf-8").splitlines())
    alike = sum(is_alike(one, other) for one, other in combinations(values, 2))
    twice = sum(len(found) > 1 for found in places.values())
    print(f"value classes with {FIELDS_MIN} fields or more: {len(values)}")
    print(f"pairs that share {SHARED_MIN:.0%} of the smaller one's fields: {alike}")
    print(f"class names in more than one file: {twice} of {len(places)}")
    print(f"casts from app.state: {casts}")
    for folder, count in sorted(lines.items()):
        print(f"lines in {folder}/: {count}")


if __name__ == "__main__":
    main()
