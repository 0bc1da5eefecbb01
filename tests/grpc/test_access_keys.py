"""Access keys as they are made by the API, in the console and on the command line: all the same."""

import re
from pathlib import Path
from typing import Any

import pytest

from app import users
from app.security.access_keys import AccessKeys, access_key_of
from app.security.passwords import hash_secret
from tests.grpc.test_endpoint import PASSWORD, key_for, logged_in

pytestmark = pytest.mark.anyio


def pair_of(folder: Path, token: str) -> tuple[str, str]:
    keys = AccessKeys(folder)
    keys.load()
    secret_hash = hash_secret(token)
    return access_key_of(secret_hash), keys.secret_key(secret_hash)


async def test_the_api_shows_the_pair_of_a_new_token_and_nothing_keeps_the_secret(
    open_endpoint: Any, tmp_path: Path
) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        made = await key_for(running, "viewer")
        assert (made["access_key"], made["secret_key"]) == pair_of(tmp_path / "data", made["token"])
        listed = (await running.http.get("/api/v1/tokens")).text
        assert made["name"] in listed
        assert made["secret_key"] not in listed
    kept = (tmp_path / "data" / "kitemq.db").read_bytes()
    assert made["secret_key"].encode() not in kept


async def test_the_console_shows_the_pair_once(open_endpoint: Any, tmp_path: Path) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        http = await logged_in(running)
        form = {"name": "ci", "owner": "admin", "role": "", "patterns": "", "days": "90"}
        page = (await http.post("/access/tokens", data=form)).text
        shown = dict(re.findall(r'<code id="made-([a-z-]+)"[^>]*>([^<]+)</code>', page))
        assert (shown["access-key"], shown["secret-key"]) == pair_of(
            tmp_path / "data", shown["token"]
        )
        assert shown["secret-key"] not in (await http.get("/access")).text


async def test_the_command_line_prints_the_pair_where_it_is_asked_for(
    open_endpoint: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_endpoint(admin_password=PASSWORD):
        pass
    where = ["--owner", "admin", "--data", str(tmp_path / "data")]
    assert users.main(["tokens", "add", "plain", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert users.main(["tokens", "add", "pair", "--access-key", *where]) == 0
    token, access_key, secret_key = capsys.readouterr().out.splitlines()
    assert (access_key, secret_key) == pair_of(tmp_path / "data", token)
