"""Tools on NATS: the caller, the worker and the protocol between them."""
