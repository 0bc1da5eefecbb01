"""The rights that each endpoint needs, as tables for people and programs.

`access.py` says who has a right; the tables in `required_rights.toml` say where it is needed: by
each operation of the REST API, each frame of the WebSocket, each command, each change and each
export of the console. Tests compare them with the endpoints, both ways, and try each cell.
`python -m app.security.required_rights` prints them for docs/access.md.
"""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("required_rights.toml")
PUBLIC = "read:public"

# By what they are about: rights, joined by " + " where all are needed, and who needs them.
TABLES: Mapping[str, Mapping[str, str]] = tomllib.loads(FILE.read_text("utf-8"))
API, FRAMES, CONSOLE, EXPORTS, COMMANDS = TABLES.values()


def rights_by_endpoint(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """All rights that each endpoint of a table needs."""
    table_rights: dict[str, tuple[str, ...]] = {}
    for rights, endpoints in table.items():
        for endpoint in endpoints.split():
            assert endpoint not in table_rights, f"{endpoint} stands in two rows"
            table_rights[endpoint] = tuple(rights.split(" + "))
    return table_rights


def markdown() -> str:
    """The tables, for docs/access.md."""
    parts = []
    for title, table in TABLES.items():
        rows = [
            f"| {_rights(rights)} | {_endpoints(endpoints)} |"
            for rights, endpoints in table.items()
        ]
        parts.append("\n".join([f"| right | {title} |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _rights(text: str) -> str:
    return " and ".join(f"`{part}`" if ":" in part else part for part in text.split(" + "))


def _endpoints(text: str) -> str:
    # A dash stands for the blank between the words of a command; addresses have none.
    return ", ".join(f"`{endpoint.replace('-', ' ')}`" for endpoint in text.split())


if __name__ == "__main__":
    sys.stdout.write(markdown())
