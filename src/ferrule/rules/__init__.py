"""What a model may write next: rules, and one file per language that they are emitted in. No IO, no engine."""
