"""Finding messages, over REST: a part of `kitemq.Client`."""

from collections.abc import Iterator
from urllib.parse import quote

from kitemq.model.messages import SearchPage, SearchResult, Stored
from kitemq.rest import RestConnection

PAGE = 200
WAIT_S = 10.0  # the longest that the server looks before it answers


class Searching(RestConnection):
    """Looks through a topic, or for one text in everything."""

    def search(
        self,
        topic: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 0,
        filter: str = "*",
        contains: str = "",
        limit: int = 0,
    ) -> Iterator[Stored]:
        """Messages of a topic in the order of storing, at most `limit` (0: all of them).

        Stored from `begin_ms` to before `end_ms` (ms since 1970 UTC; 0: no end), that match the
        filter and whose body contains a text.
        """
        cursor: str | None = ""
        left = limit
        while cursor is not None:
            page = self.search_page(
                topic,
                begin_ms=begin_ms,
                end_ms=end_ms,
                filter=filter,
                contains=contains,
                limit=min(PAGE, left) if limit else PAGE,
                cursor=cursor,
            )
            yield from page.items
            left -= len(page.items)
            cursor = page.next_cursor if not limit or left > 0 else None

    def search_page(
        self,
        topic: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 0,
        filter: str = "*",
        contains: str = "",
        limit: int = 32,
        cursor: str = "",
        budget_s: float = 2.0,
    ) -> SearchPage:
        """One page: `items`, and with `scanned`, `total` and `matched` how far the search is.

        It ends when it is full or after `budget_s` (10 s at most), then `next_cursor` goes on.
        """
        params = {
            "begin_ms": begin_ms,
            "end_ms": end_ms,
            "filter": filter,
            "contains": contains,
            "limit": limit,
            "cursor": cursor,
            "budget_ms": round(budget_s * 1000),
        }
        path = f"/topics/{quote(topic, safe='')}/search"
        return self._typed(SearchPage, "GET", path, params=params, wait_s=WAIT_S)

    def find_anything(self, text: str) -> SearchResult:
        """Messages with this id or key in any topic, and topics and groups of such names."""
        return self._typed(SearchResult, "GET", "/search", params={"q": text}, wait_s=WAIT_S)
