"""Where tools come from and run."""
