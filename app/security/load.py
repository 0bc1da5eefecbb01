"""How much may be under way at once: requests of one client, of all, and the bytes they hold.

Whoever is over his own share gets a 429, everybody gets a 503 while the server is full; both say
when to come back. What is counted on the way in is given back on the way out.
"""

from app.errors import DoorError

RETRY_AFTER_S = 1.0


class Load:
    """The counts; one object for the application, on the event loop's thread only."""

    def __init__(
        self, *, client_requests_max: int, requests_max: int, bytes_max: int, request_bytes_max: int
    ) -> None:
        self._client_requests_max = client_requests_max
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._request_bytes_max = request_bytes_max
        self._clients: dict[str, int] = {}
        self.requests = 0
        self.held_bytes = 0
        self.refused = 0

    def enter(self, client: str) -> None:
        """Count a request in; `leave` it when it is over, whatever became of it."""
        under_way = self._clients.get(client, 0)
        if under_way >= self._client_requests_max:
            raise self._refuse(429, "too_many_requests", "this client has too many requests")
        if self.requests >= self._requests_max:
            raise self._refuse(503, "busy", "the server has too many requests")
        self._clients[client] = under_way + 1
        self.requests += 1

    def leave(self, client: str, held_bytes: int) -> None:
        """Count a request out, with the bytes that its body held."""
        self.requests -= 1
        self.release(held_bytes)
        left = self._clients[client] - 1
        if left:
            self._clients[client] = left
        else:
            del self._clients[client]

    def hold(self, size_bytes: int, held_bytes: int) -> int:
        """Take `size_bytes` more for a request that holds `held_bytes`; what it holds then.

        Raises a 413 where one request is too large, a 503 where all together are.
        """
        total = held_bytes + size_bytes
        if total > self._request_bytes_max:
            self.refused += 1
            raise DoorError(
                413,
                "body_too_large",
                f"the body is larger than {self._request_bytes_max} bytes",
                field="body",
                remedy="send fewer or smaller messages in one request",
            )
        if self.held_bytes + size_bytes > self._bytes_max:
            raise self._refuse(503, "busy", "the server holds too many bytes of requests")
        self.held_bytes += size_bytes
        return total

    def release(self, held_bytes: int) -> None:
        """Give back bytes that were held for what is not counted as a request."""
        self.held_bytes -= held_bytes

    def _refuse(self, status: int, code: str, detail: str) -> DoorError:
        self.refused += 1
        return DoorError(
            status,
            code,
            f"{detail} under way",
            remedy="try again after the given wait",
            retry_after_s=RETRY_AFTER_S,
        )
