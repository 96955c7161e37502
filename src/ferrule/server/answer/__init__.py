"""The answer pipeline: from a decoded request to the events of one answer."""
