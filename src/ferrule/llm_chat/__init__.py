"""`llm.chat@2.0`: a model on the bus. One end serves an engine as a capability, the other is an engine that uses it."""
