"""A database of before: who could read messages still can, but for tokens of producers."""

import json
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from app.db.database import Database
from app.db.migrate import migrate
from app.security.access import Action, Grant, Kind, Role

BEFORE = "20261122_alert_acks"
USERS = {
    "vera": ("viewer", []),
    "otto": ("operator", ["*:*:*"]),
    "petra": ("operator", ["produce:topic:orders-*"]),
    "ann": ("admin", []),
}
TOKENS = {
    "reader": ("viewer", []),
    "producer": ("operator", ["produce:topic:orders-*", "produce:group:*"]),
    "both": ("operator", ["produce:topic:orders-*", "consume:*:orders-*"]),
    "nothing": ("operator", []),
    "everything": ("operator", ["*:*:*"]),
    "admin": ("admin", []),
}


def fill(connection: Any) -> None:
    for number, (name, (role, patterns)) in enumerate(USERS.items(), 1):
        connection.execute(
            text(
                "INSERT INTO users (id, name, password_hash, role, patterns_json, disabled, "
                "created_ms) VALUES (:id, :name, 'x', :role, :patterns, :off, 0)"
            ),
            {"id": number, "name": name, "role": role, "patterns": json.dumps(patterns),
             "off": False},
        )  # fmt: skip
    for name, (role, patterns) in TOKENS.items():
        connection.execute(
            text(
                "INSERT INTO tokens (name, prefix, secret_hash, user_id, role, patterns_json, "
                "created_ms) VALUES (:name, 'p', :name, 4, :role, :patterns, 0)"
            ),
            {"name": name, "role": role, "patterns": json.dumps(patterns)},
        )


@pytest.mark.databases
def test_rights_of_before_are_kept_but_a_producers_token_reads_nothing(url: str) -> None:
    engine = create_engine(url)
    try:
        migrate(engine, BEFORE)
        with engine.begin() as connection:
            fill(connection)
        migrate(engine, "head")
        with closing(Database(url)) as database:
            rows = database.users.load()
        found = {
            row.name: Grant(Role(row.role), row.patterns) for row in (*rows.users, *rows.tokens)
        }
        reads = {
            name for name, grant in found.items()
            if grant.reaches(Action.READ_MESSAGES, Kind.TOPIC, "payments")
        }  # fmt: skip
        runs = {
            name for name, grant in found.items()
            if grant.reaches(Action.ADMINISTER, Kind.REPORT, "*")
        }  # fmt: skip
        assert reads == {*found} - {"producer"}
        assert runs == {*found} - {"producer", "vera", "reader"}
        assert found["producer"].patterns == tuple(TOKENS["producer"][1])
        migrate(engine, "20261122_alert_acks")
        with engine.connect() as connection:
            kept = connection.execute(text("SELECT name, patterns_json FROM tokens")).all()
        assert {name: json.loads(patterns) for name, patterns in kept} == {
            name: patterns for name, (__, patterns) in TOKENS.items()
        }
    finally:
        engine.dispose()
