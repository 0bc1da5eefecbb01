"""The request of a page, with all that handlers ask of it: the server, the user, forms, queries."""

from functools import cached_property

from starlette.requests import Request

from app.administration import Administration
from app.container import Services, services_of
from app.db.rows import Actor
from app.security.access import Principal, principal_of
from app.ui.framework import forms, preferences, typed_forms
from app.ui.framework.console import Console, actor_of
from app.ui.framework.forms import Form
from app.ui.framework.typed_forms import T
from app.ui.framework.zones import Zone


class PageRequest(Request):
    """A request whose answer is a page, a redirect to one, or a file."""

    @property
    def services(self) -> Services:
        return services_of(self.scope)

    @property
    def console(self) -> Console:
        console: Console = self.app.console
        return console

    @property
    def administration(self) -> Administration:
        return self.services.administration

    @property
    def who(self) -> Principal:
        """The user, with their rights."""
        return principal_of(self.scope)

    @property
    def actor(self) -> Actor:
        """The user as the audit trail names them."""
        return actor_of(self)

    @property
    def born_host(self) -> str:
        """The browser's address, of which its messages are born; "" where it is unknown."""
        return f"{self.client.host}:{self.client.port}" if self.client else ""

    @cached_property
    def zone(self) -> Zone:
        """The zone of all times on the page."""
        return preferences.read(self).zone

    def read_query(self, shape: type[T]) -> T:
        """The fields of the query; an invalid or a missing one has its default."""
        return typed_forms.query(self.query_params, shape)

    async def read_form(
        self, shape: type[T], *, bytes_max: int = forms.FORM_BYTES_MAX
    ) -> tuple[Form, T]:
        """The posted form and its fields, with an error at each that is invalid."""
        return typed_forms.read(await forms.read(self, bytes_max=bytes_max), shape)
