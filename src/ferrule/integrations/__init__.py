"""Agent frameworks: export Ferrule tools to them, import their tools, and use Ferrule engines as their models.

Each framework has one module here and one extra, such as `pip install 'ferrule[langchain]'`.
"""
