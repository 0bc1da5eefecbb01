"""Saved views of the console."""

from kitemq.async_api.connection import AsyncApi
from kitemq.model.views import NewView, SavedView, ViewList


class AsyncViewsApi(AsyncApi):
    """`client.views`: lists of the console with their filters, under names of one's own."""

    async def list(self) -> list[SavedView]:
        """One's own views; while there are no users everybody shares them."""
        return (await self._rest.fetch(ViewList, "GET", "/views")).items

    async def create(self, name: str, path: str, *, query: str = "") -> SavedView:
        """Save a list such as "/groups" with what stands behind `?` in its address.

        At most 100; Refused for a name that is taken.
        """
        body = NewView(name, path, query)
        return await self._rest.fetch(SavedView, "POST", "/views", body=body)

    async def delete(self, view_id: int) -> None:
        """Delete one of one's own views."""
        await self._rest.call("DELETE", f"/views/{view_id}")
