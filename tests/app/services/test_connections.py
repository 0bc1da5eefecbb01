"""Who is connected right now."""

import pytest

from app.services.connections import Connected, Connections


def test_a_connection_is_listed_while_it_is_open_under_its_name_as_of_now() -> None:
    connections, name = Connections(), ["ws-1"]
    with connections.opened(lambda: name[0], "127.0.0.1:1", 5):
        with connections.opened(lambda: "other", "127.0.0.1:2", 6):
            name[0] = "worker"
            assert connections.all() == [
                Connected("worker", "127.0.0.1:1", 5),
                Connected("other", "127.0.0.1:2", 6),
            ]
        assert connections.count == 1
    assert connections.all() == []


def test_a_connection_that_fails_is_gone_too() -> None:
    connections = Connections()
    with pytest.raises(ZeroDivisionError), connections.opened(lambda: "a", "", 0):
        raise ZeroDivisionError
    assert connections.count == 0
