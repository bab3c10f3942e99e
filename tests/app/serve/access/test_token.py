"""Tokens of programs."""

from app.serve.access.token import digest_of, is_token, new_token


def test_no_two_tokens_are_the_same() -> None:
    tokens = {new_token() for _ in range(100)}

    assert len(tokens) == 100
    assert all(map(is_token, tokens))


def test_a_token_has_a_digest_of_its_own() -> None:
    one, two = new_token(), new_token()

    assert digest_of(one) == digest_of(one)
    assert digest_of(one) != digest_of(two)
