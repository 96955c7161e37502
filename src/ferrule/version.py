"""The version of the installed package. Reading it takes longer than the rest of `import ferrule`, so it is lazy."""

from importlib.metadata import version

__version__ = version("ferrule")
