"""ToolIndex: finds the tools that fit a question, among up to 100,000.

The ranking is BM25: a word that few tools have counts more than one that many have, and a word counts less in a long
text than in a short one. A word of the name counts again, because a name is chosen to say what a tool does. Words
such as "the" and "of" are not read. tantivy computes it and skips the tools that cannot be among the best, so that a
search does not read all of them (docs/explanation/dependencies.md has the figures beside SQLite and bm25s).

What is found follows from the tools alone, not from what the index held before. Scores depend on how many tools have a
word, and tantivy counts those that were removed as well. So `update` adds new tools to the index, and writes a new
index if one was replaced or removed. Equal scores are ordered by name. A search sees the tools of the last finished
update, also while another update runs in a thread.

What is known of the tools' usage comes in with a search, as a bounded factor for each score (`usage_prior`). It orders
the tools that fit best and those that usage raises; it does not read all that have a word of the query.
The index holds every tool; who may use which is asked for each search, so that a tool that may not be called is not
found and does not take the place of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING

from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.search.tool_text import divide_words, searchable_text
from ferrule.sources.search.usage_prior import bounded_factor

if TYPE_CHECKING:
    import tantivy

MAX_QUERY_CHARACTERS = 1_000
MAX_QUERY_WORDS = 64
"""Each word of a query costs a look-up. A question has a few dozen."""
_KEY, _ANALYZER = "key", "tool_text"
_WEIGHTS: Mapping[str, float] = {"name": 0.25, "main": 1.0, "values": 0.05}
"""What a word counts in each field of `ToolText`. The name is in `main` too; docs/reference/results.md has figures."""
_HEAP_BYTES = 15_000_000
_GROWTH = 8
_MIN_PRIOR_HITS = 100
"""How many of the tools that fit best are ordered by usage, at least. Reading a hit costs some 30 microseconds."""
_MAX_RAISED = 256
"""How many of the tools that usage raises are searched beside them."""
_MAX_TIES = 512
"""How many hits are read to order equal ones by name. Of more equal ones, those that were written first are found."""
_DIGITS = ".5g"
"""How exact a score is. tantivy adds up 32-bit numbers, in an order that depends on where the documents are."""


@dataclass(frozen=True, slots=True)
class ToolMatch:
    """A tool that fits a query, and how well: a higher score fits better. Scores of different queries do not compare.

    Example:
        for match in index.search("the weather in Rome"):
            print(match.tool.name, match.score)
    """

    tool: ToolDefinition
    score: float


def can_search() -> bool:
    """Whether the package that a `ToolIndex` needs is installed."""
    return find_spec("tantivy") is not None


class ToolIndex:
    """An index of tools. Needs `pip install "ferrule[search]"`.

    Example:
        index = ToolIndex([get_weather.definition, send_mail.definition])
        (best,) = index.search("Will it rain tomorrow?", limit=1)
    """

    def __init__(self, tools: Iterable[ToolDefinition] = ()) -> None:
        try:
            import tantivy
        except ImportError as missing:
            raise DefinitionError(
                "a search of tools needs tantivy", code="missing_package", hint='pip install "ferrule[search]"'
            ) from missing
        self._tantivy = tantivy
        simple = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        filters = (tantivy.Filter.lowercase(), tantivy.Filter.ascii_fold())
        filters += (tantivy.Filter.stopword("english"), tantivy.Filter.stemmer("english"))
        for filter in filters:
            simple = simple.filter(filter)
        self._analyzer = simple.build()
        fields = tantivy.SchemaBuilder()
        fields.add_text_field(_KEY, stored=True, tokenizer_name="raw", index_option="basic")
        for name in _WEIGHTS:
            fields.add_text_field(name, tokenizer_name=_ANALYZER, index_option="freq")
        self._schema = fields.build()
        # In one attribute, so that a search never sees the index of one update and the tools of another.
        self._current: tuple[tantivy.Index, dict[str, ToolDefinition]] = (self._empty_index(), {})
        self._updating = Lock()
        self.update(tools)

    @property
    def _tools(self) -> dict[str, ToolDefinition]:
        return self._current[1]

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def characters(self) -> int:
        """How long the definitions of its tools are, as JSON."""
        return sum(tool.characters for tool in self._tools.values())

    def update(self, tools: Iterable[ToolDefinition]) -> int:
        """Make these the tools of the index, and return how many were added, replaced or removed.

        Names must be unique. A tool whose name, description and parameters are as before costs nothing, unless another
        was replaced or removed.
        """
        new = {tool.name: tool for tool in tools}
        # A caller that is cancelled while its update runs in a thread does not stop it, and the next update may come.
        with self._updating:
            index, before = self._current
            changed = [tool for name, tool in new.items() if not _reads_the_same(before.get(name), tool)]
            removed = before.keys() - new.keys()
            is_stale = bool(removed) or any(tool.name in before for tool in changed)
            index = self._empty_index() if is_stale else index
            if changed or removed:
                self._write(index, new.values() if is_stale else changed)
            self._current = (index, new)
        return len(changed) + len(removed)

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        is_allowed: Callable[[ToolDefinition], bool] | None = None,
        prior: Mapping[str, float] | None = None,
    ) -> tuple[ToolMatch, ...]:
        """Return the tools that fit best, the best first; equal ones by name. Only allowed ones are found.

        `prior` has a factor for the score of some tools, by name (see `usage_prior`); the bounds of a prior hold for
        it. A query without a word that any tool has finds nothing.
        """
        parsed = self._query(query)
        if parsed is None or limit < 1 or not self._tools:
            return ()
        wanted = max(limit * _GROWTH, _MIN_PRIOR_HITS) if prior else limit
        index, tools = self._current
        search = _Search(index.searcher(), tools, is_allowed)
        hits = search.best(parsed, wanted)
        if prior and len(hits) >= wanted:
            raised = nlargest(_MAX_RAISED, (name for name in prior if prior[name] > 1), key=lambda name: prior[name])
            hits = search.best(self._among(raised, parsed), wanted) | hits
        matches = [
            ToolMatch(tool, score * bounded_factor(prior.get(tool.name, 1.0)) if prior else score)
            for tool, score in hits.values()
        ]
        matches.sort(key=lambda match: (-match.score, match.tool.name))
        return tuple(matches[:limit])

    def _among(self, names: list[str], query: tantivy.Query) -> tantivy.Query:
        """Restrict a query to some tools. Their scores stay the same."""
        tantivy = self._tantivy
        is_one = tantivy.Query.const_score_query(tantivy.Query.term_set_query(self._schema, _KEY, names), 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, is_one)])

    def _query(self, text: str) -> tantivy.Query | None:
        tantivy = self._tantivy
        words = dict.fromkeys(self._analyzer.analyze(divide_words(text[:MAX_QUERY_CHARACTERS])))
        terms = [
            (tantivy.Occur.Should, tantivy.Query.boost_query(self._term(field, word), weight))
            for word in list(words)[:MAX_QUERY_WORDS]
            for field, weight in _WEIGHTS.items()
        ]
        return tantivy.Query.boolean_query(terms) if terms else None

    def _term(self, field: str, word: str) -> tantivy.Query:
        return self._tantivy.Query.term_query(self._schema, field, word, index_option="freq")

    def _empty_index(self) -> tantivy.Index:
        index = self._tantivy.Index(self._schema)
        index.register_tokenizer(_ANALYZER, self._analyzer)
        return index

    def _write(self, index: tantivy.Index, tools: Iterable[ToolDefinition]) -> None:
        # A writer holds memory and a thread, and updates are rare: each has its own.
        with index.writer(heap_size=_HEAP_BYTES, num_threads=1) as writer:
            # In the order of their names, so that indexes of the same tools are the same.
            for tool in sorted(tools, key=lambda one: one.name):
                document = self._tantivy.Document()
                document.add_text(_KEY, tool.name)
                text = searchable_text(tool)
                for name in _WEIGHTS:
                    document.add_text(name, getattr(text, name))
                writer.add_document(document)
            writer.commit()
        index.reload()


@dataclass(frozen=True, slots=True)
class _Search:
    """A search in an index as it was when the search began."""

    searcher: tantivy.Searcher
    tools: Mapping[str, ToolDefinition]
    is_allowed: Callable[[ToolDefinition], bool] | None

    def best(self, query: tantivy.Query, wanted: int) -> dict[str, tuple[ToolDefinition, float]]:
        """Return the tools that fit best and their scores: so many, and those whose score equals the last one's."""
        window = wanted + 1
        while True:
            hits = self.searcher.search(query, window, count=False).hits
            found = [
                (tool, _rounded(score))
                for score, address in hits
                if (tool := self.tools.get(str(self.searcher.doc(address).get_first(_KEY)))) is not None
                and (self.is_allowed is None or self.is_allowed(tool))
            ]
            # Fewer hits than asked for: there are no more.
            is_enough = len(hits) < window
            if not is_enough and len(found) >= wanted:
                is_tie = _rounded(hits[-1][0]) == found[wanted - 1][1]
                is_enough = not is_tie or window * _GROWTH > _MAX_TIES
            if is_enough:
                return {tool.name: (tool, score) for tool, score in found}
            window *= _GROWTH


def _rounded(score: float) -> float:
    return float(f"{score:{_DIGITS}}")


def _reads_the_same(old: ToolDefinition | None, new: ToolDefinition) -> bool:
    if old is None:
        return False
    return old is new or (old.description == new.description and old.parameters == new.parameters)
