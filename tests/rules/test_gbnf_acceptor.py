from __future__ import annotations

import pytest

from rules.gbnf_acceptor import Acceptor, GbnfError

REFUSED = {
    "left recursion": 'root ::= root "a" | "b"',
    "left recursion by way of another": 'root ::= x "a"\nx ::= "c" | root',
    "a rule that is not there": "root ::= x",
    "no root": 'start ::= "a"',
    "a class without an end": "root ::= [a-",
    "a string without an end": 'root ::= "a',
    "an unknown escape": 'root ::= "\\q"',
    "a name with an underscore": 'root_a ::= "b"\nroot ::= "a"',
    "an option on a line of its own": 'root ::= "a"\n | "b"',
    "a group without an end": 'root ::= ("a"',
    "a repetition of nothing": "root ::= *",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_grammar_is_refused_for(what: str) -> None:
    with pytest.raises(GbnfError):
        Acceptor(REFUSED[what])


@pytest.mark.parametrize(
    "grammar",
    ['root ::= x root | "b"\nx ::= "a"?', 'root ::= "a"{2000}', 'root ::= "a"\nroot ::= "b"'],
    ids=["left recursion behind what may be empty", "more repetitions than older ones take", "a rule twice"],
)
def test_what_only_some_versions_of_llama_cpp_refuse_is_refused(grammar: str) -> None:
    with pytest.raises(GbnfError):
        Acceptor(grammar)


@pytest.mark.parametrize(
    "grammar, accepted, refused",
    [
        ('root ::= "a" | ""', ["", "a"], ["aa"]),
        ('root ::= "ab"*', ["", "ab", "abab"], ["a", "aba"]),
        ('root ::= [a-c\\x2D]+ "." # more\n', ["a-.", "c."], [".", "d.", "a"]),
        ('root ::= [^\\n"]{2,3}', ["ab", "abc"], ["a", "abcd", 'a"', "\na"]),
        ('root ::= x{2}\nx ::= "a" | "b"', ["ab", "bb"], ["a", "aba"]),
        ('root ::= x{1,} "b"\nx ::= "a"', ["ab", "aab"], ["b"]),
        ('root ::= ("a" |\n "b")? "c"', ["ac", "bc", "c"], ["abc"]),
        ('root ::= "(" root ")" | "\\u00e9" | .', ["((x))", "(é)", "("], ["((x)", ""]),
        ('root ::= "a" "a" "b" | "a" "a" "c"', ["aab", "aac"], ["aa", "aad"]),
    ],
)
def test_texts_are_admitted_as_the_grammar_says(grammar: str, accepted: list[str], refused: list[str]) -> None:
    acceptor = Acceptor(grammar)
    assert [text for text in accepted if not acceptor.accepts(text)] == []
    assert [text for text in refused if acceptor.accepts(text)] == []
    for text in accepted:
        assert all(acceptor.admits_beginning(text[:size]) for size in range(len(text) + 1))


def test_the_position_of_the_first_wrong_character_is_reported() -> None:
    assert Acceptor('root ::= "abc"').accepted_length("abx") == 2
