"""The console: a web page for people. Only its static files are served here; its data comes from the public API."""
