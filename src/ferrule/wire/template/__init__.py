"""Chat templates: sandboxed Jinja, its budget and functions, and probes for what a template damages."""
