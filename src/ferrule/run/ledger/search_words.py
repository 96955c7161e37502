r"""What a word is in a search, for both databases: the same text has the same words wherever it is stored.

A search finds the messages that contain all its words, in any order and in upper or lower case. Parts of words are not
found. A word is a run of letters and digits; everything else separates words, so `get_weather` is two.

Chinese, Japanese, Korean, Thai and some others do not separate words by spaces, or attach endings to them. In a run of
such characters every character is a word, and so is every pair of neighbours. A search for two or more characters
therefore finds the messages that contain all its pairs.

Of a message the first `MAX_CHARS` characters are searched. Its text is JSON, in which a line break is `\n`.

PostgreSQL
    The words are those of an expression, which is the expression of an index. So nothing is written to find them later,
    and a search is split into words by the same expression. It replaces all punctuation before `to_tsvector` sees the
    text, for two reasons: that function takes `example.com/a` as one word, and on some texts, such as `a_a_a_...`, it
    needs time that grows with the square of the length.

SQLite
    The words are found here, and stored in a table of FTS5, which only separates them by spaces.
"""

from __future__ import annotations

import re

from ferrule.core.json_text import dumps, escape_text

MAX_CHARS = 30_000
"""How much of a message is searched. To split text into words takes a server half a microsecond for each character."""
_MAX_WORDS = 4_096
_MAX_WORD_CHARS = 64
_ESCAPES = ("\\\\", "\\n", "\\r", "\\t", "\\b", "\\f")
# Characters of writing without spaces between words: Thai to Myanmar, Khmer, Han with its radicals, Kana, Hangul.
_UNSPACED = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\ua4cf\uac00-\ud7ff\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff]"
)
# Not [^[:alnum:]]: what that is depends on the locale of the database, and in the locale C no Chinese belongs to it.
_PUNCTUATION = (
    r"[\x01-\x2f\x3a-\x40\x5b-\x60\x7b-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u2000-\u2bff\u3000-\u3004\u3008-\u3020"
    r"\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+"
)


def postgres_words(column: str) -> str:
    """Return the expression for the words of a column. Its text must not change: it is that of an index."""
    spaced = f"left({column}, {MAX_CHARS})"
    for escape in _ESCAPES:
        spaced = f"replace({spaced}, '{escape}', ' ')"
    clean = f"regexp_replace({spaced}, '{_PUNCTUATION}', ' ', 'g')"
    single = f"regexp_replace({clean}, '({_UNSPACED})', ' \\1 ', 'g')"
    # Pairs that begin at the first, third, ... character of a run, and those that begin at the second, fourth, ...
    pairs = f"regexp_replace({{}}, '({_UNSPACED}{{{{2}}}})', ' \\1 ', 'g')"
    shifted = f"regexp_replace({clean}, '({_UNSPACED})({_UNSPACED}+)', '\\1 \\2', 'g')"
    every = f"{single} || ' ' || {pairs.format(clean)} || ' ' || {pairs.format(shifted)}"
    is_spaced = f"octet_length({column}) = length({column}) OR {column} !~ '{_UNSPACED}'"
    return f"to_tsvector('simple'::regconfig, CASE WHEN {is_spaced} THEN {clean} ELSE {every} END)"


def postgres_query(column: str) -> str:
    """Return the expression for the query that a column contains as text: all its words."""
    text = postgres_words(column).removeprefix("to_tsvector(")
    return f"plainto_tsquery({text}"


def search_text(text: str) -> str:
    """Return the text of a search as it stands in the stored JSON, without what no database stores."""
    storable = text.encode("utf-8", "replace").decode().replace("\x00", " ")
    return escape_text(storable)


_RUN = re.compile(r"[^\W_]+")
_ESCAPED = re.compile(r"\\[\\nrtbf]")
_UNSPACED_RUN = re.compile(f"({_UNSPACED}+)")


def words_of(text: str) -> list[str]:
    """Return the words of a message's JSON, or of a search, each once."""
    spaced = _ESCAPED.sub(" ", text[:MAX_CHARS]).lower()
    words: dict[str, None] = {}
    for run in _RUN.findall(spaced):
        if run.isascii():
            words[run[:_MAX_WORD_CHARS]] = None
            continue
        for number, part in enumerate(_UNSPACED_RUN.split(run)):
            if number % 2:
                words |= dict.fromkeys(part)
                words |= dict.fromkeys(part[at : at + 2] for at in range(len(part) - 1))
            elif part:
                words[part[:_MAX_WORD_CHARS]] = None
    return list(words)[:_MAX_WORDS]


def fts5_words(text: str) -> str:
    """Return the words of a search as a JSON list; empty if it has none. FTS5 would interpret nothing in a word."""
    words = words_of(text)
    return dumps(words) if words else ""
