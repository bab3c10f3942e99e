"""Ids that follow from keys."""

from app.gateway.keys.digests import id_of, key_digest, order_digest, request_digest
from punctual.contract.home import home_partition, key_partition

REQUEST = request_digest("POST", "/v1/messages", b"{}")


def test_keys_of_two_tokens_are_two_keys() -> None:
    assert key_digest("shop", "1") != key_digest("mail", "1")
    assert key_digest("shop", "1") == key_digest("shop", "1")


def test_a_request_is_its_method_its_path_and_its_body() -> None:
    others = [("PUT", "/v1/messages", b"{}"), ("POST", "/v1/other", b"{}"), ("POST", "/v1/messages", b"[]")]

    assert REQUEST not in {request_digest(*other) for other in others}


def test_an_id_lives_where_its_message_is_sent() -> None:
    order = order_digest(key_digest("shop", "1"), REQUEST)

    for key in (b"customer-7", None):
        id_ = id_of(order, 0, "delay-requests", 16, key)
        home = home_partition(id_, ["delay-requests"], 16)
        assert id_.startswith(f"delay-requests-{home}-")
        assert key is None or home == key_partition(key, 16)


def test_messages_of_a_batch_have_ids_of_their_own() -> None:
    order = order_digest(key_digest("shop", "1"), REQUEST)

    assert len({id_of(order, place, "delay-requests", 16, b"k") for place in range(100)}) == 100
