"""The default tools: seven definitions for a home or an office, each bound to a capability. They have no code.

A worker that serves the capability makes the tool work; `examples/hearth` serves all of them. Pass them to a `Bus` as
its `bindings`, and it offers those that a worker serves.
"""

from __future__ import annotations

from ferrule.core.json_schema import JsonSchema
from ferrule.core.tool import ToolDefinition

_FILE = JsonSchema.string(minLength=1, maxLength=300)

DEFAULT_TOOLS: tuple[ToolDefinition, ...] = (
    ToolDefinition.build("search_corpus")
    .description("Searches documents by words and gives the passages that fit best, with where they stand.")
    .parameter("query", JsonSchema.string(minLength=1, maxLength=500), "words to look for", required=True)
    .parameter("corpus", JsonSchema.string(maxLength=100), "which collection; left out, all of them")
    .parameter("limit", JsonSchema.integer(minimum=1, maximum=20), "how many passages at most")
    .bound_to("rag.query", "1.0")
    .done(),
    ToolDefinition.build("list_corpora")
    .description("Lists the collections of documents that can be searched.")
    .bound_to("rag.list_corpora", "1.0")
    .done(),
    ToolDefinition.build("translate")
    .description("Translates a text into another language.")
    .parameter("text", JsonSchema.string(minLength=1, maxLength=5_000), "what to translate", required=True)
    .parameter("to", JsonSchema.string(pattern="^[a-z]{2}$"), "the language, such as de", required=True)
    .bound_to("trans.text", "1.0")
    .done(),
    ToolDefinition.build("find_neighbour")
    .description("Finds who else is on the network, and what each can do.")
    .parameter("can", JsonSchema.string(maxLength=200), "part of a capability's name; left out, everybody")
    .bound_to("neighbour.find", "1.0")
    .done(),
    ToolDefinition.build("list_marketplace")
    .description("Lists what neighbours offer and look for.")
    .parameter("about", JsonSchema.string(maxLength=200), "a word that must occur")
    .bound_to("market.list", "1.0")
    .done(),
    ToolDefinition.build("describe_image")
    .description("Describes a picture, and reads the text in it.")
    .parameter("file", _FILE, "the picture's name", required=True)
    .bound_to("img.describe", "1.0")
    .done(),
    ToolDefinition.build("transcribe_audio")
    .description("Writes down the words that are spoken in a recording.")
    .parameter("file", _FILE, "the recording's name", required=True)
    .bound_to("stt.transcribe", "1.0")
    .done(),
)
