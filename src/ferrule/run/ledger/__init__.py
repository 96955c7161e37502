"""What is written down before anything happens, so that it happens at most once."""
