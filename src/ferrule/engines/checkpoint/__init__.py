"""What is read from a model's files: GGUF metadata, chat template, special tokens."""
