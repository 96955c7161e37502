"""Skip: find the text that a rule forces, so that an engine need not generate it. `position` explains the method."""
