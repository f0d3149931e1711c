"""Requests, answers and events as JSON lines over Unix sockets.

One line holds one JSON object. A request is ``{"id": 1, "op": "name", ...arguments}``; its answer is
``{"id": 1, "ok": {...}}`` or ``{"id": 1, "error": {"code": "EINVAL", "message": "..."}}``. After the request
``{"op": "subscribe"}`` the server also sends ``{"event": {...}}`` lines, between answers; with ``"kinds": [...]`` only
those whose ``kind`` is named.

``rpc.client`` is the blocking client, ``rpc.server`` a server for a select or epoll loop, ``rpc.aserver`` one for
asyncio. Both servers take the same operations: plain callables with keyword arguments that return a dict or None.
"""
