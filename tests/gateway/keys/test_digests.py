"""Ids that follow from keys."""

from app.gateway.keys.digests import KeyedIds, key_digest, order_digest, request_digest
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
        id_ = KeyedIds(order, 0, "delay-requests", 16).id(key)
        home = home_partition(id_, ["delay-requests"], 16)
        assert id_.startswith(f"delay-requests-{home}-")
        assert key is None or home == key_partition(key, 16)


def test_messages_of_a_batch_have_ids_of_their_own() -> None:
    order = order_digest(key_digest("shop", "1"), REQUEST)

    assert len({KeyedIds(order, place, "delay-requests", 16).id(b"k") for place in range(100)}) == 100


def test_each_gateway_makes_the_same_ones() -> None:
    order = order_digest(key_digest("shop", "1"), REQUEST)
    one, two = KeyedIds(order, 3, "delay-requests", 16), KeyedIds(order, 3, "delay-requests", 16)

    made = [one.id(None) for _ in range(20)]
    assert made == [two.id(None) for _ in range(20)]
    assert len(set(made)) == 20
