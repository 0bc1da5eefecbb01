"""The table of rights, cell by cell: every operation, by everybody, on what is his and what is not.

A refused request names the right and changes nothing; what may be done is done.
"""

import re
from pathlib import Path

import click
import httpx
import pytest

from app.api.catalog import OPERATIONS
from app.api.framework.operation import Operation
from app.security import required_rights
from app.security.access import Needs, right_text
from app.ui.routes import PageRoute, router
from app.ws.session import HANDLERS
from kitemq import cli
from tests.app.security.rights_cases import CASES, Case, filled
from tests.app.security.rights_site import cheap_hashes, client_of, guarded, own_words, state_of
from tests.docs.pages import ROOT
from tests.rights import INSIDE, NOBODY, OUTSIDE, PEOPLE, Person

pytestmark = pytest.mark.anyio

ENDPOINTS = required_rights.rights_by_endpoint(required_rights.API)
KNOWN = [item for item in OPERATIONS if item.name in ENDPOINTS]  # another test misses the others


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_hashes(monkeypatch)


# -- the table and the endpoints ----------------------------------------------------------------


def gate_of(needs: Needs) -> str:
    return right_text(needs.action, needs.kind, f"{{{needs.of}}}" if needs.of.isalpha() else "*")


def is_same(gate: str, right: str) -> bool:
    """Whether the gate asks for this right, or for one of its kind whose name comes later."""
    return gate == right or (gate.endswith(":*") and right.startswith(gate[:-1]))


def test_every_operation_stands_in_the_table_with_the_right_of_its_gate() -> None:
    assert set(ENDPOINTS) == {item.name for item in OPERATIONS}
    for item in OPERATIONS:
        assert item.needs is not None, item.name
        gate = gate_of(item.needs)
        if "{source}" in ENDPOINTS[item.name][0]:  # topic or group, as the job has it
            gate = "administer:topic:*"
        assert is_same(gate, ENDPOINTS[item.name][0]), f"{item.name}: {gate}"


def test_every_frame_of_a_client_stands_in_the_table() -> None:
    def name(kind: type) -> str:
        return re.sub(
            r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__.removesuffix("Frame").removeprefix("Packed")
        ).upper()

    assert set(required_rights.rights_by_endpoint(required_rights.FRAMES)) == {
        name(kind) for kind in HANDLERS
    }


def needs_of_routes(method: str) -> dict[str, Needs]:
    """The right that each address of the console needs for `method`."""
    pages = [route for route in router.routes if isinstance(route, PageRoute)]
    return {page.path: page.needs for page in pages if method in (page.methods or ())}


def test_every_change_of_the_console_stands_in_the_table_with_the_right_of_its_gate() -> None:
    table = required_rights.rights_by_endpoint(required_rights.CONSOLE)
    changes = needs_of_routes("POST")
    assert set(table) == set(changes)
    for path, needed in table.items():
        gate = gate_of(changes[path])
        if "{source}" in needed[0]:
            gate = "administer:topic:*"
        assert is_same(gate, needed[0]), f"{path}: {gate}"


def test_every_file_and_stream_of_the_console_stands_in_the_table() -> None:
    table = required_rights.rights_by_endpoint(required_rights.EXPORTS)
    ends = ("/export", "/raw", "/stream")
    files = {path: needs for path, needs in needs_of_routes("GET").items() if path.endswith(ends)}
    assert set(table) == set(files)
    for path, needed in table.items():
        assert is_same(gate_of(files[path]), needed[0]), path


def test_every_command_stands_in_the_table() -> None:
    def leaves(command: click.Command, words: tuple[str, ...] = ()) -> set[str]:
        if not isinstance(command, click.Group):
            return {"-".join(words)}
        context = click.Context(command)
        found = {"-".join(words)} if command.invoke_without_command else set()
        for word in command.list_commands(context):
            found |= leaves(command.get_command(context, word), (*words, word))
        return found

    offline = {
        "serve",
        "store-verify",
        "store-repair",
        "store-tail",
        "users",
        "tokens",
        "completion",
    }
    assert (
        set(required_rights.rights_by_endpoint(required_rights.COMMANDS))
        == leaves(cli.command_line()) - offline
    )


