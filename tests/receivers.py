"""What alerts are sent to in tests: an HTTP server on a thread, and an SMTP server on the loop."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT_S = 20.0


@dataclass
class HookServer:
    """Answers with the statuses it was given, the last one for ever; keeps what it got."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [200])
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]

    @property
    def ids(self) -> list[str]:
        return [body["id"] for body in self.bodies]


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """A webhook receiver on the loopback; its address holds a token."""
    hook = HookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_port}/hook?token=hidden"
    yield hook
    server.shutdown()
    server.server_close()
    thread.join(LIMIT_S)


@dataclass
class SmtpServer:
    """A small SMTP server; `refusals` are answers to recipients, `password` is asked for."""

    port: int = 0
    tls: ssl.SSLContext | None = None
    password: str = ""
    refusals: dict[str, str] = field(default_factory=dict)
    is_silent: bool = False
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)  # by a client, on the silent one
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    was_tls: list[bool] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One conversation."""
        if self.is_silent:
            await reader.read()
            self.hung_up.set()
            writer.close()
            return
        is_tls = False
        to: list[str] = []
        writer.write(b"220 mail.test ESMTP\r\n")
        while line := (await reader.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            writer.write(self._answer(word.upper(), rest, to, is_tls=is_tls))
            await writer.drain()
            if word.upper() == "STARTTLS" and self.tls is not None:
                await writer.start_tls(self.tls)
                is_tls = True
            elif word.upper() == "DATA":
                data = await reader.readuntil(b"\r\n.\r\n")
                mail = message_from_bytes(data[:-5], policy=policy.default)
                assert isinstance(mail, EmailMessage)
                self.mails.append(mail)
                self.recipients += to
                self.was_tls.append(is_tls)
                writer.write(b"250 accepted\r\n")
        writer.close()

    def _answer(self, word: str, rest: str, to: list[str], *, is_tls: bool) -> bytes:
        answers = {"STARTTLS": "220 go on", "DATA": "354 go on", "QUIT": "221 bye"}
        answer = answers.get(word, "250 ok")
        if word == "EHLO":
            offer = "250-STARTTLS\r\n" if self.tls and not is_tls else ""
            answer = f"250-mail.test\r\n{offer}250 AUTH PLAIN"
        elif word == "AUTH":
            _, user, password = base64.b64decode(rest.partition(" ")[2]).decode().split("\0")
            self.logins.append((user, password))
            answer = "235 welcome" if password == self.password else f"535 no such login {rest}"
        elif word == "RCPT":
            address = rest.partition("<")[2].rstrip(">")
            answer = self.refusals.get(address, answer)
            if answer.startswith("250"):
                to.append(address)
        return f"{answer}\r\n".encode()


@asynccontextmanager
async def smtp_server(**changes: Any) -> AsyncIterator[SmtpServer]:
    """An SMTP server on the loopback."""
    mail = SmtpServer(**changes)
    server = await asyncio.start_server(mail.serve, "127.0.0.1", 0)
    mail.port = server.sockets[0].getsockname()[1]
    yield mail
    server.close()
