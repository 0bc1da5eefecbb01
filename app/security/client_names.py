"""Whose a client's name is: a name belongs to the user or token that took it, while it is alive.

A client is known to the engine by its name alone, so whoever speaks under one could end another's
connection, take its share of queues or move its place in a broadcast. Here each door asks first:
for a connection's name, and for a name as a member of a group. Nobody is told apart on a server
without users.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.security.access import Principal
from engine.errors import Forbidden

PRUNE_EVERY = 1000  # members that may have gone before the list of holders is looked through


class ClientNameTaken(Forbidden):
    """The name is another's as long as that one is alive."""

    code = "client_name_taken"


@dataclass(frozen=True)
class NameOwner:
    """A user, and the token if one was sent; both are "" while nobody is asked who asks."""

    user: str = ""
    token: str = ""

    def is_other(self, who: "NameOwner") -> bool:
        """Whether `who` may not go on under a name that this one holds.

        Tokens of one user are strangers to each other; the user's own login may speak for any.
        """
        if not self.user or not who.user:
            return False
        return self.user != who.user or bool(self.token and who.token and self.token != who.token)


def owner_of(who: Principal) -> NameOwner:
    """The holder of what `who` takes."""
    return NameOwner(who.name, who.token)


def check_name(client: str, holder: NameOwner | None, who: NameOwner) -> None:
    """Raise ClientNameTaken where `holder` keeps `who` from the name `client`."""
    if holder is not None and holder.is_other(who):
        raise ClientNameTaken(
            f"the client name {client[:255]!r} is in use by another user or token",
            field="client",
            remedy="choose another name, or wait until that client is gone",
        )


class ClientNames:
    """The holders of names as members of groups; what they hold ends with the membership."""

    def __init__(self, is_alive: Callable[[str, str], bool]) -> None:
        """`is_alive` says of a group and a client whether that is a live member."""
        self._is_alive = is_alive
        self._holders: dict[tuple[str, str], NameOwner] = {}
        self._prune_at = PRUNE_EVERY

    def check(self, group: str, client: str, who: NameOwner) -> None:
        """Raise ClientNameTaken where another's live member of `group` has this name."""
        holder = self._holders.get((group, client))
        if holder is not None and self._is_alive(group, client):
            check_name(client, holder, who)

    def claim(self, group: str, client: str, who: NameOwner) -> None:
        """Take the name for `who`, who becomes a member by it; raises as `check`."""
        self.check(group, client, who)
        if not who.user:
            self._holders.pop((group, client), None)
            return
        self._holders[group, client] = who
        if len(self._holders) >= self._prune_at:
            self._prune()

    def _prune(self) -> None:
        """Let go of those that are no members any more; members themselves are bounded."""
        alive = {key: each for key, each in self._holders.items() if self._is_alive(*key)}
        self._holders = alive
        self._prune_at = 2 * len(alive) + PRUNE_EVERY
