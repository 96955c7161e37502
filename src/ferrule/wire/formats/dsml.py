"""DSML: DeepSeek V3.2 and V4. One element per parameter, which says whether its text is a string."""

from __future__ import annotations

from ferrule.core.reply import Reply
from ferrule.wire.format import PARIS, ROME, Example, Format, Results, results
from ferrule.wire.node import (
    BODY,
    KEY,
    KIND,
    NAME,
    VALUE,
    Kind,
    calls,
    fields,
    free,
    lit,
    opener,
    seq,
    space,
    think,
    turn,
)

KINDS = (
    Kind("true", ("string",), is_raw=True),
    Kind("false", ("number", "integer", "boolean", "null", "array", "object")),
)


def dsml(
    name: str, about: str, section: str, result: Results, gap: str = "", also: tuple[str, ...] = (), sep: str = ""
) -> Format:
    """Build a DSML format.

    `gap` separates the token from each word; `also` are other words that models write for the section. With `sep` there
    is a newline between parameters and after them, even if there are none.
    """
    mark, end = f"<｜DSML｜{gap}", f"</｜DSML｜{gap}"
    parameter = seq(
        f'{mark}parameter name="',
        KEY,
        opener('" string="'),
        KIND,
        '">',
        VALUE,
        f"{end}parameter>",
        space("" if sep else "\n"),
    )
    spellings = tuple(f"{mark}{word}>" for word in (section, *also))
    return Format(
        name=name,
        about=about,
        markers=("｜DSML｜", f"{gap}{section}>"),
        reply=turn(
            think("<think>", "</think>"),
            free(),
            calls(
                seq(
                    f'{mark}invoke name="',
                    NAME,
                    '">',
                    space("\n"),
                    fields(parameter, sep, kinds=KINDS),
                    space(sep),
                    f"{end}invoke>",
                ),
                open=lit(f"\n\n{spellings[0]}\n", *(lead + s for s in spellings for lead in ("\n\n", "\n", ""))),
                sep="\n",
                close=lit(f"\n{end}{section}>", *(f"{end}{word}>" for word in (section, *also))),
            ),
        ),
        result=result,
        tokens=("｜DSML｜", "<think>", "</think>"),
        stops=("<｜end▁of▁sentence｜>",),
    )


V32 = dsml(
    "dsml_v32",
    "DeepSeek V3.2",
    "function_calls",
    results("<result>", BODY, "</result>", open="<function_results>\n", close="\n</function_results>"),
)
V4 = dsml(
    "dsml_v4",
    "DeepSeek V4 and V4-Flash",
    "tool_calls",
    results("<tool_result>", BODY, "</tool_result>", sep="\n\n", role="user"),
    also=("toolcalls", "tool"),
    sep="\n",
)
V41 = dsml("dsml_v41", "DeepSeek V4.1", "calls", V4.result, gap=" ", sep="\n")
FORMATS = (V32, V4, V41)

EXAMPLES = (
    Example(
        "dsml_v32",
        "ok\n\n<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        Reply.of("ok", PARIS, ROME),
    ),
    Example(
        "dsml_v4",
        '<｜DSML｜tool>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city">Rome</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool>",
        Reply.of(ROME),
        False,
    ),
)
