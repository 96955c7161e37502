"""The worker process that runs OpenAI's and Anthropic's clients; one JSON line per request and per answer.

Requests by "op", with "given":

    chat_stream, response_stream, message_stream   chunks or events   {"text", "calls", "finish", "usage"}
    chat_body, response_body, message_body         a whole body       the same
    chat_sent, response_sent, message_sent         arguments          {"sent"}: the body that the client sent
    response_events                                events             {}: an error if one does not match their types
    response_raw_stream                            events             {"kinds"}, by the stream that checks nothing
    response_summed, response_unnamed              events             as response_stream, for events that may be wrong
    response_items                                 a list's body      {"items"}
    response_runner                                several streams    the result of the client's own loop

Every answer also has "error" (null on success) and "seconds" of CPU.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.clients import anthropic_client, openai_client
from lab.line_server import serve

OPERATIONS: Final[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {
    "chat_stream": openai_client.chat_stream,
    "chat_body": openai_client.chat_body,
    "chat_sent": openai_client.chat_sent,
    "response_stream": openai_client.response_stream,
    "response_body": openai_client.response_body,
    "response_sent": openai_client.response_sent,
    "response_events": openai_client.response_events,
    "response_raw_stream": openai_client.response_raw_stream,
    "response_summed": openai_client.response_summed,
    "response_unnamed": openai_client.response_unnamed,
    "response_items": openai_client.response_items,
    "response_runner": openai_client.response_runner,
    "message_stream": anthropic_client.message_stream,
    "message_body": anthropic_client.message_body,
    "message_sent": anthropic_client.sent_message,
}


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    operation = OPERATIONS[request["op"]]
    return lambda: {"error": None, **operation(request["given"])}


if __name__ == "__main__":
    serve(prepare)
