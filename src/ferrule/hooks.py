"""Hooks: functions of your own around the calls and the replies of a tool loop, and ready ones for small models.

Pass them as `hooks=[...]` to `ToolConversation`, `engine.run` or `ToolExecutor.run_chat_with_tools`, or name them in
`[tools] hooks` of a gateway. A hook can refuse calls, and change arguments, results and requests. It cannot turn off
validation or approval, or make a call run twice.

Example:
    from ferrule import ToolCall, ToolConversation, tool
    from ferrule.hooks import CallRefusal, HookContext, before_call, small_model_hooks

    @tool
    def get_weather(city: str) -> dict[str, object]:
        return {"city": city, "sky": "clear"}

    @before_call
    def only_rome(call: ToolCall, context: HookContext) -> CallRefusal | None:
        return None if call.arguments["city"] == "Rome" else CallRefusal("Only the weather of Rome is known.")

    with ToolConversation("llama:model.gguf", [get_weather], hooks=[only_rome, *small_model_hooks()]) as conversation:
        print(conversation.send_message_sync("How is the weather in Rome?").text)
"""

from typing import TYPE_CHECKING

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.run.hooks import (
        CallRefusal,
        Hook,
        HookContext,
        Retry,
        after_call,
        after_model,
        before_call,
        before_model,
    )
    from ferrule.run.small_model_hooks import ECHO, EMPTY_ARGUMENTS, REPETITION, small_model_hooks
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "run.hooks": [
                *("CallRefusal", "Hook", "HookContext", "Retry"),
                *("after_call", "after_model", "before_call", "before_model"),
            ],
            "run.small_model_hooks": ["ECHO", "EMPTY_ARGUMENTS", "REPETITION", "small_model_hooks"],
        },
    )

__all__ = [
    "ECHO",
    "EMPTY_ARGUMENTS",
    "REPETITION",
    "CallRefusal",
    "Hook",
    "HookContext",
    "Retry",
    "after_call",
    "after_model",
    "before_call",
    "before_model",
    "small_model_hooks",
]
