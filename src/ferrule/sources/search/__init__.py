"""Search among tools by what they do: the index, and the text of a tool that it reads."""
