"""Rights on the pages: each control of each page, for everybody, and what its direct POST answers.

Without the right a control is there, disabled, and described by a reason that can be read; with it,
it works. Which right an address asks for is told by the table in
`app/security/required_rights.toml`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from app.db.report_rows import RunRow
from app.security import required_rights
from app.services.connections import ClientFacts, Connected, Processed
from engine.message import StoredMessage
from kitemq.model.members import MemberQueue
from tests.app.conftest import App
from tests.app.security.rights_cases import CLIENT, filled
from tests.app.security.rights_site import (
    cheap_hashes,
    client_of,
    guarded,
    guarded_again,
    own_words,
    state_of,
)
from tests.app.ui.controls import Button, Controls, PostForm
from tests.rights import ADMIN, INSIDE, LIMITED, NOBODY, OUTSIDE, PEOPLE, Person

pytestmark = pytest.mark.anyio

HTML = {"accept": "text/html"}
FORM = HTML | {"content-type": "application/x-www-form-urlencoded"}
READ_ONLY = "Read-only mode"
DOORS = required_rights.rights_by_endpoint(required_rights.CONSOLE)
PATHS = {
    path: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + r"\Z")
    for path in sorted(DOORS, key=lambda path: path.count("{"))  # exact ones first
}
# Pages with controls, of a resource and of the server; `test_every_change_is_on_a_page` misses one.
PAGES = (
    "/topics/{n}", "/topics/{n}/messages", "/topics/{n}/produce", "/topics/{n}/config",
    "/topics/{n}/produce/file",
    "/topics/{n}/docs?edit", "/bulk/topics?action=delete&topic={n}-later",
    "/topics/{n}/delete", "/topics/{n}/purge?how=all", "/groups/{n}", "/groups/{n}/clients",
    f"/groups/{{n}}/leave?client={CLIENT}", "/groups/{n}/config", "/groups/{n}/pause",
    "/groups/{n}/resume", "/groups/{n}/delete", "/groups/{n}/history", "/groups/{n}/resets/1",
    "/groups/{n}/offsets", "/groups/{n}/offsets?step=review&to=latest&topic={n}",
    "/groups/{n}/resets/1/undo",
    "/dlq/{n}", "/dlq/{n}/0", "/dlq/{n}/resend", "/dlq/{n}/dismiss",
    "/dlq/{n}/restore", "/jobs/{failed}", "/jobs/{job}", "/jobs/{running}", "/jobs/{paused}",
    "/scheduled/WAIT{id}0", "/transactions/HALF{id}0", f"/clients/{CLIENT}?of={{n}}",
    f"/client/disconnect?client={CLIENT}&of={{n}}", "/messages/{n}/0/0/verify?group={n}",
)  # fmt: skip
OF_SERVER = (
    "/", "/topics", "/create/topic", "/groups", "/dlq", "/jobs", "/scheduled", "/transactions",
    "/views?path=/topics&query=", "/clients", "/engine", "/audit", "/search", "/messages", "/tail",
    "/engine/control", "/engine/handover?to=127.0.0.1:10912", "/engine/promotion",
    "/help", "/help/start", "/access/check?who=user:bob", "/settings",
    "/create/job", "/bulk/groups?action=pause&scope=all", "/import/topics", "/access",
    "/access/users/bob", "/alerts", "/alerts/new", "/alerts/rules/1", "/alerts/rules/1/delete",
    "/alerts/receivers/new", "/alerts/receivers/1", "/alerts/receivers/1/delete",
    "/reports", "/reports/runs/1", "/reports/schedules/lag",
    "/reports/backfill?job=traces&from=2026-11-20T00:00&to=2026-11-20T05:00",
)  # fmt: skip
# Pages that are looked at as well, so that links to them stay open.
VIEWS = (
    "/scheduled/{id}",
    "/messages/{topic}/{queue}/{offset}/verify",
    "/transactions/{id}",
    "/alerts/rules/{id}",
    "/alerts/receivers/{id}",
    "/settings",
    "/views",
    "/login",
)
LISTS = ("/topics", "/jobs")  # what is posted there makes another one
# The form says which.
OF_ANY = {
    "/topics": "topic", "/jobs": "topic", "/bulk/topics": "topic", "/import/topics": "topic",
    "/bulk/groups": "group",
}  # fmt: skip
ASKED_AT = {"/create/job": "/jobs", "/create/topic": "/topics"}  # a page whose form goes elsewhere


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_hashes(monkeypatch)


def door_of(address: str) -> tuple[str, dict[str, str]]:
    """The row of the table that an address belongs to, and what the address names; "" for none."""
    path = urlsplit(address).path
    path = ASKED_AT.get(path, path)
    for door, pattern in PATHS.items():
        match = pattern.match(path)
        if match is not None:
            return door, {word: unquote(text) for word, text in match.groupdict().items()}
    return "", {}


def missing_at(person: Person, address: str, name: str) -> list[str]:
    """The rights that somebody lacks for what an address changes; `name` is what the page is of."""
    door, named = door_of(address)
    if not door:
        return []
    if door in OF_ANY:
        right = f"administer:{OF_ANY[door]}:"
        return [] if person.may(right + INSIDE) else [f"{right}*"]
    words = {"topic": name, "group": name, "source": f"%DLQ%{name}", "to": name} | named
    needed = DOORS[door] if door.startswith("/jobs/") else DOORS[door][:1]
    lacking = [filled(right, words) for right in needed if not person.may(filled(right, words))]
    right_of_own = "administer:people" if person.has_token else "administer:own"
    lacking = [right.replace("administer:own", right_of_own) for right in lacking]
    return [right.replace("topic:%DLQ%", "group:") for right in lacking]


def faults_of_button(page: Controls, button: Button, expected: list[str]) -> Iterator[str]:
    """What is wrong with how a button says that it may not, or may, be used."""
    if not expected:
        if button.is_disabled and any(page.reasons(button)):
            yield f"is locked: {list(page.reasons(button))}"
        return
    if not button.is_disabled:
        yield "is not disabled"
    elif not any(expected[0] in reason for reason in page.reasons(button)):
        yield f"is described by {list(page.reasons(button))}"


def faults_of_page(
    address: str, html: str, person: Person, name: str, reason: str = ""
) -> Iterator[str]:
    """What is wrong with the controls of a page; `reason` is what all have beside their rights."""
    page, own_path = Controls(html), urlsplit(address).path

    def expected(target: str) -> list[str]:
        has_another = reason and not is_own(target)
        return [reason] if has_another else missing_at(person, target, name)

    def leads_elsewhere(target: str) -> bool:
        # Not the same page in another way, as a step of a wizard, and not one to be looked at.
        path = urlsplit(target).path
        return path not in (own_path, *LISTS) and door_of(target)[0] not in ("", *VIEWS)

    buttons = [(form.action, button) for form in page.forms for button in form.buttons]
    buttons += [each for each in page.asks if leads_elsewhere(each[0])]
    for target, button in buttons:
        yield from (f"{target} {each}" for each in faults_of_button(page, button, expected(target)))
    open_links = [link for link in page.links if leads_elsewhere(link) and expected(link)]
    yield from (f"a link to {link} is open" for link in open_links)
    yield from (f"{form.action} has no button" for form in page.forms if not form.buttons)
    silent = [each for each in page.buttons if each.is_disabled and not any(page.reasons(each))]
    yield from ("a disabled button says no reason" for __ in silent)
    if len(page.notes) != len(set(page.notes)):
        yield f"two reasons have one id: {page.notes}"


def is_own(address: str) -> bool:
    """Whether an address changes nothing, or only what goes on while all else is read-only."""
    door, __ = door_of(address)
    right = DOORS[door][0]
    return right.startswith("read:") or right in ("administer:own", "administer:control")


async def looked_at(
    http: httpx.AsyncClient, words: dict[str, str], *, without: str = "?none"
) -> dict[str, str]:
    """The pages of a resource, with those of the server once."""
    addresses = [filled(page, words) for page in PAGES if without not in page]
    if words["n"] == INSIDE:
        addresses += OF_SERVER
    texts = {}
    for address in addresses:
        answer = await http.get(address, headers=HTML)
        if answer.status_code != 403:  # a page that only some may read
            assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text[:500]}"
            texts[address] = answer.text
    return texts


async def failed_job(app: App, name: str) -> str:
    """A job whose topic went away before anything was sent."""
    await app.post("/topics", {"name": f"{name}-gone"}, 201)
    job = {"source": f"%DLQ%{name}", "to": "topic", "to_name": f"{name}-gone", "rate": 0.001}
    made = await app.post("/replays", job, 201)
    await app.http.delete(f"/api/v1/topics/{name}-gone")
    await app.http.patch(f"/api/v1/replays/{made['id']}", json={"rate": 0})
    app.advance(1)
    return str(made["id"])


class Answering:
    """A door whose only client can be asked anything."""

    count = 0

    def connected(self) -> list[Connected]:
        return []

    def find(self, client: str) -> ClientFacts | None:
        if client != CLIENT:
            return None
        return ClientFacts("gRPC", "127.0.0.1:1", 1, why_no_stack="", why_no_verify="")

    async def stack(self, client: str, timeout_s: float) -> str:
        return "main"

    async def verify(
        self, client: str, group: str, message: StoredMessage, timeout_s: float
    ) -> Processed:
        return Processed("OK", "")

    async def queues(self, client: str, group: str, timeout_s: float) -> list[MemberQueue]:
        return []

    def disconnect(self, client: str) -> int:
        return 1


async def dress(app: App, words: dict[str, dict[str, str]]) -> None:
    """What some controls need in order to be shown."""
    app.app.services.connections.add_endpoint(Answering())
    for known in words.values():
        job = known["stopping"]
        known["paused"] = (await app.post(f"/replays/{job}/pause", {}))["id"]
        known["failed"] = await failed_job(app, known["n"])
    template = {"template": "hello", "body": "world"}
    made = await app.http.post(f"/topics/{INSIDE}/produce/templates", data=template, headers=FORM)
    assert made.status_code == 303, made.text
    rule = {"name": "fires", "kind": "lag", "threshold": 1, "for_s": 0}
    await app.post("/alerts/rules", rule, 201)
    silence = {"rule_id": "1", "until_ms": app.clock.now_ms() + 3_600_000}
    await app.post("/alerts/silences", silence, 201)
    await under_way(app)
    app.advance(11)
    await app.app.services.alerts.evaluate()
    leadership = app.app.services.leadership  # a leader with an heir may be promoted, as a standby
    leadership.state = leadership.state.name_heir("127.0.0.1:10912", "")


async def under_way(app: App) -> None:
    """A report that another server computes: it can be seen, and no other run begins."""
    now_ms = app.clock.now_ms()
    run = RunRow(job="lag", cause="manual", state="running", attempt=1, actor="ann",
                 began_ms=now_ms, owner="elsewhere", lease_ms=now_ms + 86_400_000)  # fmt: skip
    await app.app.services.database.run(lambda database: database.reports.begin(run))


def posts_of(pages: dict[str, str], name: str) -> list[tuple[PostForm, str]]:
    """Every form of the pages once, with what its page is of; what takes most away comes last."""
    forms_by_action = {
        form.action: form for html in pages.values() for form in Controls(html).forms
    }
    last = ("/purge", "/offsets", "/undo", "/resend", "/revoke", "/end", "/delete", "/logout")
    rank = {form.action: 1 + last.index("/" + form.action.rpartition("/")[2])
            for form in forms_by_action.values() if form.action.endswith(last)}  # fmt: skip
    ordered = sorted(forms_by_action.values(), key=lambda form: rank.get(form.action, 0))
    return [(form, name) for form in ordered]


@pytest.mark.parametrize("person", [p for p in PEOPLE if p is not NOBODY], ids=lambda p: p.name)
async def test_each_control_is_as_the_table_says_and_so_is_its_post(
    person: Person, tmp_path: Path
) -> None:
    hook = ("http://127.0.0.1:9/",)
    faults: list[str] = []
    async with guarded(tmp_path / "data", alert_webhooks=hook) as (app, words):
        await dress(app, words)
        await own_words(app, person)
        async with client_of(app, person) as http:
            http.headers["origin"] = str(http.base_url).rstrip("/")
            pages = {name: await looked_at(http, known) for name, known in words.items()}
            for name, pages_of_person in pages.items():
                for address, html in pages_of_person.items():
                    wrong = faults_of_page(address, html, person, name)
                    faults += [f"{address}: {each}" for each in wrong]
                    if person is ADMIN and "lock-note" in html:
                        faults.append(f"{address}: a lock for an admin")
            forms = [form for name in pages for form in posts_of(pages[name], name)]
            before = await state_of(app)
            for form, name in forms:
                lacking = missing_at(person, form.action, name)
                if lacking:
                    answer = await http.post(form.action, data=form.sent(), headers=FORM)
                    if answer.status_code != 403 or "right_missing" not in answer.text:
                        faults.append(f"POST {form.action}: {answer.status_code}")
            assert await state_of(app) == before, "what was refused changed something"
            for form, name in forms:
                if not missing_at(person, form.action, name):
                    answer = await http.post(form.action, data=form.sent(), headers=FORM)
                    if answer.status_code not in (200, 201, 303, 401, 404, 409, 422):
                        faults.append(f"POST {form.action}: {answer.status_code}")
    assert not faults, "\n".join(faults)


async def test_every_change_is_on_a_page(tmp_path: Path) -> None:
    async with guarded(tmp_path / "data", alert_webhooks=("http://127.0.0.1:9/",)) as (app, words):
        await dress(app, words)
        await own_words(app, ADMIN)
        seen = set()
        for known in words.values():
            for html in (await looked_at(app.http, known)).values():
                seen |= {door_of(form.action)[0] for form in Controls(html).forms}
    assert seen == set(DOORS) - {"/login"}


async def test_a_form_that_names_another_resource_is_refused_by_its_name(tmp_path: Path) -> None:
    async with (
        guarded(tmp_path / "data") as (app, __),
        client_of(app, LIMITED) as http,
    ):
        resend = f"/dlq/{INSIDE}/resend"
        for path, form, right in (
            ("/topics", {"name": "other", "type": "NORMAL"}, "administer:topic:other"),
            (resend, {"to": "topic", "to_topic": OUTSIDE}, f"produce:topic:{OUTSIDE}"),
            (resend, {"to": "group", "to_group": OUTSIDE}, f"administer:group:{OUTSIDE}"),
        ):  # fmt: skip
            fields = {"read_queues": "1", "write_queues": "1", "permission": "6", "rate": "1"}
            answer = await http.post(path, data=fields | form, headers=FORM)
            assert answer.status_code == 403, f"{path} {form}: {answer.status_code}"
            assert right in answer.text


async def test_a_deletion_that_was_not_confirmed_tells_nothing_of_topics_of_others(
    tmp_path: Path,
) -> None:
    chosen = {"action": "delete", "confirm": "", "selection": f"x {INSIDE}\nx {OUTSIDE}"}
    async with (
        guarded(tmp_path / "data") as (app, __),
        client_of(app, LIMITED) as http,
    ):
        answer = await http.post("/bulk/topics?format=json", data=chosen, headers=FORM)
        assert answer.status_code == 422
        rows = {row["name"]: row for row in answer.json()["rows"]}
        assert (rows[INSIDE]["outcome"], rows[OUTSIDE]["outcome"]) == ("would", "left")
        assert f"administer:topic:{OUTSIDE}" in rows[OUTSIDE]["note"]


async def test_on_a_read_only_server_every_control_says_so(tmp_path: Path) -> None:
    async with guarded(tmp_path / "data") as (app, words):
        await dress(app, words)
    async with guarded_again(tmp_path / "data") as app, client_of(app, ADMIN) as http:
        faults: list[str] = []
        for name, known in words.items():
            for address, html in (await looked_at(http, known, without=CLIENT)).items():
                page_faults = faults_of_page(address, html, ADMIN, name, READ_ONLY)
                faults += [f"{address}: {each}" for each in page_faults]
                for form in Controls(html).forms:
                    if not is_own(form.action):
                        answer = await http.post(form.action, data=form.sent(), headers=FORM)
                        if answer.status_code != 403 or "read_only" not in answer.text:
                            faults.append(f"POST {form.action}: {answer.status_code}")
        assert not faults, "\n".join(faults)
