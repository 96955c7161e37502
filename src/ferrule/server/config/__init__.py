"""How a gateway's configuration is read: file, environment and flags, with every mistake told by its place."""
