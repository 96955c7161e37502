"""Codecs for the APIs of clients and engines: dicts and bytes in, values and events out, in both directions.

A dialect does no IO and reads no clock: ids and times are passed in. It is independent of engines, of wire formats and
of the server.
"""
