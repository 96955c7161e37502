"""APIs that clients and engines speak, as codecs both ways: dicts and bytes in, values and events out.

A dialect does no IO and reads no clock: ids and times are given in. It knows no engine, no wire format and no server.
"""
