"""Chat engines: providers' chat APIs, whose calls are checked and repaired after the fact."""
