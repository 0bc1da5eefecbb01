"""Ownership of client names: a name belongs to a user or token while its client is alive.

The engine identifies a client by its name alone: under another client's name, one could end its
connection, take its queues or move its offsets in a broadcast group. Each endpoint therefore checks
the owner of a connection's name, and of a group member's name. Without users there are no owners.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.security.access import Principal
from engine.errors import Forbidden

PRUNE_EVERY = 1000  # new names between two removals of names whose members have left


class ClientNameTaken(Forbidden):
    """The name belongs to another client that is alive."""

    code = "client_name_taken"


@dataclass(frozen=True)
class NameOwner:
    """A user, and the token if one was sent; both are "" while authentication is off."""

    user: str = ""
    token: str = ""

    def is_other(self, claimant: "NameOwner") -> bool:
        """Whether `claimant` may not use a name of this owner.

        Two tokens of one user are different owners; the user's own login may use names of both.
        """
        if not self.user or not claimant.user:
            return False
        return self.user != claimant.user or bool(
            self.token and claimant.token and self.token != claimant.token
        )


def owner_of(claimant: Principal) -> NameOwner:
    """The owner of names that `claimant` claims."""
    return NameOwner(claimant.name, claimant.token)


def check_name(client: str, holder: NameOwner | None, claimant: NameOwner) -> None:
    """Raise ClientNameTaken if `client` belongs to an owner other than `claimant`."""
    if holder is not None and holder.is_other(claimant):
        raise ClientNameTaken(
            f"the client name {client[:255]!r} is in use by another user or token",
            field="client",
            remedy="choose another name, or wait until that client is gone",
        )


class ClientNames:
    """The owners of the names of group members; ownership ends with the membership."""

    def __init__(self, is_alive: Callable[[str, str], bool]) -> None:
        """`is_alive` tells whether a client is a live member of a group."""
        self._is_alive = is_alive
        self._holders: dict[tuple[str, str], NameOwner] = {}
        self._prune_at = PRUNE_EVERY

    def check(self, group: str, client: str, claimant: NameOwner) -> None:
        """Raise ClientNameTaken if a live member of `group` with this name has another owner."""
        holder = self._holders.get((group, client))
        if holder is not None and self._is_alive(group, client):
            check_name(client, holder, claimant)

    def claim(self, group: str, client: str, claimant: NameOwner) -> None:
        """Make `claimant` the owner of the name of a new member; raises like `check`."""
        self.check(group, client, claimant)
        if not claimant.user:
            self._holders.pop((group, client), None)
            return
        self._holders[group, client] = claimant
        if len(self._holders) >= self._prune_at:
            self._prune()

    def _prune(self) -> None:
        """Remove names whose members have left; the number of members is bounded."""
        alive = {key: each for key, each in self._holders.items() if self._is_alive(*key)}
        self._holders = alive
        self._prune_at = 2 * len(alive) + PRUNE_EVERY
