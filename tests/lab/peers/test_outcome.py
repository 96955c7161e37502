from lab.peers.outcome import Sum


def test_deltas_add_up_by_index_whatever_the_order():
    total = Sum()
    total.add_content("Let me ")
    total.add_call(1, "b", "{")
    total.add_call(0, "a", None)
    total.add_content(None)
    total.add_call(1, None, "}")
    total.add_content("look.")
    assert total.outcome() == {
        "content": "Let me look.",
        "calls": [{"name": "a", "arguments": ""}, {"name": "b", "arguments": "{}"}],
        "error": None,
    }


def test_arguments_for_a_call_that_was_never_named_are_kept():
    total = Sum()
    total.add_call(0, None, "{}")
    assert total.outcome()["calls"] == [{"name": "", "arguments": "{}"}]
