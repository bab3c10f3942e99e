"""How far an answer is read: no further than its bounds, however its sender cuts it."""

from app.base.http.answer_reader import PIECES, AnswerReader


def test_a_body_in_many_pieces_ends_early() -> None:
    reader, pieces = AnswerReader(), 1
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
    while not reader.ended:
        reader.feed(b"x")
        pieces += 1

    assert (reader.status, reader.reusable, pieces) == (200, False, PIECES + 1)
