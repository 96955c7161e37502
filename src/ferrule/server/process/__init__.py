"""Serve an application on a port: worker processes, draining, the event loop."""
