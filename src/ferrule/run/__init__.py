"""The tool loop."""
