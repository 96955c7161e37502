"""Frameworks: our tools in theirs, theirs in ours, and our engines as their models. One file and one extra each."""
