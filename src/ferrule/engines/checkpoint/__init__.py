"""Reading a model's files: GGUF metadata, chat template, special tokens."""
