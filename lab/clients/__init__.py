"""Workers for OpenAI's and Anthropic's own Python clients, which read what Ferrule's dialects write and vice versa.

These modules run in `.cache/venvs/clients`, where Ferrule is not installed.
"""
