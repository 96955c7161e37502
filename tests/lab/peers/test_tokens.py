from hypothesis import given
from hypothesis import strategies as st

from lab.peers.tokens import PIECE, Tokenizer, chunks, pieces

SPECIALS = ("<call>", "</call>", "<call")
TEXTS = st.lists(st.sampled_from([*SPECIALS, "a", "é", "<", ">", "call", "\n"])).map("".join)


@given(TEXTS)
def test_pieces_are_special_tokens_or_short_and_join_to_the_text(text: str):
    cut = pieces(text, SPECIALS)
    assert "".join(cut) == text
    assert all(piece in SPECIALS or 0 < len(piece) <= PIECE for piece in cut)


@given(TEXTS)
def test_decoding_undoes_encoding(text: str):
    tokenizer = Tokenizer(SPECIALS)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_longest_special_token_wins():
    assert pieces("<call>", SPECIALS) == ["<call>"]


def test_a_special_token_has_one_id_and_is_in_the_vocabulary():
    tokenizer = Tokenizer(SPECIALS, not_special={"<call"})
    assert tokenizer.encode("<call>") == [tokenizer.get_vocab()["<call>"]]
    assert tokenizer.all_special_tokens == ["<call>", "</call>"]
    assert "<call" in tokenizer.get_vocab()


def test_chunks_hold_so_many_tokens_and_none_means_everything():
    text = "<call>abcdefg</call>"
    assert chunks(text, SPECIALS, 2) == ["<call>abc", "defg", "</call>"]
    assert chunks(text, SPECIALS, None) == [text]


def test_the_token_that_ends_the_reply_makes_an_empty_chunk_where_it_comes_alone():
    assert chunks("<call>a", SPECIALS, 1) == ["<call>", "a", ""]
    assert chunks("<call>a", SPECIALS, 2) == ["<call>a", ""]
    assert chunks("", SPECIALS, None) == [""]
