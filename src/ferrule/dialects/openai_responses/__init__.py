"""OpenAI's Responses API, as a client of an engine and as a server.

`request` and `reply` are the engine's side, the rest the server's: `reading` a body, `hosted_events` an answer of
several rounds in which the gateway runs tools, `events` and `body` a single reply, `stored` what is asked of it later.
"""
