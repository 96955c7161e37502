"""ChatTemplate: a checkpoint's own Jinja template, run in a sandbox with counted limits. Only this module uses jinja2.

A template is untrusted code. It runs in Jinja's immutable sandbox with a fixed table of filters, methods and functions
(`functions`). Its syntax tree is rewritten so that every operation is counted before it runs (`budget`): each loop
iteration, call, filter, comparison and character written. There is no clock: a template that asks for the date gets the
one that the caller passes. Independent of formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from types import BuiltinMethodType, MethodType
from typing import Any, cast

import jinja2
from jinja2 import filters, nodes, tests
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser as JinjaParser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context
from jinja2.visitor import NodeTransformer

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.message import ChatMessage
from ferrule.errors import TemplateError
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutralize
from ferrule.wire.template import functions
from ferrule.wire.template.budget import Budget, TemplateLimits, limit_error

# A conversation as chat templates expect it: dictionaries in OpenAI's message format, with arguments as mappings.
#
# Tool results are untrusted text: markup in them is neutralized, as in our own renderer. Independent of Jinja.


def messages_of(messages: Iterable[ChatMessage], format: Format) -> list[dict[str, Any]]:
    """The messages for a template of that format. Each result is a separate message; incomplete calls are omitted."""
    return [entry for message in messages for entry in _template_messages(message, format)]


def _template_messages(message: ChatMessage, format: Format) -> list[dict[str, Any]]:
    results = [_result(result, format) for result in message.results]
    if results and len(results) == len(message.parts):
        return results
    entry: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    calls = [_call(call) for call in message.tool_calls if call.complete]
    if message.reasoning and not (calls and message.content):
        # The name in gpt-oss' template, which refuses a turn that has calls, text and reasoning.
        entry["thinking"] = message.reasoning
    if calls:
        entry["tool_calls"] = calls
    return [*results, entry]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(result: ToolResult, format: Format) -> dict[str, Any]:
    content = neutralize(result.text, format)
    return {"role": "tool", "tool_call_id": result.tool_call_id, "name": result.name, "content": content}


__all__ = ["ChatTemplate", "TemplateLimits", "identifiers_of", "messages_of"]

# What a template can raise while it runs, apart from exceeding its limits; and while it is parsed and compiled.
_RUNTIME_ERRORS = (
    *(jinja2.TemplateError, TypeError, ValueError),
    *(LookupError, ArithmeticError, AttributeError, RecursionError),
)
_SYNTAX_ERRORS = (jinja2.TemplateError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
_JINJA_FILTERS: Mapping[str, functions.TemplateFunction] = cast("Any", filters).FILTERS
_JINJA_TESTS: Mapping[str, functions.TemplateFunction] = cast("Any", tests).TESTS
# Not a valid identifier, so no template can refer to it.
_BUDGET = "(budget)"

_ALLOWED_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Macro, nodes.CallBlock, nodes.With),
    *(nodes.FilterBlock, nodes.Assign, nodes.AssignBlock, nodes.Scope, nodes.Continue, nodes.Break, nodes.NSRef),
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr),
    *(nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare),
    *(nodes.Operand, nodes.BinExpr, nodes.UnaryExpr),
)


class ChatTemplate:
    """A compiled chat template. Raises `TemplateError` if it is invalid, refuses a conversation or exceeds a limit."""

    __slots__ = ("_template", "_tokens", "limits", "source")

    def __init__(
        self, source: str, bos_token: str = "", eos_token: str = "", *, limits: TemplateLimits | None = None
    ) -> None:
        self.source = source
        self.limits = limits or TemplateLimits()
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            tree = _parse_source(source, self.limits)
            code = _ENVIRONMENT.compile(_MeteringTransformer().rewrite(tree))
        except _SYNTAX_ERRORS as damage:
            raise _syntax_error(damage) from damage
        self._template = jinja2.Template.from_code(_ENVIRONMENT, code, _ENVIRONMENT.make_globals(None))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        now: date | None = None,
        budget: Budget | None = None,
        **extras: Any,
    ) -> str:
        """Render the prompt for a conversation in OpenAI's message format.

        `now` is the date for `strftime_now`. Without it the function is not defined, and templates that check for it
        use a date of their own. `budget` shows afterwards what was used. `extras` are other variables.
        """
        variables = {
            **self._tokens,
            "messages": list(messages),
            "tools": None if tools is None else list(tools),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **({"strftime_now": functions.Day(now)} if now else {}),
            **extras,
            _BUDGET: budget or Budget(self.limits.scale_to(len(messages))),
        }
        try:
            return "".join(self._template.generate(variables))
        except _RUNTIME_ERRORS as failure:
            raise _runtime_error(failure) from failure


def identifiers_of(source: str) -> frozenset[str]:
    """The names, attributes and string constants in a template's code. Text that it only prints is not included."""
    try:
        tree = _parse_source(source, TemplateLimits())
    except _SYNTAX_ERRORS as damage:
        raise _syntax_error(damage) from damage
    names: set[str] = {node.name for node in tree.find_all(nodes.Name)}
    names.update(node.attr for node in tree.find_all(nodes.Getattr))
    names.update(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
    return frozenset(names)


def _parse_source(source: str, limits: TemplateLimits) -> nodes.Template:
    if len(source) > limits.source:
        raise limit_error(f"is {len(source)} characters long; {limits.source} are allowed")
    tree = _ENVIRONMENT.parse(source)
    level: list[nodes.Node] = [tree]
    for _ in range(limits.nesting):
        for node in level:
            if not isinstance(node, _ALLOWED_NODES):
                raise TemplateError(f"the template uses {type(node).__name__}, which is not allowed in chat templates")
            if (
                isinstance(node, nodes.Const)
                and isinstance(node.value, int)
                and node.value.bit_length() > functions.MAX_BITS
            ):
                raise limit_error("contains a number too large to print")
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return tree
    raise limit_error(f"is nested more than {limits.nesting} levels deep")


def _syntax_error(damage: BaseException) -> TemplateError:
    line = getattr(damage, "lineno", None)
    where = f" in line {line}" if line else ""
    problem = "it is nested too deeply" if isinstance(damage, RecursionError | MemoryError) else str(damage)[:500]
    return TemplateError(f"the template cannot be parsed{where}: {problem}", hint="Check the model's chat template.")


def _runtime_error(failure: BaseException) -> TemplateError:
    problem = "it recurses without end" if isinstance(failure, RecursionError) else str(failure)[:500]
    hint = "Pass `now`, the current date." if "strftime_now" in problem else "Pass the variables that it needs."
    return TemplateError(f"the template fails: {problem}", hint=hint)


def _budget(context: Context) -> Budget:
    return context.parent[_BUDGET]


class _Generation(Extension):
    """The `generation` tag, which encloses the assistant's text for training. The text is written unchanged."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: JinjaParser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Namespace(Namespace):
    """A namespace that does not print its content, which may include itself."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, restricted to calls that are in the tables of `functions`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # Templates queue ids in lists of their own. The budget allows that, and no change to any other list.
        return (isinstance(obj, list) and attr in ("append", "pop")) or super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Disabled: Jinja's formatter accepts any width. `call` uses `functions.format_text` instead."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return functions.apply_operator(_budget(context), operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        budget = _budget(__context)
        budget.step()
        if isinstance(__obj, BuiltinMethodType):
            function = functions.method_of(__obj.__self__, __obj.__name__)
            if function is None:
                raise SecurityError(f"a template may not call {__obj.__name__}()")
            # Inside a loop Jinja passes its variables too, for functions that take the context.
            keywords = {name: value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
            return budget.admit_value(function(budget, __obj.__self__, *args, **keywords))
        if not _may_be_called(__obj):
            raise SecurityError(f"a template may not call a {type(__obj).__name__}")
        return budget.admit_value(super().call(__context, __obj, *args, **kwargs))


def _may_be_called(value: Any) -> bool:
    if isinstance(value, MethodType):
        return isinstance(value.__self__, LoopContext)
    return isinstance(value, Macro | LoopContext | Undefined | functions.Day) or any(
        value is allowed for allowed in _GLOBALS.values()
    )


@pass_context
def _range(context: Context, *bounds: int) -> range:
    values = range(*bounds)
    if len(values) > _budget(context).limits.range:
        raise limit_error(f"uses a range of more than {_budget(context).limits.range}")
    return values


def _raise(message: object) -> None:
    raise TemplateError(f"the template refuses: {str(message)[:500]}", hint="Change the conversation accordingly.")


def _meter(function: functions.TemplateFunction) -> functions.TemplateFunction:
    @pass_context
    def call(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.step()
        return budget.admit_value(function(budget, *args, **kwargs))

    return call


def _meter_jinja_filter(name: str, first: str, looks: int) -> functions.TemplateFunction:
    function = _JINJA_FILTERS[name]

    @pass_context
    def call(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.step()
        # One pass visits the items only. The many passes of a sort also compare their content.
        budget.handle(looks * (budget.length(value) if looks < 2 else budget.size(value)))
        before = {"context": (context,), "environment": (context.environment,), "": ()}[first]
        result = function(*before, value, *args, **kwargs)
        # Some of Jinja's filters return generators, which cannot be printed; templates of other engines expect lists.
        return functions.FILTERS["list"](budget, result) if isinstance(result, Iterator) else budget.admit_value(result)

    return call


def _meter_test(name: str) -> functions.TemplateFunction:
    test = _JINJA_TESTS[name]

    @pass_context
    def call(context: Context, *values: Any) -> Any:
        budget = _budget(context)
        budget.step()
        budget.handle(sum(map(budget.size, values)))
        return test(*values)

    return call


@pass_context
def _count_step(context: Context, value: Any) -> Any:
    _budget(context).step()
    return value


@pass_context
def _count_scan(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.handle(budget.size(value))
    return value


@pass_context
def _count_literal(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.step()
    return budget.admit_literal(value)


@pass_context
def _count_output(context: Context, value: Any) -> str:
    """Count and convert a value that is written. All output passes through here."""
    budget = _budget(context)
    if not isinstance(value, str):
        if not isinstance(value, int | float | list | tuple | dict | Undefined | None):
            raise TemplateError(f"the template writes a {type(value).__name__}, which is not text")
        budget.handle(budget.size(cast("object", value)))
        value = str(cast("object", value))
    budget.write(len(value))
    return value


_GLOBALS: Mapping[str, Any] = {"dict": dict, "namespace": _Namespace, "raise_exception": _raise, "range": _range}
_COUNTERS: Mapping[str, functions.TemplateFunction] = {
    **{"(step)": _count_step, "(scan)": _count_scan, "(new)": _count_literal},
    **{"(concat)": _meter(functions.concatenate), "(slice)": _meter(functions.slice_value)},
}


class _MeteringTransformer(NodeTransformer):
    """Rewrites a template so that its operations are counted. No template can write the names of the added filters."""

    def rewrite(self, tree: nodes.Template) -> nodes.Template:
        result: nodes.Template = self.visit(tree)
        result.set_environment(_ENVIRONMENT)
        return result

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self.generic_visit(node)
        rewrite = _REWRITES.get(type(node))
        return rewrite(node) if rewrite else node


def _loop(node: nodes.For) -> nodes.For:
    node.body.insert(0, nodes.ExprStmt(_filter_node("(step)", nodes.Const(True), node), lineno=node.lineno))
    if node.test is not None:
        node.test = nodes.And(_filter_node("(step)", nodes.Const(True), node), node.test, lineno=node.lineno)
    return node


def _output(node: nodes.Output) -> nodes.Output:
    # As constants, literal texts pass through `_count_output` like all other output.
    node.nodes = [
        nodes.Const(part.data, lineno=part.lineno) if isinstance(part, nodes.TemplateData) else part
        for part in node.nodes
    ]
    return node


def _concatenation(node: nodes.Concat) -> nodes.Filter:
    return _filter_node("(concat)", node.nodes[0], node, *node.nodes[1:])


def _item(node: nodes.Getitem) -> nodes.Expr:
    if isinstance(node.arg, nodes.Slice):
        nothing = nodes.Const(None, lineno=node.lineno)
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return _filter_node("(slice)", node.node, node, *(bound or nothing for bound in bounds))
    node.arg = _scan_node(node.arg)
    return node


def _comparison(node: nodes.Compare) -> nodes.Compare:
    node.expr = _scan_node(node.expr)
    for operand in node.ops:
        operand.expr = _scan_node(operand.expr)
    return node


def _container(node: nodes.List | nodes.Dict | nodes.Tuple) -> nodes.Expr:
    # A tuple on the left of an assignment is not a value.
    is_value = not isinstance(node, nodes.Tuple) or node.ctx == "load"
    return _filter_node("(new)", node, node) if is_value else node


_REWRITES: Mapping[type[nodes.Node], functions.TemplateFunction] = {
    nodes.For: _loop,
    nodes.Output: _output,
    nodes.Concat: _concatenation,
    nodes.Getitem: _item,
    nodes.Compare: _comparison,
    **dict.fromkeys((nodes.List, nodes.Dict, nodes.Tuple), _container),
}


def _filter_node(name: str, value: nodes.Expr, near: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value.set_lineno(near.lineno), name, list(args), [], None, None, lineno=near.lineno)


def _scan_node(value: nodes.Expr) -> nodes.Expr:
    return value if isinstance(value, nodes.Const) else _filter_node("(scan)", value, value)


def _make_environment() -> _Sandbox:
    environment = _Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        # No constant folding at compile time: it would not be counted.
        optimized=False,
        finalize=_count_output,
        extensions=("jinja2.ext.loopcontrols", _Generation),
    )
    tables: Any = environment
    tables.globals = dict(_GLOBALS)
    tables.filters = {
        **{name: _meter(function) for name, function in functions.FILTERS.items()},
        **{name: _meter_jinja_filter(name, *how) for name, how in functions.JINJA_FILTERS.items()},
        **_COUNTERS,
    }
    tables.tests = {
        **{name: _JINJA_TESTS[name] for name in functions.QUICK_TESTS},
        **{name: _meter_test(name) for name in functions.SCANNING_TESTS},
    }
    return environment


_ENVIRONMENT = _make_environment()
