"""Tools on NATS: the caller's end, the worker's end, and what is said between them."""
