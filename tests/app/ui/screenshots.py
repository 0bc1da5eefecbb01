"""Pictures of the console over a quarter of an hour of traffic, for the documentation.

    python -m tests.app.ui.screenshots [folder]

The server is real; only its clock is hurried, so that the charts have something to show. Where
Debian's `pngquant` is installed the files become a third as large. The Chinese pictures need a
Chinese typeface, such as Debian's `fonts-wqy-microhei`.
"""

import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, sync_playwright

from engine.clock import SystemClock
from tests.app.ui.conftest import CHROMIUM_ARGUMENTS, Site, find_browser
from tests.app.ui.journeys import journey_scene
from tests.app.ui.reports import report_scene
from tests.app.ui.scenery import Scenery, order
from tests.live import LiveServer

FOLDER = Path(__file__).parents[3] / "docs" / "screenshots"
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}
PASSWORD = "correct horse"
STEP_S = 5
STEPS = 190
# Every page by name: taken wide and light, and narrow and dark as "<name>-narrow".
PICTURES = {
    "overview": "/",
    "topics": "/topics",
    "topic-new": "/create/topic",
    "topic": "/topics/orders",
    "topic-messages": "/topics/orders/messages",
    "topic-groups": "/topics/orders/groups",
    "topic-config": "/topics/orders/config",
    "topic-docs": "/topics/orders/docs",
    "topics-bulk": "/bulk/topics?action=delete&topic=payments&topic=shipments",
    "topics-import": "/import/topics",
    "topic-delete": "/topics/orders/delete",
    "produce": "/topics/orders/produce",
    "produce-file": "/topics/orders/produce/file",
    "produce-file-result": "/topics/orders/produce/file/{run}",
    "purge": "/topics/orders/purge?how=all",
    "messages": "/messages?topic=orders&filter=paid&size=25",
    "message": "/messages/orders/0/1",
    "message-drawer": ("/topics/orders/messages?by=offset&queue=0&offset=0&message=orders:0:1"),
    "message-compare": "/messages/orders/0/1/compare",
    "tail": "/tail?topic=orders,user-events&rows=100",
    "groups": "/groups",
    "groups-reset": "/bulk/groups?action=reset&scope=all&q=e&at=2020-01-01T00:00",
    "group": "/groups/billing",
    "group-clients": "/groups/warehouse/clients",
    "group-subscriptions": "/groups/warehouse/subscriptions",
    "group-retries": "/groups/warehouse/retries",
    "group-config": "/groups/warehouse/config",
    "group-pause": "/groups/warehouse/pause",
    "group-resume": "/groups/warehouse/resume",
    "group-leave": "/groups/warehouse/leave?client=warehouse-1",
    "group-delete": "/groups/warehouse/delete",
    "group-history": "/groups/reports/history",
    "offsets": (
        "/groups/warehouse/offsets?step=review&to=shift&by=-40&topic=orders&topic=shipments"
    ),
    "reset": "/groups/reports/resets/1",
    "reset-undo": "/groups/reports/resets/1/undo",
    "dead-letter-groups": "/dlq",
    "dead-letters": "/dlq/billing",
    "dead-letter": "/dlq/billing/1",
    "resend": "/dlq/billing/resend",
    "dismiss": "/dlq/billing/dismiss?reason=attempts_exhausted",
    "restore": "/dlq/billing/restore",
    "jobs": "/jobs",
    "job": "/jobs/{job}",
    "jobs-history": "/jobs/history",
    "job-new": "/create/job?source=orders",
    "scheduled": "/scheduled",
    "scheduled-message": "/scheduled/REMINDER1",
    "transactions": "/transactions",
    "transaction": "/transactions/TRANSFER1",
    "traces": "/trace",
    "journey": "/trace/REFUND1",
    "journey-empty": "/trace/nobody-has-this",
    "search": "/search?q=er",
    "search-key": "/search?q=1001",
    "reports": "/reports",
    "report-latency": "/reports/latency?range=week&against=before",
    "report-throughput": "/reports/throughput",
    "report-lag": "/reports/lag",
    "report-failures": "/reports/failures?range=month",
    "report-consumers": "/reports/consumers",
    "report-slowest": "/reports/slowest",
    "report-keys": "/reports/keys?against=before",
    "report-queues": "/reports/queues",
    "report-delayed": "/reports/delayed",
    "report-transactions": "/reports/transactions",
    "report-run": "/reports/runs/1",
    "report-schedule": "/reports/schedules/lag",
    "report-backfill": "/reports/backfill",
    "alerts": "/alerts",
    "alert-rule": "/alerts/new?kind=lag&group=billing",
    "alert-rule-edit": "/alerts/rules/1",
    "alert-rule-delete": "/alerts/rules/1/delete",
    "alert-receiver-new": "/alerts/receivers/new?kind=email",
    "alert-receiver": "/alerts/receivers/1",
    "alert-receiver-delete": "/alerts/receivers/1/delete",
    "clients": "/clients",
    "client": "/clients/warehouse-1",
    "client-disconnect": "/client/disconnect?client=warehouse-1",
    "message-verify": "/messages/%25DLQ%25billing/0/0/verify",
    "engine": "/engine",
    "engine-handover": "/engine/handover?to=10.0.0.2:10912",
    "engine-promotion": "/engine/promotion",
    "access": "/access",
    "audit": "/audit",
    "views": "/views?path=/topics&query=q%3Dorders",
    "settings": "/settings",
    "help": "/help",
    "start": "/help/start",
    "components": "/help/components",
    "control": "/engine/control",
    "access-check": "/access/check?who=role&role=operator&patterns=*:*:orders-*&name=orders-1",
    "palette": "/palette?q=or",
    "error": "/topics/no-such-topic",
}
# The same of a server with people.
# A file of messages; the last line is refused.
LINES = (
    "body,keys,delay_ms\nhello,order-1042,\nremember me,order-1043,60000\nlater,order-1044,soon\n"
)
OF_PEOPLE = {
    "login": "/login",
    "login-failed": "/login/provider?next=/no-such-provider",
    "login-left": "/login/left",
    "user": "/access/users/admin",
}
# What is also shown otherwise: name -> (picture, theme, language, size).
OTHERWISE = {
    "overview-dark": ("overview", "dark", "en-US", WIDE),
    "topic-dark": ("topic", "dark", "en-US", WIDE),
    "group-dark": ("group", "dark", "en-US", WIDE),
    "overview-chinese": ("overview", "light", "zh-CN", WIDE),
    "journey-chinese-narrow": ("journey", "dark", "zh-CN", NARROW),
}


