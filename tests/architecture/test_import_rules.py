"""Who may import whom. The tables below are the rule; AGENTS.md explains it."""

from dataclasses import dataclass

import pytest

from architecture.source_tree import ROOT, Import, all_imports, is_inside, modules

ANYTHING = ("ferrule",)

# The room of a module is its longest prefix here. Everyone may also import errors, core and its own room.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "ferrule": ANYTHING,
    "ferrule.__main__": ANYTHING,
    "ferrule.errors": (),
    "ferrule.core": (),
    "ferrule.schema": (),
    "ferrule.rules": ("ferrule.schema",),
    # rules.rule and never a target: a walk says what may be generated, not in which language.
    "ferrule.wire": ("ferrule.schema", "ferrule.rules.rule"),
    "ferrule.wire.formats": ("ferrule.wire.node", "ferrule.wire.format"),
    "ferrule.dialects": ("ferrule.schema",),
    # schema too: whatever an engine writes is checked before it is handed on.
    "ferrule.engines": ("ferrule.schema", "ferrule.rules", "ferrule.wire", "ferrule.dialects"),
    "ferrule.sources": ("ferrule.schema",),
    # Python functions are what a conversation is given most; every other source comes made from outside. What an MCP
    # server asks a person is a value, and is answered where approvals live.
    "ferrule.run": (
        *("ferrule.schema", "ferrule.engines.engine", "ferrule.engines.sync"),
        *("ferrule.sources.source", "ferrule.sources.functions", "ferrule.sources.mcp.elicitation"),
        "ferrule.sources.tool_output",
    ),
    "ferrule.run.machine": ("ferrule.run.policy",),
    "ferrule.run.policy": (),
    # schema too: what a client sends is admitted and checked here. An engine is known by its interface and its string.
    "ferrule.server": (
        *("ferrule.schema", "ferrule.dialects", "ferrule.run", "ferrule.sources"),
        *(
            "ferrule.engines.engine",
            "ferrule.engines.registry",
            "ferrule.engines.profile_file",
            "ferrule.engines.deadlines",
        ),
    ),
    # dialects too: what frameworks hand over is the JSON of OpenAI's APIs, or nearly.
    "ferrule.integrations": (
        *("ferrule.schema", "ferrule.dialects", "ferrule.run"),
        *("ferrule.engines.engine", "ferrule.engines.registry", "ferrule.engines.sync"),
        *("ferrule.sources.source", "ferrule.sources.functions", "ferrule.sources.tool_exceptions"),
    ),
    "ferrule.bench": ANYTHING,
    "ferrule.cli": ANYTHING,
}
EVERYONE_MAY_IMPORT = ("ferrule.errors", "ferrule.core")
NOBODY_IMPORTS = ("ferrule.bench", "ferrule.cli")
MAY_IMPORT_THOSE = ("ferrule.bench", "ferrule.cli", "ferrule.__main__")


@dataclass(frozen=True, slots=True)
class Peers:
    """A room whose files are variants of one thing: they may use the shared files, never each other."""

    room: str
    shared: frozenset[str]
    over: frozenset[str]
    """Files that stand above the variants and may import all of them."""

    def member(self, module: str) -> str:
        return module.removeprefix(self.room).lstrip(".").partition(".")[0]


PEERS = (
    Peers(
        "ferrule.engines",
        frozenset(
            {
                *("engine", "sync", "receipts", "tool_admission", "generator", "grammar", "text", "chat", "checkpoint"),
                *("http", "completions", "grammar_probe", "llama_body", "profile", "profile_file", "deadlines"),
            }
        ),
        frozenset({"", "registry", "doctor"}),
    ),
    Peers(
        "ferrule.sources",
        frozenset({"source", "status", "adapters", "combined_sources", "tool_exceptions", "tool_output"}),
        frozenset({""}),
    ),
    # The caller's end of the bus and the worker's do not know each other.
    Peers(
        "ferrule.sources.bus",
        frozenset(
            {"connection", "request_reply", "frame", "micro", "names"}
            | {"deduplication", "active_calls", "subject", "token"}
        ),
        # The relay is a source that calls through the bus.
        frozenset({"", "relay"}),
    ),
    Peers("ferrule.integrations", frozenset({"exported_tools", "imported_tools", "model", "request"}), frozenset({""})),
    Peers(
        "ferrule.dialects",
        frozenset({"tool_definitions", "finish_reason", "extension", "field", "incoming_calls", "line_splitter"})
        | frozenset({"lenient_json", "allowed_tools", "ndjson", "json_stream", "openai_error"})
        | frozenset({"choice_policy", "result_text", "sequence", "sse"}),
        frozenset({""}),
    ),
)


