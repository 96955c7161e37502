"""Text engines: engines on backends that continue a prompt, with our prompt, grammar and parser."""
