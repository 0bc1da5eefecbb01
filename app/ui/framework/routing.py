"""Which pages a server has: some lead to others that may not be there."""

import re

from starlette.requests import Request

PARAMETER = re.compile(r"\{[^}]*\}")


def has_page(request: Request, shape: str) -> bool:
    """Whether there is a page of this address; a `shape` has {} for each parameter."""
    paths = (getattr(route, "path", "") for route in request.app.router.routes)
    return any(PARAMETER.sub("{}", path) == shape for path in paths)