def room_of(module: str) -> str | None:
    rooms = [room for room in MAY_IMPORT if room != "ferrule" and is_inside(module, room)]
    return max(rooms, key=len) if rooms else ("ferrule" if module == "ferrule" else None)


def is_allowed(found: Import) -> bool:
    room = room_of(found.importer)
    assert room is not None
    if room not in MAY_IMPORT_THOSE and any(is_inside(found.target, closed) for closed in NOBODY_IMPORTS):
        return False
    if MAY_IMPORT[room] == ANYTHING:
        return True
    # Everyone imports errors, so errors can import nobody without a circle.
    allowed = () if room == "ferrule.errors" else (*EVERYONE_MAY_IMPORT, room, *MAY_IMPORT[room])
    return any(is_inside(found.target, name) for name in allowed)


def own_imports() -> list[Import]:
    return [found for found in all_imports() if found.package == "ferrule"]


@pytest.mark.parametrize(
    "importer, target, allowed",
    [
        ("ferrule.core.call", "ferrule.core.tool", True),
        ("ferrule.core.call", "ferrule.schema", False),
        ("ferrule.core.call", "ferrule", False),
        ("ferrule.errors", "ferrule.core.fault", False),
        ("ferrule.wire.parser", "ferrule.rules.rule", True),
        ("ferrule.wire.parser", "ferrule.rules.gbnf", False),
        ("ferrule.wire.formats.qwen", "ferrule.wire.node", True),
        ("ferrule.wire.formats.qwen", "ferrule.wire.parser", False),
        ("ferrule.dialects.openai_chat.reply_decoder", "ferrule.schema.checker", True),
        ("ferrule.dialects.openai_chat.reply_decoder", "ferrule.wire.parser", False),
        ("ferrule.run.loop", "ferrule.engines.engine", True),
        ("ferrule.run.loop", "ferrule.engines.vllm", False),
        ("ferrule.run.machine", "ferrule.run.loop", False),
        ("ferrule.server.app", "ferrule.cli.main", False),
        ("ferrule.cli.main", "ferrule.server.app", True),
        ("ferrule", "ferrule.engines.registry", True),
        ("ferrule", "ferrule.bench", False),
    ],
)
def test_the_table_reads_as_meant(importer: str, target: str, allowed: bool) -> None:
    assert is_allowed(Import(importer, ROOT / "nowhere.py", 1, target, lazy=False)) is allowed


def test_every_module_belongs_to_a_room() -> None:
    strays = [module for module in modules() if room_of(module) is None]
    assert not strays, f"no row in MAY_IMPORT of {__name__} for {strays}: move them into a room, or add the room there"


def test_each_room_imports_only_what_its_row_allows() -> None:
    broken = [str(found) for found in own_imports() if room_of(found.importer) and not is_allowed(found)]
    assert not broken, _told(broken, "not allowed by MAY_IMPORT; move the code to the room that may know both")


@pytest.mark.parametrize("peers", PEERS, ids=lambda peers: peers.room)
def test_variants_do_not_import_each_other(peers: Peers) -> None:
    broken: list[str] = []
    for found in own_imports():
        if not (is_inside(found.importer, peers.room) and is_inside(found.target, peers.room)):
            continue
        importer, target = peers.member(found.importer), peers.member(found.target)
        if importer not in peers.over and target != importer and target not in peers.shared:
            broken.append(str(found))
    assert not broken, _told(
        broken, f"put what they share into one of {sorted(peers.shared)} (or name a new one in PEERS)"
    )


def test_the_package_does_not_import_the_laboratory() -> None:
    broken = [str(found) for found in all_imports() if found.package == "lab"]
    assert not broken, _told(broken, "lab/ is not in the wheel: move what the package needs into the package")


def test_a_format_builds_on_at_most_one_other_family() -> None:
    families: dict[str, set[str]] = {}
    for found in own_imports():
        both_are_families = all(name.startswith("ferrule.wire.formats.") for name in (found.importer, found.target))
        if both_are_families and found.target != found.importer:
            families.setdefault(found.importer, set()).add(found.target)
    broken = [f"{module} imports {sorted(others)}" for module, others in families.items() if len(others) > 1]
    assert not broken, _told(broken, "a variant is one family with a small difference; state the rest in its own file")


def test_the_walks_know_no_family() -> None:
    broken = [
        str(found)
        for found in own_imports()
        if room_of(found.importer) == "ferrule.wire" and found.target.startswith("ferrule.wire.formats.")
    ]
    assert not broken, _told(
        broken, "find formats through the registry; what one family needs is a node or a Format field"
    )


def _told(broken: list[str], remedy: str) -> str:
    return "\n  ".join(["", *broken, remedy])
