"""Files with secrets: readable by their owner only, on disk before anybody relies on them."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600, flushed; what was there before is gone.

    Not atomic: give it a name of its own and move that into place. OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
