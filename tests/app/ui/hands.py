"""What a person does with a page, and what it costs: clicks and keys, each counted."""

from playwright.sync_api import Locator, Page, expect

from tests.patience import until


class Hands:
    """They click, choose and type on one page, and look before they do.

    A click in a field counts as one, unless the page put the cursor there; a choice of a list
    counts as two, one to open it and one to choose. Keys are counted apart.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0
        self.keys = 0

    def see(self, place: Locator) -> Locator:
        """Wait until it is visible."""
        expect(place).to_be_visible()
        return place

    def click(self, place: Locator) -> None:
        self.clicks += 1
        self._press(self.see(place))

    def type(self, field: Locator, text: str) -> None:
        """Replace what the field holds."""
        self.see(field)
        if not self._has_cursor(field):
            self.click(field)
        self.keys += len(text)
        # Playwright's `fill` adds to what a number's field holds in Firefox.
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        until(lambda: field.input_value() == text, f"{field} does not hold {text}")

    def choose(self, choices: Locator, label: str) -> None:
        """Choose of a list by the words that it shows."""
        self.see(choices)
        self.clicks += 2
        choices.select_option(label=label)

    def key(self, name: str) -> None:
        """Press one key, where the cursor is."""
        self.keys += 1
        self.page.keyboard.press(name)

    def assert_cost(self, *, clicks: int, keys: int) -> None:
        """The job is done with exactly so many."""
        assert {"clicks": self.clicks, "keys": self.keys} == {"clicks": clicks, "keys": keys}

    def _has_cursor(self, field: Locator) -> bool:
        return bool(field.evaluate("field => field === document.activeElement"))

    def _press(self, place: Locator) -> None:
        place.click()


class HandsWithoutTimers(Hands):
    """The same where pages have no timers, as in a Firefox whose JavaScript is switched off.

    Playwright waits by timers of the page, so the waiting is done here.
    """

    def see(self, place: Locator) -> Locator:
        until(place.is_visible, f"{place} is not visible")
        return place

    def _press(self, place: Locator) -> None:
        place.click(force=True)
