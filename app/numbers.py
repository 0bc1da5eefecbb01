"""Whole numbers in texts that callers sent, wherever a form, an address or a header holds one."""

INT64_DIGITS = 18  # as many always fit into 64 bits


def is_whole(text: str, digits_max: int = INT64_DIGITS) -> bool:
    """Whether a text is a number from 0 of at most `digits_max` ASCII digits."""
    return len(text) <= digits_max and text.isascii() and text.isdecimal()


def whole(text: str, most: int) -> int | None:
    """A text as a number from 0 to `most`; None for any other text."""
    if not is_whole(text, len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None
