"""OpenAI's Chat Completions API, as a client of an engine and as a server.

`request` and `reply` are the engine's side, `reading` and `chunks` and `body` the server's.
"""
