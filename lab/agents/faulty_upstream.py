"""A model that makes one mistake and then behaves, in three APIs: chat completions, Responses and Messages.

The first answer to a request with tools holds a fault; the next is a correct call; then come texts. So an agent that
survives the fault has run the right command and has an answer. The refused call would run another command, whose file
shows that somebody ran it.

The request's model names the run, so that one server serves them all.
"""

import json
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Final

WRONG, RIGHT = "wrong.txt", "right.txt"
"""Files that the refused call, and the correct one, make."""
TEXT: Final = "The work is done."
_WRONG_ID: Final = "call_wrong"
_SHELLS: Final = ("Bash", "bash", "exec_command")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: a text, and a call of a tool whose arguments are JSON, or are meant to be."""

    text: str = ""
    name: str = ""
    arguments: str = ""
    id: str = ""
    is_cut: bool = False
    """The token limit ended it."""
    is_broken_off: bool = False
    """The connection ends inside the call."""


@dataclass(frozen=True, slots=True)
class Shell:
    """The agent's own tool for commands, and its properties."""

    name: str
    properties: frozenset[str]

    @property
    def argument(self) -> str:
        return "cmd" if "cmd" in self.properties else "command"

    def json(self, command: Any) -> str:
        more = {"description": "Make a file"} if "description" in self.properties else {}
        return json.dumps({self.argument: command, **more})

    def begun(self) -> str:
        """The arguments of a call that would make the wrong file if somebody completed them."""
        return json.dumps({self.argument: f"touch {WRONG}; echo abc"})[:-2]


def _begun(shell: Shell, text: str = "") -> Answer:
    return Answer(text=text, name=shell.name, arguments=shell.begun(), id=_WRONG_ID)


