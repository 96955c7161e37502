"""One module per model family, data only: FORMATS and EXAMPLES. The registry finds new modules automatically."""
