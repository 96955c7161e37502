"""Tool-call parsers of other projects behind one interface, for comparison with ours.

These modules run in the interpreter that `scripts/setup-oracles --others` creates, where Ferrule is not installed: they
import nothing of this repository but `lab.peers` and `lab.line_server`.
"""
