"""Posts a message to a webhook: one attempt, its time bounded, and its outcome."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.addresses import redacted_text
from app.db.alert_rows import ReceiverRow
from app.services.alerts.events import signature
from app.services.alerts.message_forms import AlertMessage, content_of
from app.services.targets import TargetClient, TargetRefused, Targets
from kitemq.model.alerts import ReceiverKind

TIMEOUT_S = 10.0
CONNECTIONS_MAX = 16
ERROR_CHARS_MAX = 300
TRY_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True)
class PostOutcome:
    """The result of an attempt; `error` is empty after a success, `status` is HTTP's."""

    status: int | None
    error: str = ""
    is_permanent: bool = False

    @property
    def is_final(self) -> bool:
        """Whether a retry would be refused again."""
        status = self.status
        if status is None:
            return self.is_permanent
        return 300 <= status < 500 and status not in TRY_AGAIN


class WebhookPoster:
    """Posts to webhooks and chats, over connections that `targets` allows."""

    def __init__(self, targets: Targets) -> None:
        self._client = TargetClient(targets, connections_max=CONNECTIONS_MAX)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def post(self, receiver: ReceiverRow, message: AlertMessage, now_ms: int) -> PostOutcome:
        """Post a message; what may be read in an error is no secret."""
        client = await self._client.opened()
        import httpx  # loaded by now

        body = content_of(message, ReceiverKind(receiver.kind))
        timestamp = str(now_ms // 1000)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "KiteMQ",
            "KiteMQ-Event": message.event,
            "KiteMQ-Delivery": message.id,
            "KiteMQ-Timestamp": timestamp,
        }
        if receiver.signing_secret:
            headers["KiteMQ-Signature"] = signature(receiver.signing_secret, timestamp, body)
        url = receiver.url
        try:
            async with asyncio.timeout(TIMEOUT_S):
                # Only the status matters: the body may be as long as it likes.
                async with client.stream("POST", url, content=body, headers=headers) as answer:
                    status = answer.status_code
        except TimeoutError:
            return PostOutcome(None, f"no answer within {TIMEOUT_S:.0f} s")
        except TargetRefused as error:
            return PostOutcome(None, f"the address is not called: {error}"[:ERROR_CHARS_MAX])
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = redacted_text(f"{type(error).__name__}: {error}")
            return PostOutcome(None, reason[:ERROR_CHARS_MAX])
        return PostOutcome(status, "" if 200 <= status < 300 else f"the answer was {status}")


def host_of(url: str) -> str:
    """An address without its path and query, which often hold a secret."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "an address that cannot be read"
