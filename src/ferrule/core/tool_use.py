"""ToolUse: how often a tool was loaded, called and failed about one time. A value; it stores and computes nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What models did with one tool about the time `at`, in Unix seconds.

    `loaded` counts the replies that could have called it, `called` its calls. `failed` counts those of the calls that
    had no use: the result was an error, the outcome is unknown, or a person denied them; and calls that were refused.
    """

    tool: str
    at: float
    loaded: int = 0
    called: int = 0
    failed: int = 0