def _unknown(shell: Shell) -> Answer:
    return Answer(name="run_anything", arguments=shell.json(f"touch {WRONG}"), id=_WRONG_ID)


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong answer, and how often the model gives it before the correct one."""

    answer: Callable[[Shell], Answer]
    times: int = 1


NO_FAULT: Final = "none"
FAULTS: Final[Mapping[str, Fault]] = {
    NO_FAULT: Fault(lambda _: Answer(), times=0),
    "cut by the limit": Fault(lambda shell: replace(_begun(shell), is_cut=True)),
    "broken off": Fault(lambda shell: replace(_begun(shell), is_broken_off=True)),
    "broken off after text": Fault(lambda shell: replace(_begun(shell, "Let me see. "), is_broken_off=True)),
    "unknown tool": Fault(_unknown),
    "unknown tool twice": Fault(_unknown, times=2),
    "unfit": Fault(lambda shell: Answer(name=shell.name, arguments=shell.json([f"touch {WRONG}"]), id=_WRONG_ID)),
    "not JSON": Fault(_begun),
    "empty": Fault(lambda _: Answer()),
}
"""The faults by their names. The run without one shows that the agent works at all."""


class FaultyUpstream:
    """The answers of the server, and how many requests with tools each run has sent."""

    def __init__(self, fault_of: Callable[[str], str]) -> None:
        self.url = ""
        self._fault_of = fault_of
        self._counts: dict[str, int] = {}
        self._lock = Lock()

    def count(self, model: str) -> int:
        return self._counts.get(model, 0)

    def answer(self, body: Mapping[str, Any]) -> Answer:
        shell = _shell(body)
        if shell is None:
            # A title, or a summary.
            return Answer(text=TEXT)
        model = str(body["model"])
        with self._lock:
            number = self._counts[model] = self._counts.get(model, 0) + 1
        fault = FAULTS[self._fault_of(model)]
        if number <= fault.times:
            return fault.answer(shell)
        if number == fault.times + 1:
            return Answer(name=shell.name, arguments=shell.json(f"touch {RIGHT}"), id="call_right")
        return Answer(text=TEXT)


@contextmanager
def faulty_upstream(fault_of: Callable[[str], str]) -> Generator[FaultyUpstream]:
    """Serve on a free port of this machine. `fault_of` returns the fault of a run, by the name of its model."""
    upstream = FaultyUpstream(fault_of)

    class Handler(_Handler):
        answers = upstream

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    upstream.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a client may reset its connection when it is done."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: FaultyUpstream

    def do_HEAD(self) -> None:
        self._send_json(404, {})

    def do_GET(self) -> None:
        self._send_json(404, {"error": {"message": "not found", "type": "invalid_request_error"}})

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        encoding = next((encoding for end, encoding in _ENCODINGS.items() if path.endswith(end)), None)
        if encoding is None:
            self.do_GET()
            return
        answer = self.answers.answer(body)
        whole, events = encoding
        if body.get("stream"):
            self._send_events(answer, events(answer, str(body["model"])))
        elif answer.is_broken_off:
            self._end_connection()
        else:
            self._send_json(200, whole(answer, str(body["model"])))

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _send_json(self, status: int, value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_events(self, answer: Answer, events: Iterator[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        if answer.is_broken_off:
            self._end_connection()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _end_connection(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _shell(body: Mapping[str, Any]) -> Shell | None:
    """The tool for commands among those that the request offers."""
    for tool in body.get("tools") or ():
        function = tool.get("function", tool)
        if function.get("name") in _SHELLS:
            schema = function.get("parameters") or function.get("input_schema")
            return Shell(function["name"], frozenset(schema["properties"]))
    return None


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _chat(answer: Answer, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.name:
        function = {"name": answer.name, "arguments": answer.arguments}
        message["tool_calls"] = [{"id": answer.id, "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": _chat_reason(answer)}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model}
    return {**head, "choices": [choice], "usage": usage}


def _chat_reason(answer: Answer) -> str:
    return "length" if answer.is_cut else "tool_calls" if answer.name else "stop"


def _chat_events(answer: Answer, model: str) -> Iterator[str]:
    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    yield chunk({"role": "assistant", "content": answer.text})
    if answer.name:
        function = {"name": answer.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": answer.id, "type": "function", "function": function}]})
        for piece in _halves(answer.arguments):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    if not answer.is_broken_off:
        yield chunk({}, _chat_reason(answer))
        yield "data: [DONE]\n\n"


def _responses(answer: Answer, model: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }
    return {
        **_response_head(model),
        "status": "incomplete" if answer.is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if answer.is_cut else None,
        "output": _items(answer),
        "usage": usage,
    }


def _response_head(model: str) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }
    head = {"id": "resp_1", "object": "response", "created_at": 0, "model": model, "status": "in_progress"}
    return {**head, "output": [], "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1, **fixed}


def _items(answer: Answer) -> list[dict[str, Any]]:
    status = "incomplete" if answer.is_cut else "completed"
    items: list[dict[str, Any]] = []
    if answer.text:
        part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]})
    if answer.name:
        call = {"call_id": answer.id, "name": answer.name, "arguments": answer.arguments}
        items.append({"id": f"fc_{answer.id}", "type": "function_call", "status": status, **call})
    return items


def _response_events(answer: Answer, model: str) -> Iterator[str]:
    events: list[tuple[str, dict[str, Any]]] = [("created", {"response": _response_head(model)})]
    for index, item in enumerate(_items(answer)):
        add_events = _call_events if item["type"] == "function_call" else _text_events
        events += [(kind, {"output_index": index, **fields}) for kind, fields in add_events(item, answer)]
    if not answer.is_broken_off:
        events.append(("incomplete" if answer.is_cut else "completed", {"response": _responses(answer, model)}))
    for number, (kind, fields) in enumerate(events):
        data = {"type": f"response.{kind}", "sequence_number": number, **fields}
        yield f"event: response.{kind}\ndata: {json.dumps(data)}\n\n"


def _call_events(item: Mapping[str, Any], answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "output_item.added", {"item": {**item, "status": "in_progress", "arguments": ""}}
    for piece in _halves(answer.arguments):
        yield "function_call_arguments.delta", {"item_id": item["id"], "delta": piece}
    if not answer.is_broken_off:
        whole = {"name": answer.name, "arguments": answer.arguments}
        yield "function_call_arguments.done", {"item_id": item["id"], **whole}
        yield "output_item.done", {"item": item}


def _text_events(item: Mapping[str, Any], answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"item_id": item["id"], "content_index": 0}
    part: dict[str, Any] = item["content"][0]
    yield "output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
    yield "content_part.added", {**place, "part": {**part, "text": ""}}
    yield "output_text.delta", {**place, "delta": answer.text, "logprobs": []}
    yield "output_text.done", {**place, "text": answer.text, "logprobs": []}
    yield "content_part.done", {**place, "part": part}
    yield "output_item.done", {"item": item}


def _message(answer: Answer, model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    if answer.name:
        block = {"id": answer.id, "name": answer.name, "input": _object(answer.arguments)}
        content.append({"type": "tool_use", **block})
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    usage = {"input_tokens": 100, "output_tokens": 10}
    return {**head, "content": content, "stop_reason": _stop_reason(answer), "stop_sequence": None, "usage": usage}


def _object(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _stop_reason(answer: Answer) -> str:
    return "max_tokens" if answer.is_cut else "tool_use" if answer.name else "end_turn"


def _message_events(answer: Answer, model: str) -> Iterator[str]:
    def event(kind: str, fields: Mapping[str, Any]) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    whole = _message(answer, model)
    yield event("message_start", {"message": {**whole, "content": [], "stop_reason": None}})
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        begun: dict[str, Any] = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield event("content_block_start", {"index": index, "content_block": begun})
        for piece in _halves(answer.text if is_text else answer.arguments):
            kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
            yield event("content_block_delta", {"index": index, "delta": {"type": kind, field: piece}})
        if answer.is_broken_off and not is_text:
            return
        yield event("content_block_stop", {"index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", {"delta": delta, "usage": {"output_tokens": 10}})
    yield event("message_stop", {})


_Encoding = tuple[Callable[[Answer, str], dict[str, Any]], Callable[[Answer, str], Iterator[str]]]
_ENCODINGS: Final[Mapping[str, _Encoding]] = {
    "/chat/completions": (_chat, _chat_events),
    "/responses": (_responses, _response_events),
    "/messages": (_message, _message_events),
}
