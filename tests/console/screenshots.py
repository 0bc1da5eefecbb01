"""Pictures of the console over a quarter of an hour of traffic, for the documentation.

    python -m tests.console.screenshots [folder]

The server is real; only its clock is hurried, so that the charts have something to show.
"""

import math
import sys
import tempfile
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

from engine.clock import SystemClock
from tests.console import journeys, report_scene
from tests.console.conftest import CHROMIUM_ARGUMENTS, Site, find_browser
from tests.console.scenery import Scenery, order
from tests.live import LiveServer

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
WIDE = {"width": 1440, "height": 900}
TALL = {"width": 1440, "height": 1400}
NARROW = {"width": 390, "height": 844}
STEP_S = 5
STEPS = 190
PICTURES = (
    ("overview", "/", "light", WIDE),
    ("overview-dark", "/", "dark", WIDE),
    ("overview-narrow", "/", "light", NARROW),
    ("overview-chinese", "/", "light", WIDE),
    ("journey-chinese-narrow-dark", "/trace/REFUND1", "dark", NARROW),
    ("topics", "/topics", "light", WIDE),
    ("topic-dark", "/topics/orders", "dark", WIDE),
    ("messages", "/topics/orders/messages", "light", WIDE),
    ("search", "/messages?topic=orders&filter=paid&size=25", "light", WIDE),
    ("tail-dark", "/tail?topic=orders,user-events&rows=100", "dark", WIDE),
    ("message", "/messages/orders/0/1", "light", WIDE),
    ("message-narrow-dark", "/messages/orders/0/1", "dark", NARROW),
    ("produce", "/topics/orders/produce", "light", WIDE),
    ("groups", "/groups", "light", WIDE),
    ("alerts", "/alerts", "light", WIDE),
    ("alert-rule-dark", "/alerts/new?kind=lag&group=billing", "dark", WIDE),
    ("group-dark", "/groups/billing", "dark", WIDE),
    ("reports", "/reports", "light", WIDE),
    ("report-latency", "/reports/latency?range=week&against=before", "light", TALL),
    ("report-lag-dark", "/reports/lag", "dark", TALL),
    ("report-failures-narrow-dark", "/reports/failures?range=month", "dark", NARROW),
    (
        "offsets",
        "/groups/warehouse/offsets?step=review&to=shift&by=-40&topic=orders&topic=shipments",
        "light",
        WIDE,
    ),
    ("dead-letters", "/dlq/billing", "light", WIDE),
    ("dead-letter", "/dlq/billing/1", "dark", WIDE),
    ("resend", "/dlq/billing/resend", "light", WIDE),
    ("dismiss", "/dlq/billing/dismiss?reason=rejected", "light", WIDE),
    ("replay-form-narrow-dark", "/create/job?source=orders", "dark", NARROW),
    ("scheduled", "/scheduled", "light", WIDE),
    ("transactions-dark", "/transactions", "dark", WIDE),
    ("clients", "/clients", "light", WIDE),
    ("engine", "/engine", "light", WIDE),
    ("engine-narrow-dark", "/engine", "dark", NARROW),
    ("audit", "/audit", "light", WIDE),
    ("journey", "/trace/REFUND1", "light", WIDE),
    ("journey-narrow-dark", "/trace/REFUND1", "dark", NARROW),
    ("views", "/views?path=/topics&query=q%3Dorders", "light", WIDE),
    ("purge", "/topics/orders/purge?how=all", "light", WIDE),
)

LOGINS = (("login", "light", WIDE), ("login-narrow-dark", "dark", NARROW))


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
        if step % 6 == 0:
            httpx.get(site.base)  # a look at the figures, so that lags get their history
    scenery.receive("warehouse", "shipments", 12)
    failed = scenery.receive("mailer", "payments", 4)
    nacks = [{"receipt": one["receipt"], "delay_level": 9, "error": "busy"} for one in failed]
    scenery.post("/groups/mailer/nack", {"nacks": nacks})


def photograph(browser: Browser, site: Site, folder: Path) -> None:
    """Take every picture."""
    for name, path, theme, size in PICTURES:
        context = browser.new_context(
            base_url=site.base,
            viewport=size,  # type: ignore[arg-type]
            color_scheme="dark" if theme == "dark" else "light",
            locale="zh-CN" if "chinese" in name else "en-US",
        )
        page = context.new_page()
        page.goto(path)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=folder / f"{name}.png")
        context.close()


def photograph_login(browser: Browser, folder: Path) -> None:
    """The login page of a server with users and a provider, which nobody asks for anything."""
    with tempfile.TemporaryDirectory() as data:
        server = LiveServer(
            Path(data) / "data",
            environment="staging",
            admin_password="correct horse",
            oidc_issuer="https://id.example.org",
            oidc_client_id="kitemq",
            oidc_name="Example ID",
            oidc_default_role="viewer",
        )
        server.start()
        try:
            for name, theme, size in LOGINS:
                context = browser.new_context(
                    viewport=size,  # type: ignore[arg-type]
                    color_scheme="dark" if theme == "dark" else "light",
                )
                page = context.new_page()
                page.goto(f"{server.url}/login")
                page.screenshot(path=folder / f"{name}.png")
                context.close()
        finally:
            server.stop()


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
        journeys.prepare(scenery)
        journeys.tell(scenery, clock.hurry, level=3, id="REFUND1")
        scenery.close()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=CHROMIUM_ARGUMENTS
            )
            photograph(browser, site, folder)
            photograph_login(browser, folder)
            browser.close()


if __name__ == "__main__":
    main()
