"""Other people's tool-call parsers behind one interface, for comparing ours with them.

These modules run inside the interpreter that `scripts/setup-oracles --others` makes, where Ferrule is not installed:
they import nothing of Ferrule outside `lab.peers` and `lab.line_server`.
"""
