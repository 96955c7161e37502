"""Compare our renderer and parser with the checkpoints' own templates and the vendors' own libraries."""
