"""Debian's Firefox as Playwright can drive it: a relay that answers what this Firefox lacks.

    python -m tests.app.ui.firefox <executable> [Firefox's arguments]

Playwright describes every new page's media by a command of WebDriver BiDi which Firefox 153 does
not have yet, and gives up where it is refused (ADR 43). The relay answers it; all else passes
unchanged. Where Firefox learns it, this module goes.
"""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

READY = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
UNKNOWN_TO_FIREFOX = frozenset({"emulation.setMediaFeaturesOverride"})


async def relay(browser: str, client: ServerConnection) -> None:
    """Pass messages on in both directions until either side ends."""
    path = client.request.path if client.request else ""
    async with connect(browser + path, max_size=None, compression=None) as firefox:
        directions = (_ask(client, firefox), _answer(firefox, client))
        tasks = [asyncio.create_task(direction) for direction in directions]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _ask(client: ServerConnection, firefox: ClientConnection) -> None:
    async for text in client:
        command = json.loads(text)
        if command["method"] in UNKNOWN_TO_FIREFOX:
            answer = {"type": "success", "id": command["id"], "result": {}}
            await client.send(json.dumps(answer))
        else:
            await firefox.send(text)


async def _answer(firefox: ClientConnection, client: ServerConnection) -> None:
    async for text in firefox:
        await client.send(text)


async def run(executable: str, arguments: list[str]) -> int:
    """Start Firefox and name the relay where Firefox names itself; its exit code once it ends."""
    firefox = await asyncio.create_subprocess_exec(
        executable, *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        if ready := READY.search(line.decode()):
            browser = ready[1]
            break
    else:
        return await firefox.wait()

    async def accept(client: ServerConnection) -> None:
        await relay(browser, client)

    async with serve(accept, "127.0.0.1", 0, max_size=None, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"WebDriver BiDi listening on ws://127.0.0.1:{port}", file=sys.stderr, flush=True)  # noqa: T201
        async for _ in firefox.stderr:
            pass  # read, so that its pipe never fills
        return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1], sys.argv[2:])))
