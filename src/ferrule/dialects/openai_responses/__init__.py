"""OpenAI's Responses API, as a client of an engine and as a server.

`request_encoder` and `reply_decoder` are the client side, the rest is the server side: `request_decoder` reads a body,
`hosted_encoder` encodes an answer of several rounds in which the gateway runs tools, `event_encoder` and
`response_body` encode a single reply, and `stored_response` builds the bodies for later requests about a response.
"""
