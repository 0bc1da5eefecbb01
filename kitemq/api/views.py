# Made from kitemq/async_api/views.py by `python -m tools.synchronous`: change that file.
"""Saved views of the console."""

from kitemq.api.connection import Api
from kitemq.model.views import NewView, SavedView, ViewList


class ViewsApi(Api):
    """`client.views`: lists of the console with their filters, under names of one's own."""

    def list(self) -> list[SavedView]:
        """One's own views; while there are no users everybody shares them."""
        return (self._rest.fetch(ViewList, "GET", "/views")).items

    def create(self, name: str, path: str, *, query: str = "") -> SavedView:
        """Save a list such as "/groups" with what stands behind `?` in its address.

        At most 100; Refused for a name that is taken.
        """
        body = NewView(name, path, query)
        return self._rest.fetch(SavedView, "POST", "/views", body=body)

    def delete(self, view_id: int) -> None:
        """Delete one of one's own views."""
        self._rest.call("DELETE", f"/views/{view_id}")
