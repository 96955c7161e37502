"""The console: the page for people. Only its files are sent here; what it shows comes from the public API."""