def test_the_page_of_rights_has_the_tables_of_the_code() -> None:
    page = (ROOT / "docs" / "access.md").read_text()
    assert required_rights.markdown() in page, (
        "put what python -m app.security.required_rights prints into the page"
    )


# -- everybody at every endpoint ----------------------------------------------------------------


def names_of(item: Operation) -> tuple[str, ...]:
    """The resources that an operation is tried on; one where its rights name none."""
    named = any("{" in right for right in ENDPOINTS[item.name])
    return (INSIDE, OUTSIDE) if named else (INSIDE,)


def rights_of(item: Operation, words: dict[str, str]) -> list[str]:
    """The rights of an operation over the resource of `words`, with their names."""
    name, case = words["n"], CASES.get(item.name, Case())
    named = {"topic": name, "group": name, "source": f"%DLQ%{name}", "to": name}
    named |= {word: filled(text, words) for word, text in case.named}
    return [filled(right, named) for right in ENDPOINTS[item.name]]


async def ask(http: httpx.AsyncClient, item: Operation, words: dict[str, str]) -> httpx.Response:
    case = CASES.get(item.name, Case())
    path = filled(item.path, {word: filled(text, words) for word, text in case.path})
    path = filled(path, dict.fromkeys(("topic", "group"), words["n"]))
    query = filled(case.query, words)
    body = filled(case.body, words)
    return await http.request(item.method, f"{path}?{query}" if query else path, json=body)


def is_refusal(answer: httpx.Response, person: Person, missing: list[str]) -> bool:
    """Whether somebody was turned away as he should be: told what he lacks."""
    problem = answer.json()
    if person is NOBODY:
        return answer.status_code == 401 and problem["code"] == "login_needed"
    named = {right.replace("topic:%DLQ%", "group:") for right in missing}
    named |= {f"{right.rpartition(':')[0]}:*" for right in missing}  # before the name is read
    named |= {"administer:people", "administer:group:*"}  # of a token over its owner; of a job
    told = re.search(r"lacks the right (\S+)", problem["detail"])
    return (
        answer.status_code == 403
        and problem["code"] == "right_missing"
        and told is not None
        and told[1] in named
    )


def takes_away(item: Operation) -> int:
    """Last comes what takes things away, and of that last what takes the most."""
    return 0 if item.method != "DELETE" else 10 - item.path.count("/")


@pytest.mark.parametrize("person", PEOPLE, ids=lambda person: person.name)
async def test_each_operation_does_what_the_table_says(person: Person, tmp_path: Path) -> None:
    wrong: list[str] = []
    async with guarded(tmp_path / "data") as (app, words):
        mine = await own_words(app, person)
        async with client_of(app, person) as http:
            allowed = []
            before = await state_of(app)
            for item in KNOWN:
                for name in names_of(item):
                    known = words[name] | mine
                    needed = rights_of(item, known)
                    missing = [right for right in needed if not person.may(right)]
                    if not missing:
                        allowed.append((item, known))
                        continue
                    answer = await ask(http, item, known)
                    if not is_refusal(answer, person, missing):
                        wrong.append(f"{item.name} {name}: {answer.status_code} {answer.text}")
            assert await state_of(app) == before, "what was refused changed something"
            for item, known in sorted(allowed, key=lambda each: takes_away(each[0])):
                answer = await ask(http, item, known)
                # A conflict is told by how things stand, to those who are let in.
                fine = (*range(200, 300), 409, *CASES.get(item.name, Case()).refusals)
                if answer.status_code not in fine:
                    wrong.append(f"{item.name} {known['n']}: {answer.status_code} {answer.text}")
    assert not wrong, "\n".join(wrong)
