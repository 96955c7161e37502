"""Pages and pictures of the documentation that are made from the code. Nothing that a user runs imports this room."""
