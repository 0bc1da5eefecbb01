"""The operations of REST by resource, for threads; made from the files of `kitemq/async_api/`."""
