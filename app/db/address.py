"""What may be told of a database that fails: why, and none of its secrets."""

from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "***"
TEXT_MAX = 500


def without_password(text: str, url: str) -> str:
    """The first line of `text`, at most 500 characters, without what `url` keeps secret.

    The lines below would be PostgreSQL's details: a row's values, which may be secret as well.
    """
    for secret in _secrets(url):
        text = text.replace(secret, HIDDEN)
    return text.strip().partition("\n")[0][:TEXT_MAX]


def _secrets(url: str) -> list[str]:
    """The passwords in an address as they are written and as they are meant, the longest first."""
    try:
        parts = urlsplit(url)
        secrets = [parts.password or ""]
        secrets += [value for name, value in parse_qsl(parts.query) if "password" in name.lower()]
    except ValueError:
        return [url]
    both = {form for secret in secrets for form in (secret, unquote(secret)) if form}
    return sorted(both, key=len, reverse=True)
