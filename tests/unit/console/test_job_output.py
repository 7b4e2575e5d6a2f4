import base64

from lbd.console.job_output import PIECE_CHARACTERS, SHORT_MAX, printed_so_far


def piece(output: bytes, attempt=1, state="running", **more):
    data = [base64.b64encode(output).decode(), ""]
    return {"data": data, "attempt": attempt, "state": state, "at": [len(output), 0, 0], **more}


def end(attempt=1, state="done"):
    return {"data": [], "attempt": attempt, "state": state, "at": [0, 0, 0]}


def printed(*replies):
    left = list(replies)
    found = printed_so_far(lambda question: left.pop(0), "7")
    return bytes(found.output), found.attempt, len(left)


def test_pieces_of_an_attempt_are_joined():
    assert printed(piece(b"one "), piece(b"two"), end()) == (b"one two", 1, 0)


def test_what_an_attempt_printed_is_left_out_if_another_begins_while_it_is_read():
    assert printed(piece(b"old"), piece(b"new", 2), end(2)) == (b"new", 2, 0)


def test_an_attempt_that_continues_another_adds_to_its_output():
    assert printed(piece(b"one "), piece(b"two", 2, continued=True), end(2)) == (b"one two", 2, 0)


def test_nothing_is_left_out_while_the_next_attempt_is_not_known():
    assert printed(piece(b"one"), end(attempt=0, state="pending")) == (b"one", 1, 0)


def test_a_job_that_prints_all_the_time_is_not_read_for_ever():
    replies = [piece(b"x")] * 100
    assert printed(*replies) == (b"x" * (SHORT_MAX + 1), 1, 100 - SHORT_MAX - 1)
    ended = [piece(b"x", state="done")] * 100
    assert printed(*ended, end())[2] == 0


def test_long_pieces_are_read_to_the_end():
    replies = [piece(b"x" * PIECE_CHARACTERS)] * 20
    assert printed(*replies, end())[2] == 0


def test_each_question_says_what_was_seen():
    asked, left = [], [piece(b"abc"), end()]

    def ask(question):
        asked.append(dict(question))
        return left.pop(0)

    printed_so_far(ask, "7", 1)
    assert [(one["at"], one.get("seen_attempt")) for one in asked] == [
        ([0, 0], None),
        ([3, 0, 0], 1),
    ]
