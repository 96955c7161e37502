"""One module or package for each HTTP API of the gateway."""
