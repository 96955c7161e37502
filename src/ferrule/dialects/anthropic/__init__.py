"""Anthropic's Messages API, as a client of an engine and as a server.

`request_encoder` and `reply_decoder` are the client side; `request_decoder`, `event_encoder` and `response_body` are
the server side.
"""
