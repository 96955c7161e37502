from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import ToolError

Load = Callable[[str], dict[str, Any]]

numbers = st.integers(0, 10**6).map(str) | st.floats(0, 1e6).map(repr)
expressions = st.recursive(
    numbers, lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})")
)
# The fixture returns a function without state, so Hypothesis examples may share it.
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED
@given(expressions)
def test_it_works_out_what_python_does(load: Load, expression: str) -> None:
    calculate = load("tool_calling.py")["calculate"]
    try:
        expected = eval(expression, {"__builtins__": {}})
    except ArithmeticError:
        with pytest.raises(ToolError):
            calculate(expression)
    else:
        assert repr(calculate(expression)) == repr(expected)


@pytest.mark.parametrize("text", ["", "1 +", "__import__('os')", "2 ** 9999", "a", "'x' * 9", "f'{1}'", "[1][0]"])
def test_anything_else_is_refused_with_a_message(load: Load, text: str) -> None:
    with pytest.raises(ToolError):
        load("tool_calling.py")["calculate"](text)
