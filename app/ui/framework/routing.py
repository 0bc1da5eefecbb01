"""Checks whether a server has a page, so that other pages link to it only then."""

import re

from starlette.requests import Request

PARAMETER = re.compile(r"\{[^}]*\}")


def has_page(request: Request, shape: str) -> bool:
    """Whether the server has a page of this `shape`, a path with {} for each parameter."""
    paths = (getattr(route, "path", "") for route in request.app.router.routes)
    return any(PARAMETER.sub("{}", path) == shape for path in paths)
