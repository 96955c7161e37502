"""An application on a port: processes, draining, the event loop."""
