"""Cells of tables that spreadsheets open: none is run as a formula, and each can be read back."""

Cell = str | int | float | None

RISKY = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a text that begins so for a formula
GUARDED = tuple(f"'{sign}" for sign in RISKY)


def guarded(value: Cell) -> Cell:
    """The value, with an apostrophe before a text that a spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def unguarded(text: str) -> str:
    """The text without the apostrophe of `guarded`."""
    return text[1:] if text.startswith(GUARDED) else text
