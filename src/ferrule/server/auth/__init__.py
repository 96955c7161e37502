"""Who may come in, and how much he may bring: hosts, keys, rates, and the size of everything."""
