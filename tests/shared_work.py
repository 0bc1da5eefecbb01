"""What every server and client of a test process makes anew, made once: nothing of it ever differs.

Together it took longer than most tests: the certificates of the system, which each client of httpx
reads (23 ms), and the console's templates, which each server compiles (290 ms for its first page).
"""

import functools
import os
import ssl
from types import CodeType
from typing import Any

import httpx
import jinja2
from jinja2.bccache import Bucket

from app.ui.framework import templating

transports: Any = httpx._transports.default  # where clients make theirs
_create_ssl_context = transports.create_ssl_context
_init = templating.Templates.__init__


class CompiledTemplates(jinja2.BytecodeCache):
    """By place and checksum, so that a template that changed is another one."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.code


COMPILED = CompiledTemplates()


def install() -> None:
    """Let the servers and clients of this process share it."""
    transports.create_ssl_context = create_ssl_context
    templating.Templates.__init__ = init_templates  # type: ignore[method-assign]


def init_templates(self: templating.Templates, *arguments: Any, **options: Any) -> None:
    _init(self, *arguments, **options)
    self._environment.bytecode_cache = COMPILED


def create_ssl_context(verify: Any = True, **options: Any) -> ssl.SSLContext:
    """The usual certificates from the shared context; any others from one of the client's own."""
    if verify is not True or options != {"cert": None, "trust_env": True}:
        made: ssl.SSLContext = _create_ssl_context(verify=verify, **options)
        return made
    return _usual(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _usual(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    context: ssl.SSLContext = _create_ssl_context()
    return context
