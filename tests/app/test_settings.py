"""Settings: three places, one list of names, and no guessing."""

from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings, SettingsError, is_loopback, load, settings_fields
from engine.message import Durability

OIDC = {
    "KITEMQ_OIDC_ISSUER": "https://idp.example",
    "KITEMQ_OIDC_CLIENT_ID": "kitemq",
    "KITEMQ_OIDC_ROLES": "staff=viewer",
}


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "kitemq.toml"
    config.write_text('port = 1\nhost = "127.0.0.2"\ndefault_queues = 1\ndurability = "flushed"\n')
    environ = {"KITEMQ_PORT": "2", "KITEMQ_HOST": "127.0.0.3", "OTHER": "x"}
    settings = load({"port": "3"}, config=config, environ=environ)
    assert (settings.port, settings.host, settings.default_queues) == (3, "127.0.0.3", 1)
    assert settings.durability is Durability.FLUSHED


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    config = tmp_path / "kitemq.toml"
    config.write_text('allowed_hosts = ["a.example", "b.example"]\n')
    settings = load(environ={"KITEMQ_CONFIG": str(config)})
    assert settings.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", "8_081", 8081),
        ("flush_interval_s", "0.25", 0.25),
        ("auto_create_topics", "no", False),
        ("auto_create_groups", "TRUE", True),
        ("data", "/var/lib/kitemq", Path("/var/lib/kitemq")),
        (
            "allowed_origins",
            "https://a.example, https://b.example",
            ("https://a.example", "https://b.example"),
        ),
    ],
)
def test_each_kind_of_value_is_read_from_text(name: str, text: str, value: object) -> None:
    assert getattr(load({name: text}, environ={}), name) == value


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"KITEMQ_PROT": "1"}, ["'prot'", "environment", "'port'"]),
        ({"KITEMQ_PORT": "many"}, ["'port'", "'many'", "a whole number"]),
        ({"KITEMQ_PORT": "70000"}, ["'port'", "0 to 65535"]),
        ({"KITEMQ_DURABILITY": "maybe"}, ["'durability'", "stored or flushed"]),
        ({"KITEMQ_AUTO_CREATE_TOPICS": "perhaps"}, ["true or false"]),
        ({"KITEMQ_SEGMENT_BYTES": "-1"}, ["'segment_bytes'", "0 or more"]),
        ({"KITEMQ_LOG_LEVEL": "loud"}, ["debug, info, warning or error"]),
        ({"KITEMQ_CONFIG": "/does/not/exist.toml"}, ["/does/not/exist.toml", "does not exist"]),
        ({"KITEMQ_PUBLIC_URL": "kite.example.org"}, ["'public_url'", "https://kite.example.org"]),
        ({"KITEMQ_PUBLIC_URL": "https://kite.example.org/x"}, ["'public_url'"]),
        ({"KITEMQ_PASSWORD_LOGIN": "no"}, ["'password_login'", "'oidc_issuer'"]),
        ({"KITEMQ_OIDC_ISSUER": "http://idp.example"}, ["'oidc_issuer'", "https"]),
        (OIDC | {"KITEMQ_OIDC_CLIENT_ID": ""}, ["'oidc_client_id'"]),
        (OIDC | {"KITEMQ_OIDC_ROLES": ""}, ["'oidc_roles'", "'oidc_default_role'"]),
        (OIDC | {"KITEMQ_OIDC_ROLES": "staff=boss"}, ["'staff=boss'", "viewer, operator, admin"]),
        (OIDC | {"KITEMQ_OIDC_DEFAULT_ROLE": "boss"}, ["'oidc_default_role'", "'boss'"]),
        (OIDC | {"KITEMQ_OIDC_SCOPES": "email"}, ["'oidc_scopes'", "openid"]),
    ],
)
def test_what_is_wrong_refuses_to_start_and_says_what_is_right(
    environ: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ=environ)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["prot = 1", "port = true", "port = 1.5", "port = ["])
def test_a_file_with_a_mistake_refuses_to_start(tmp_path: Path, text: str) -> None:
    config = tmp_path / "kitemq.toml"
    config.write_text(text)
    with pytest.raises(SettingsError):
        load(config=config, environ={})


def test_the_clients_own_names_in_the_environment_do_no_harm() -> None:
    assert load(environ={"KITEMQ_SERVER": "http://127.0.0.1:8080"}).port == 8080


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_is_known_in_each_of_its_forms(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.1", "example.org"])
def test_nothing_else_counts_as_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_offset_ids_name_the_address_that_is_listened_on_unless_another_is_set() -> None:
    assert load({"port": "9000"}, environ={}).store_host == "127.0.0.1:9000"
    assert load({"host": "localhost", "port": "9000"}, environ={}).store_host == "127.0.0.1:9000"
    assert load({"host": "::1", "port": "9000"}, environ={}).store_host == "[::1]:9000"
    given = {"port": "9000", "store_host": "10.0.0.1:10911"}
    assert load(given, environ={}).store_host == "10.0.0.1:10911"


@pytest.mark.parametrize(
    "url", ["mysql://ann:Tr0ub4dor@127.0.0.1/kitemq", "kitemq.db", "postgres://ann:Tr0ub4dor@h/n"]
)
def test_an_address_of_another_database_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError, match=r"'database_url'.*postgresql") as refused:
        load({"database_url": url}, environ={})
    assert "Tr0ub4dor" not in str(refused.value)


def test_what_is_named_like_a_secret_is_marked_as_one_and_in_no_text_of_the_settings() -> None:
    named = [
        item.name
        for item in settings_fields()
        if item.default == ""
        and any(word in item.name.split("_") for word in ("secret", "password", "token"))
    ]
    assert {"admin_password", "alert_webhook_secret"} <= set(named)
    marked = [item.name for item in settings_fields() if item.metadata.get("is_secret")]
    assert sorted(named) == sorted(marked)
    hidden: dict[str, Any] = dict.fromkeys(named, "Tr0ub4dor")
    hidden["database_url"] = "postgresql://ann:Tr0ub4dor@127.0.0.1/kitemq"
    hidden["alert_webhooks"] = ("https://hooks.example.org/Tr0ub4dor",)
    assert "Tr0ub4dor" not in repr(Settings(**hidden))
