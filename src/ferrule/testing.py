"""Testing: run an agent without a model, a server or real tools.

`FakeEngine` answers with the replies that you prepare, so that a test decides what the model does. `FakeSource` offers
tools whose outcomes you decide. `FakeGenerator` is one level lower: it gives raw text to a `TextEngine`, which parses
and validates it. All of them record what they were asked.

Example:
    from ferrule import Reply, ToolCall, ToolConversation, tool
    from ferrule.testing import FakeEngine

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    async def test_the_agent_adds() -> None:
        engine = FakeEngine([Reply.of(ToolCall.of("add", {"a": 2, "b": 3})), Reply.of("It is 5.")])
        turn = await ToolConversation(engine, [add]).send_message("What is 2 and 3?")
        assert turn.text == "It is 5."
        assert engine.requests[1].messages[-1].results[0].content == 5
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.engines.fake import FakeEngine, FakeGenerator
    from ferrule.sources.fake import FakeSource
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"engines.fake": ["FakeEngine", "FakeGenerator"], "sources.fake": ["FakeSource"]}
    )

__all__ = ["FakeEngine", "FakeGenerator", "FakeSource"]
