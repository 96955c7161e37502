"""What of an answer is forced by its rule, and what is left to the model."""
