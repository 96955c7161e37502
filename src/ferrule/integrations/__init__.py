"""Agent frameworks: export Ferrule tools to them, import their tools, and use Ferrule engines as their models.

Each framework has one module here and one extra, such as `pip install 'ferrule[langchain]'`. The names of this module
are for a framework that has none: wrap Ferrule tools for it, and turn its tools into a source.

Example:
    from ferrule import tool
    from ferrule.integrations import wrap_tools

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    (exported,) = wrap_tools([add])
    print(exported.definition.parameters, exported.call_sync({"a": 2, "b": 3}).text)
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.integrations.exported_tools import ExportedTool, wrap_tools, wrap_tools_async
    from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "integrations.exported_tools": ["ExportedTool", "wrap_tools", "wrap_tools_async"],
            "integrations.imported_tools": ["ImportedTool", "ImportedTools"],
        },
    )

__all__ = ["ExportedTool", "ImportedTool", "ImportedTools", "wrap_tools", "wrap_tools_async"]
