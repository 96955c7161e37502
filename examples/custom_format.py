"""A wire format of your own, in one file: a made-up family, registered, read, written, and its rule printed.

A model of this family would call a tool like this:

  @@call get_weather
  {"city": "Paris", "days": 2}
  @@end

It needs no model. With `--engine llama:MODEL.gguf` one that never saw the family writes in it, held by the rule.
"""

from __future__ import annotations

from engine_option import engine_of, options

from ferrule import (
    ChatMessage,
    Format,
    FunctionCall,
    Parser,
    Reply,
    ToolCallRequest,
    ToolChoice,
    fold,
    parse,
    register,
    render,
    render_results,
    tool,
)
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.format import PARIS, ROME, Example, results
from ferrule.wire.node import ARGS, BODY, NAME, calls, closer, free, seq, space, turn
from ferrule.wire.rule_builder import bind

# The one definition. What is written, what is read and what may be generated all follow from it.
FORMAT = Format(
    name="lantern",
    about="Lantern, which does not exist",
    marks=("@@call ",),  # what its chat template would contain
    reply=turn(
        free(),
        calls(
            # Written with these newlines, read with any white space there; an end that was forgotten is forgiven.
            seq("@@call ", NAME, space("\n"), ARGS, space("\n"), closer("@@end")),
            sep="\n",
            glue="\n",
        ),
    ),
    result=results("@@result\n", BODY, "\n@@end"),
)
PARIS_TEXT = '@@call get_weather\n{"city": "Paris", "days": 2}\n@@end'
ROME_TEXT = '@@call get_weather\n{"city": "Rome"}\n@@end'
# Texts and what they mean. In the folder of a family Ferrule's own tests read these, cut at every place.
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


def said(reply: Reply) -> tuple[str, list[FunctionCall]]:
    """A reply without the ids of its calls: this format writes none, so each reading makes new ones."""
    return reply.text, [call.function for call in reply.calls]


def main() -> None:
    given = options(__doc__).parse_args()
    register(FORMAT)  # for this process; a package of yours uses the entry-point group "ferrule.formats"
    for example in EXAMPLES:
        reply = parse(FORMAT, example.text, TOOLS)
        assert said(reply) == said(example.reply)
        assert (render(FORMAT, reply, TOOLS) == example.text) is example.is_canonical
        # However the text is cut, here into single characters, it gives the same.
        parser = Parser(FORMAT, TOOLS)
        events = [event for character in example.text for event in parser.feed(character)]
        assert said(fold([*events, *parser.close()])) == said(reply)
        print(f"read: {example.text!r}\n  as {[(call.name, call.arguments) for call in reply.calls]}")
    (call,) = parse(FORMAT, PARIS_TEXT, TOOLS).calls
    result = ChatMessage.tool(call.id, get_weather(**call.arguments), call.name).results
    print(f"a result is written: {render_results(FORMAT, result)!r}")

    rule = emit_lark(bind(FORMAT, TOOLS, ToolChoice.required()))
    print(f"\nwhat may be generated where a call is required, as a grammar for llguidance:\n{rule}")
    matcher = ByteMatcher(rule)
    for text in (PARIS_TEXT, PARIS_TEXT.replace("2", '"two"'), PARIS_TEXT.replace("weather", "whether")):
        reach = matcher.reach(text)
        print(f"{'admitted' if reach.is_whole else f'stopped after {text[: reach.characters]!r}'}: {text!r}")
    if given.engine:
        given.engine += f"{'&' if '?' in given.engine else '?'}format={FORMAT.name}"
        question = (ChatMessage.user("How will the weather be in Paris for 3 days?"),)
        asked = ToolCallRequest(messages=question, tools=TOOLS, tool_choice=ToolChoice.required(), max_tokens=100)
        for call in engine_of(given).generate(asked).calls:
            print(f"\n{given.engine} calls: {call.name} {call.arguments}\n  {call.receipt}")


if __name__ == "__main__":
    main()
