"""A custom wire format in one file: it is registered, parsed and rendered, and its grammar is printed.

A model with this format would call a tool like this:

  @@call get_weather
  {"city": "Paris", "days": 2}
  @@end

It needs no model. With `--engine llama:MODEL.gguf` a model that never saw the format writes it under the rule.
"""

from __future__ import annotations

from engine_option import engine_of, options

from ferrule import ChatMessage, FunctionCall, Reply, ToolCall, ToolCallRequest, ToolChoice, fold, tool
from ferrule.formats import (
    ARGS,
    BODY,
    NAME,
    ByteMatcher,
    Example,
    Format,
    Parser,
    bind,
    calls,
    closer,
    emit_lark,
    free,
    parse,
    register,
    render,
    render_results,
    results,
    seq,
    space,
    turn,
)

# The only definition. The renderer, the parser and the grammar all follow from it.
FORMAT = Format(
    name="lantern",
    about="Lantern, which does not exist",
    markers=("@@call ",),  # what its chat template would contain
    reply=turn(
        free(),
        calls(
            # Rendered with these newlines; parsed with any whitespace there, and a missing end is tolerated.
            seq("@@call ", NAME, space("\n"), ARGS, space("\n"), closer("@@end")),
            sep="\n",
            glue="\n",
        ),
    ),
    result=results("@@result\n", BODY, "\n@@end"),
)
PARIS_TEXT = '@@call get_weather\n{"city": "Paris", "days": 2}\n@@end'
ROME_TEXT = '@@call get_weather\n{"city": "Rome"}\n@@end'
PARIS = ToolCall.of("get_weather", {"city": "Paris", "days": 2})
ROME = ToolCall.of("get_weather", {"city": "Rome"})
# Texts and their meaning. For built-in formats Ferrule's tests parse such examples, split at every position.
EXAMPLES = (
    Example("lantern", PARIS_TEXT, Reply.of(PARIS)),
    Example("lantern", f"Let me look.\n{PARIS_TEXT}\n{ROME_TEXT}", Reply.of("Let me look.", PARIS, ROME)),
    Example("lantern", '@@call get_weather {"city": "Rome"}', Reply.of(ROME), is_canonical=False),
)


@tool
def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city for some days."""
    return f"sunny, {days} days in a row"


TOOLS = (get_weather.definition,)


def content_of(reply: Reply) -> tuple[str, list[FunctionCall]]:
    """A reply without call ids: this format does not write them, so each parse generates new ones."""
    return reply.text, [call.function for call in reply.calls]


def main() -> None:
    args = options(__doc__).parse_args()
    register(FORMAT)  # for this process; a package of yours uses the entry-point group "ferrule.formats"
    for example in EXAMPLES:
        reply = parse(FORMAT, example.text, TOOLS)
        assert content_of(reply) == content_of(example.reply)
        assert (render(FORMAT, reply, TOOLS) == example.text) is example.is_canonical
        # However the text is chunked, here into single characters, the result is the same.
        parser = Parser(FORMAT, TOOLS)
        events = [event for character in example.text for event in parser.feed(character)]
        assert content_of(fold([*events, *parser.close()])) == content_of(reply)
        print(f"parsed: {example.text!r}\n  as {[(call.name, call.arguments) for call in reply.calls]}")
    (call,) = parse(FORMAT, PARIS_TEXT, TOOLS).calls
    result = ChatMessage.tool(call.id, get_weather(**call.arguments), call.name).results
    print(f"a result is rendered as: {render_results(FORMAT, result)!r}")

    rule = emit_lark(bind(FORMAT, TOOLS, ToolChoice.required()))
    print(f"\nthe grammar for llguidance, if a call is required:\n{rule}")
    matcher = ByteMatcher(rule)
    for text in (PARIS_TEXT, PARIS_TEXT.replace("2", '"two"'), PARIS_TEXT.replace("weather", "whether")):
        reach = matcher.match(text)
        print(f"{'accepted' if reach.is_complete else f'stopped after {text[: reach.characters]!r}'}: {text!r}")
    if args.engine:
        args.engine += f"{'&' if '?' in args.engine else '?'}format={FORMAT.name}"
        question = (ChatMessage.user("How will the weather be in Paris for 3 days?"),)
        required = ToolChoice.required()
        request = ToolCallRequest(messages=question, tools=TOOLS, tool_choice=required, max_tokens=100, temperature=0.0)
        for call in engine_of(args).generate(request).calls:
            print(f"\n{args.engine} calls: {call.name} {call.arguments}\n  {call.receipt}")


if __name__ == "__main__":
    main()
