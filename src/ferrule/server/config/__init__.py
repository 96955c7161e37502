"""Read a gateway's configuration from a file, the environment and flags, and report every problem with its location."""
