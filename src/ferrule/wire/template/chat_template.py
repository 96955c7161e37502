"""ChatTemplate: a checkpoint's own Jinja template, run in a sandbox and within counted limits. The one owner of jinja2.

A template is a stranger's program. It runs in Jinja's immutable sandbox with a fixed table of filters, methods and
functions (`functions`), and its syntax tree is rewritten so that whatever it does is counted first
(`budget`): every loop iteration, call, filter, comparison and character written. There is no clock here: a
template that asks for the date gets the one that the caller gives. It knows nothing of formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from ferrule.errors import TemplateError
from ferrule.wire.template import functions
from ferrule.wire.template.budget import Budget, Limits, over
from ferrule.wire.template.messages import messages_of

__all__ = ["ChatTemplate", "Limits", "messages_of", "words_of"]

# What a template can do wrong while it runs, beside going over its limits, and while it is read.
_RAISED = (
    *(jinja2.TemplateError, TypeError, ValueError),
    *(LookupError, ArithmeticError, AttributeError, RecursionError),
)
_BROKEN = (jinja2.TemplateError, SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
_JINJA_FILTERS: Mapping[str, functions.Word] = cast("Any", filters).FILTERS
_JINJA_TESTS: Mapping[str, functions.Word] = cast("Any", tests).TESTS
# A name that no template can spell.
_BUDGET = "(budget)"

_ALLOWED_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Macro, nodes.CallBlock, nodes.With),
    *(nodes.FilterBlock, nodes.Assign, nodes.AssignBlock, nodes.Scope, nodes.Continue, nodes.Break, nodes.NSRef),
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr),
    *(nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare),
    *(nodes.Operand, nodes.BinExpr, nodes.UnaryExpr),
)


class ChatTemplate:
    """A chat template, compiled once. `TemplateError` where it is broken, refuses or asks for too much."""

    __slots__ = ("_template", "_tokens", "limits", "source")

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "", *, limits: Limits | None = None) -> None:
        self.source = source
        self.limits = limits or Limits()
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            tree = _checked(source, self.limits)
            code = _ENVIRONMENT.compile(_Metered().rewritten(tree))
        except _BROKEN as damage:
            raise _broken(damage) from damage
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
        """The prompt for a conversation in the OpenAI spelling.

        `now` is what `strftime_now` tells; without it the function is not defined, and templates that ask whether it
        is fall back to a date of their own. `budget` shows afterwards what was used. `extras` are other variables.
        """
        given = {
            **self._tokens,
            "messages": list(messages),
            "tools": None if tools is None else list(tools),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **({"strftime_now": functions.Day(now)} if now else {}),
            **extras,
            _BUDGET: budget or Budget(self.limits.grown(len(messages))),
        }
        try:
            return "".join(self._template.generate(given))
        except _RAISED as failure:
            raise _failed(failure) from failure


def words_of(source: str) -> frozenset[str]:
    """The names, attributes and texts that a template's code uses; what it only prints is not among them."""
    try:
        tree = _checked(source, Limits())
    except _BROKEN as damage:
        raise _broken(damage) from damage
    found: set[str] = {node.name for node in tree.find_all(nodes.Name)}
    found.update(node.attr for node in tree.find_all(nodes.Getattr))
    found.update(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
    return frozenset(found)


def _checked(source: str, limits: Limits) -> nodes.Template:
    if len(source) > limits.source:
        raise over(f"is {len(source)} characters long, where {limits.source} are allowed")
    tree = _ENVIRONMENT.parse(source)
    level: list[nodes.Node] = [tree]
    for _ in range(limits.nesting):
        for node in level:
            if not isinstance(node, _ALLOWED_NODES):
                raise TemplateError(f"the template uses {type(node).__name__}, which chat templates have no need of")
            if (
                isinstance(node, nodes.Const)
                and isinstance(node.value, int)
                and node.value.bit_length() > functions.MOST_BITS
            ):
                raise over("holds a number too large to print")
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return tree
    raise over(f"is nested more than {limits.nesting} deep")


def _broken(damage: BaseException) -> TemplateError:
    line = getattr(damage, "lineno", None)
    where = f" in line {line}" if line else ""
    told = "it is nested too deeply" if isinstance(damage, RecursionError | MemoryError) else str(damage)[:500]
    return TemplateError(f"the template cannot be read{where}: {told}", hint="Check the chat template of the model.")


def _failed(failure: BaseException) -> TemplateError:
    told = "it calls itself without end" if isinstance(failure, RecursionError) else str(failure)[:500]
    hint = "Give `now`, the date to tell." if "strftime_now" in told else "Give the variables that it needs."
    return TemplateError(f"the template fails: {told}", hint=hint)


def _budget(context: Context) -> Budget:
    return context.parent[_BUDGET]


class _Generation(Extension):
    """The tag that marks what the assistant wrote, for those who train on it; the text is written as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: JinjaParser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Names(Namespace):
    """A namespace that prints nothing of what it holds: it may hold itself."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which only what stands in a table can be called."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # Templates queue ids in lists of their own; the budget lets them, and lets them change no other list.
        return (isinstance(obj, list) and attr in ("append", "pop")) or super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Jinja would hand out a formatter here that takes any width; `call` knows a better one."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return functions.operated(_budget(context), operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        budget = _budget(__context)
        budget.step()
        if isinstance(__obj, BuiltinMethodType):
            word = functions.method_of(__obj.__self__, __obj.__name__)
            if word is None:
                raise SecurityError(f"{__obj.__name__}() is not among what a template may call")
            # Inside a loop Jinja hands its variables along, for functions that take the context.
            given = {name: value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
            return budget.made(word(budget, __obj.__self__, *args, **given))
        if not _may_be_called(__obj):
            raise SecurityError(f"{type(__obj).__name__} is not among what a template may call")
        return budget.made(super().call(__context, __obj, *args, **kwargs))


def _may_be_called(value: Any) -> bool:
    if isinstance(value, MethodType):
        return isinstance(value.__self__, LoopContext)
    return isinstance(value, Macro | LoopContext | Undefined | functions.Day) or any(
        value is known for known in _GLOBALS.values()
    )


@pass_context
def _range(context: Context, *bounds: int) -> range:
    made = range(*bounds)
    if len(made) > _budget(context).limits.range:
        raise over(f"counts to more than {_budget(context).limits.range}")
    return made


def _raise(message: object) -> None:
    raise TemplateError(f"the template refuses: {str(message)[:500]}", hint="Change the conversation as it says.")


def _measured(word: functions.Word) -> functions.Word:
    @pass_context
    def call(context: Context, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.step()
        return budget.made(word(budget, *args, **kwargs))

    return call


def _borrowed(name: str, first: str, looks: int) -> functions.Word:
    word = _JINJA_FILTERS[name]

    @pass_context
    def call(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        budget = _budget(context)
        budget.step()
        # One look is along the places, the many looks of a sort are into them.
        budget.handle(looks * (budget.length(value) if looks < 2 else budget.size(value)))
        before = {"context": (context,), "environment": (context.environment,), "": ()}[first]
        made = word(*before, value, *args, **kwargs)
        # Jinja gives some of these out as generators, which cannot be printed; other engines' templates count on lists.
        return functions.FILTERS["list"](budget, made) if isinstance(made, Iterator) else budget.made(made)

    return call


def _looking(name: str) -> functions.Word:
    test = _JINJA_TESTS[name]

    @pass_context
    def call(context: Context, *values: Any) -> Any:
        budget = _budget(context)
        budget.step()
        budget.handle(sum(map(budget.size, values)))
        return test(*values)

    return call


@pass_context
def _step(context: Context, value: Any) -> Any:
    _budget(context).step()
    return value


@pass_context
def _seen(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.handle(budget.size(value))
    return value


@pass_context
def _new(context: Context, value: Any) -> Any:
    budget = _budget(context)
    budget.step()
    return budget.written_out(value)


@pass_context
def _written(context: Context, value: Any) -> str:
    """Everything that is written passes through here."""
    budget = _budget(context)
    if not isinstance(value, str):
        if not isinstance(value, int | float | list | tuple | dict | Undefined | None):
            raise TemplateError(f"the template writes a {type(value).__name__}, which is no text")
        budget.handle(budget.size(cast("object", value)))
        value = str(cast("object", value))
    budget.write(len(value))
    return value


_GLOBALS: Mapping[str, Any] = {"dict": dict, "namespace": _Names, "raise_exception": _raise, "range": _range}
_COUNTERS: Mapping[str, functions.Word] = {
    **{"(step)": _step, "(seen)": _seen, "(new)": _new},
    **{"(joined)": _measured(functions.joined), "(sliced)": _measured(functions.sliced)},
}


class _Metered(NodeTransformer):
    """Rewrites a template so that what it does is counted. The added filters have names that no template can spell."""

    def rewritten(self, tree: nodes.Template) -> nodes.Template:
        made: nodes.Template = self.visit(tree)
        made.set_environment(_ENVIRONMENT)
        return made

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self.generic_visit(node)
        rewrite = _REWRITES.get(type(node))
        return rewrite(node) if rewrite else node


def _loop(node: nodes.For) -> nodes.For:
    node.body.insert(0, nodes.ExprStmt(_filtered("(step)", nodes.Const(True), node), lineno=node.lineno))
    if node.test is not None:
        node.test = nodes.And(_filtered("(step)", nodes.Const(True), node), node.test, lineno=node.lineno)
    return node


def _output(node: nodes.Output) -> nodes.Output:
    # As constants, texts pass through `_written`, like everything else.
    node.nodes = [
        nodes.Const(part.data, lineno=part.lineno) if isinstance(part, nodes.TemplateData) else part
        for part in node.nodes
    ]
    return node


def _concatenation(node: nodes.Concat) -> nodes.Filter:
    return _filtered("(joined)", node.nodes[0], node, *node.nodes[1:])


def _item(node: nodes.Getitem) -> nodes.Expr:
    if isinstance(node.arg, nodes.Slice):
        nothing = nodes.Const(None, lineno=node.lineno)
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return _filtered("(sliced)", node.node, node, *(bound or nothing for bound in bounds))
    node.arg = _looked_at(node.arg)
    return node


def _comparison(node: nodes.Compare) -> nodes.Compare:
    node.expr = _looked_at(node.expr)
    for operand in node.ops:
        operand.expr = _looked_at(operand.expr)
    return node


def _container(node: nodes.List | nodes.Dict | nodes.Tuple) -> nodes.Expr:
    # A tuple of names that are assigned to is none.
    is_value = not isinstance(node, nodes.Tuple) or node.ctx == "load"
    return _filtered("(new)", node, node) if is_value else node


_REWRITES: Mapping[type[nodes.Node], functions.Word] = {
    nodes.For: _loop,
    nodes.Output: _output,
    nodes.Concat: _concatenation,
    nodes.Getitem: _item,
    nodes.Compare: _comparison,
    **dict.fromkeys((nodes.List, nodes.Dict, nodes.Tuple), _container),
}


def _filtered(name: str, value: nodes.Expr, near: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value.set_lineno(near.lineno), name, list(args), [], None, None, lineno=near.lineno)


def _looked_at(value: nodes.Expr) -> nodes.Expr:
    return value if isinstance(value, nodes.Const) else _filtered("(seen)", value, value)


def _environment() -> _Sandbox:
    made = _Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        # Nothing is worked out while compiling: it would not be counted.
        optimized=False,
        finalize=_written,
        extensions=("jinja2.ext.loopcontrols", _Generation),
    )
    tables: Any = made
    tables.globals = dict(_GLOBALS)
    tables.filters = {
        **{name: _measured(word) for name, word in functions.FILTERS.items()},
        **{name: _borrowed(name, *how) for name, how in functions.BORROWED.items()},
        **_COUNTERS,
    }
    tables.tests = {
        **{name: _JINJA_TESTS[name] for name in functions.QUICK_TESTS},
        **{name: _looking(name) for name in functions.LOOKING_TESTS},
    }
    return made


_ENVIRONMENT = _environment()