class HurriedClock(SystemClock):
    """The machine's clock, ahead by what it was hurried."""

    def __init__(self) -> None:
        self._ahead_s = 0

    def hurry(self, seconds: int) -> None:
        self._ahead_s += seconds

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_s * 1000

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s


def live(site: Site, scenery: Scenery, clock: HurriedClock) -> None:
    """A quarter of an hour of traffic that swells and ebbs."""
    number = 1000
    for step in range(STEPS):
        clock.hurry(STEP_S)
        count = 40 + round(22 * math.sin(step / 13)) + step * 7 % 11
        for first in range(0, count, 10):
            scenery.send(
                "orders", [order(number + n) for n in range(first, min(first + 10, count))]
            )
        number += count
        clicks = [{"body": f"click {number + n}", "tag": "click"} for n in range(count // 3)]
        scenery.send("user-events", clicks)
        scenery.ack("analytics", scenery.receive("analytics", "user-events", 256))
        scenery.ack("warehouse", scenery.receive("warehouse", "orders", min(256, count + 8)))
        scenery.ack("billing", scenery.receive("billing", "orders", count // 2))
        if step % 2 == 0:
            httpx.get(site.base)  # a look at the figures, so that lags get their history
    scenery.receive("warehouse", "shipments", 12)
    failed = scenery.receive("mailer", "payments", 4)
    nacks = [{"receipt": one["receipt"], "delay_level": 9, "error": "busy"} for one in failed]
    scenery.post("/groups/mailer/nack", {"nacks": nacks})


def gather(scenery: Scenery) -> None:
    """Consumers that are there when a picture is taken; one of them subscribes otherwise."""
    for group, client, topics in (
        ("warehouse", "warehouse-1", {"orders": "*", "shipments": "*"}),
        ("warehouse", "warehouse-2", {"orders": "*", "shipments": "*"}),
        ("warehouse", "warehouse-3", {"orders": "paid", "shipments": "*"}),
        ("billing", "billing-1", {"orders": "*"}),
        ("analytics", "analytics-1", {"user-events": "click"}),
        ("mailer", "mailer-1", {"payments": "*"}),
    ):
        about = {"client": client, "version": "5.1.2", "language": "PYTHON", "topics": topics}
        scenery.post(f"/groups/{group}/members/heartbeat", about)


def photograph(
    browser: Browser, url: str, name: str, path: str, folder: Path, login: Any = None
) -> None:
    """Take a page wide and light, and narrow and dark."""
    take(browser, url + path, folder / f"{name}.png", login=login)
    narrow = folder / f"{name}-narrow.png"
    take(browser, url + path, narrow, theme="dark", size=NARROW, login=login)


def take(
    browser: Browser,
    address: str,
    file: Path,
    *,
    theme: str = "light",
    language: str = "en-US",
    size: dict[str, int] = WIDE,
    login: Any = None,
) -> None:
    """One picture, once nothing is under way; what the window shows, without what lies below."""
    context = browser.new_context(
        viewport=size,  # type: ignore[arg-type]
        color_scheme="dark" if theme == "dark" else "light",
        locale=language,
        storage_state=login,
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=file)
    context.close()


def logged_in(browser: Browser, url: str) -> Any:
    """The cookies of an admin who has logged in."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}/login")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url(f"{url}/")
    state = context.storage_state()
    context.close()
    return state


def photograph_people(browser: Browser, folder: Path) -> None:
    """The pages of a server with users and a provider, which nobody asks for anything."""
    with tempfile.TemporaryDirectory() as data:
        server = LiveServer(
            Path(data) / "data",
            environment="staging",
            admin_password=PASSWORD,
            oidc_issuer="https://id.example.org",
            oidc_client_id="kitemq",
            oidc_name="Example ID",
            oidc_default_role="viewer",
        )
        server.start()
        try:
            login = logged_in(browser, server.url)
            for name, path in OF_PEOPLE.items():
                state = login if path.startswith("/access") else None
                photograph(browser, server.url, name, path, folder, state)
        finally:
            server.stop()


def squeeze(folder: Path) -> None:
    """Fewer colours, where there is what can do it: nobody sees the difference."""
    if pngquant := shutil.which("pngquant"):
        words = [pngquant, "--force", "--ext", ".png", "--skip-if-larger"]
        subprocess.run([*words, *map(str, folder.glob("*.png"))], check=False)


def main() -> None:
    """Build the scene in a directory of its own and take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    clock = HurriedClock()
    with tempfile.TemporaryDirectory() as data, Site(Path(data) / "data", clock) as site:
        scenery = Scenery(site.base)
        scenery.build()
        report_scene.build(site.data / "kitemq.db", clock.now_ms())
        live(site, scenery, clock)
        journey_scene.prepare(scenery)
        journey_scene.tell(scenery, clock.hurry, level=3, id="REFUND1")
        job = scenery.get("/replays")["items"][0]["id"]
        run = scenery.send_file("orders", LINES)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=CHROMIUM_ARGUMENTS
            )
            for name, path in PICTURES.items():
                gather(scenery)  # again and again: a member that is not heard of is soon gone
                photograph(browser, site.base, name, path.format(job=job, run=run), folder)
            for name, (picture, theme, language, size) in OTHERWISE.items():
                address = site.base + PICTURES[picture]
                file = folder / f"{name}.png"
                take(browser, address, file, theme=theme, language=language, size=size)
            photograph_people(browser, folder)
            browser.close()
        scenery.close()
    squeeze(folder)


if __name__ == "__main__":
    main()
