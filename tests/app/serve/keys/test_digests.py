"""Ids that follow from keys."""

from app.serve.keys.receipt import FirstReceipt, id_seed, key_digest, keyed_origin, request_digest
from app.serve.messages.receipts import Origin
from punctual.contract.home import home_partition, key_partition

REQUEST = request_digest("POST", "/api/v1/messages", b"{}")


def test_keys_of_two_tokens_are_two_keys() -> None:
    assert key_digest("shop", "1") != key_digest("mail", "1")
    assert key_digest("shop", "1") == key_digest("shop", "1")


def test_a_request_is_its_method_its_path_and_its_body() -> None:
    others = [("PUT", "/api/v1/messages", b"{}"), ("POST", "/v1/other", b"{}"), ("POST", "/api/v1/messages", b"[]")]

    assert REQUEST not in {request_digest(*other) for other in others}


def origin(key: str = "1") -> Origin:
    return keyed_origin(
        FirstReceipt(id_seed(key_digest("shop", key), REQUEST), 1_800_000_000_000), "delay-requests", 16
    )


def test_an_id_lives_where_its_message_is_sent() -> None:
    for key in (b"customer-7", None):
        id_ = origin().id(0, key)
        home = home_partition(id_, ["delay-requests"], 16)
        assert id_.startswith(f"delay-requests-{home}-")
        assert key is None or home == key_partition(key, 16)


def test_each_gateway_makes_the_same_ids_and_each_message_has_its_own() -> None:
    made = [origin().id(number, b"k") for number in range(100)]

    assert made == [origin().id(number, b"k") for number in range(100)]
    assert len(set(made)) == 100
    assert made[0] != origin("2").id(0, b"k")
