"""Whole numbers in texts that callers sent, wherever a form, an address or a header holds one."""

DIGITS_MAX = 18  # as many always fit into 64 bits
INT64_DIGITS = 19  # of the largest number in 64 bits


def is_whole(text: str, digits_max: int = DIGITS_MAX) -> bool:
    """Whether a text is a number from 0 of at most `digits_max` ASCII digits."""
    return len(text) <= digits_max and text.isascii() and text.isdecimal()


def whole(text: str, most: int) -> int | None:
    """A text of at most 19 digits as a number from 0 to `most`; None for any other text."""
    return int(text) if is_whole(text, INT64_DIGITS) and int(text) <= most else None
