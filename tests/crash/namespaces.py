"""Two machines on one: network namespaces with a link between them that can be cut in two ways."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kitemq import Client
from tests.crash.process import CALL_TIMEOUT_S, ServerProcess

CLONE_NEWNET = 0x40000000
ADDRESSES = ("10.203.77.1", "10.203.77.2")
NOBODY = "02:00:00:00:77:77"  # a link address that no interface has


def ip(*words: str) -> None:
    """Run `ip`; CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Let this thread, and the processes that it starts, be in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        with Path("/run/netns", namespace).open() as other:
            _enter(libc, other.fileno())
        try:
            yield
        finally:
            _enter(libc, before.fileno())


def _enter(libc: ctypes.CDLL, number: int) -> None:
    if libc.setns(number, CLONE_NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class NamespaceLink:
    """Namespaces `names`, each with loopback and one end of the link; `remove` them."""

    def __init__(self) -> None:
        """CalledProcessError where the kernel or the user's rights do not permit it."""
        self.names = tuple(f"kitemq-{os.getpid()}-{number}" for number in range(2))
        self._ends = tuple(f"kq{os.getpid() % 10**8}x{number}" for number in range(2))
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", self._ends[0], "type", "veth", "peer", "name", self._ends[1])
            for name, end, address in zip(self.names, self._ends, ADDRESSES, strict=True):
                ip("link", "set", end, "netns", name)
                ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", end, "up")
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def set_down(self) -> None:
        """Pull the plug: both sides see that there is no network."""
        for name, end in zip(self.names, self._ends, strict=True):
            ip("-n", name, "link", "set", end, "down")

    def set_up(self) -> None:
        """Mend whatever was cut."""
        for name, end in zip(self.names, self._ends, strict=True):
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "neigh", "flush", "all", "nud", "all")

    def drop(self) -> None:
        """Lose every packet of both sides, without a reset or another sign."""
        pairs = zip(self.names, self._ends, reversed(ADDRESSES), strict=True)
        for name, end, other in pairs:
            nobody = ("lladdr", NOBODY, "nud", "permanent", "dev", end)
            ip("-n", name, "neigh", "replace", other, *nobody)


class NamespaceClient(Client):
    """A client whose thread is in the namespace for as long as it is open."""

    namespace = ""

    def __enter__(self) -> Self:
        self._inside = inside(self.namespace)
        self._inside.__enter__()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        finally:
            self._inside.__exit__(None, None, None)


class Machine(ServerProcess):
    """A server in a namespace; its `client` calls from there."""

    def __init__(self, namespace: str, data: Path, **settings: object) -> None:
        super().__init__(data, **settings)
        self.namespace = namespace

    def begin(self) -> None:
        with inside(self.namespace):
            super().begin()

    def client(self) -> Client:
        client = NamespaceClient(self.url, timeout_s=CALL_TIMEOUT_S)
        client.namespace = self.namespace
        return client
