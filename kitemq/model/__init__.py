"""The things that the REST API, the SDK and the command line exchange, one struct each.

A struct validates requests, makes the OpenAPI description, is what `kitemq.Client` returns and what
the command line prints. The server imports this package too; it imports nothing else of ours.
`conversion.convert` turns the engine's values into these structs, and requests into the engine's.

Written out by hand where speed matters, and not in this package: messages on their way in
(`app/api/messages/produce.py`, `kitemq/message.py`), hand-outs and receipts (`receive.py` there),
pulled messages (`messages.py` there, which also fills `Stored`), and the frames of the WebSocket
(`kitemq/protocol/`).
"""
