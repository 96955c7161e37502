"""The laboratory: measurements, peers, oracles, hostile clients, page makers. In the repository, not in the wheel."""
