"""Files with secrets: readable by their owner only, and flushed to disk."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600 and fsync; replaces what was there.

    Not atomic: write to a name of its own and rename. Raises OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
