"""Comparisons and measurements: what the numbers in the documentation come from. Nothing else imports this room."""
