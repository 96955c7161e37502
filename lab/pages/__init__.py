"""Pages and pictures of the documentation that are generated from the code. Nothing that a user runs imports this."""
