"""Database errors and URLs without their secrets."""

from urllib.parse import parse_qsl, unquote, urlsplit

HIDDEN = "***"
TEXT_MAX = 500


def without_password(text: str, url: str) -> str:
    """The first line of `text`, at most 500 characters, without the secrets of `url`.

    Further lines are PostgreSQL's details, with values of a row that may be secret too.
    """
    for secret in _secrets(url):
        text = text.replace(secret, HIDDEN)
    return text.strip().partition("\n")[0][:TEXT_MAX]


def _secrets(url: str) -> list[str]:
    """The passwords in a URL, encoded and decoded, the longest first."""
    try:
        parts = urlsplit(url)
        secrets = [parts.password or ""]
        secrets += [value for name, value in parse_qsl(parts.query) if "password" in name.lower()]
    except ValueError:
        return [url]
    both = {form for secret in secrets for form in (secret, unquote(secret)) if form}
    return sorted(both, key=len, reverse=True)
