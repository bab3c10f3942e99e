"""Signatures are those of Standard Webhooks: its own vector, and its own library, which verifies them."""

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from app.base.http.signatures import secret, signature, webhook_id

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the specification's own


def test_the_vector_of_the_specification() -> None:
    signed = signature([secret(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20)), st.binary(min_size=24, max_size=64))
def test_another_implementation_verifies_the_signature(said: dict[str, str], key: bytes) -> None:
    text, body, id_, now = (
        f"whsec_{base64.b64encode(key).decode()}",
        json.dumps(said),
        webhook_id("a", "b"),
        time.time(),
    )
    headers = {
        "webhook-id": id_,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": signature([secret(SECRET), secret(text)], id_, int(now), body.encode()),
    }

    assert Webhook(text).verify(body, headers) == said
    assert Webhook(SECRET).verify(body, headers) == said


def test_an_id_is_the_same_for_the_same_parts_alone_and_has_no_dot() -> None:
    ids = [webhook_id("a", f"orders.x-0-{number}") for number in range(1_000)]

    assert len(set(ids)) == 1_000
    assert ids == [webhook_id("a", f"orders.x-0-{number}") for number in range(1_000)]
    assert not any("." in id_ for id_ in ids)
    assert webhook_id("a", "b-c") != webhook_id("a-b", "c")
    assert {id_.partition("_")[0] for id_ in ids} == {"msg"}
    assert webhook_id("a", kind="callback") == webhook_id("a").replace("msg_", "callback_")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a secret must begin with whsec_, followed by base64"),
        ("whsec_!", "the text after whsec_ is not base64"),
        ("whsec_c2hvcnQ=", "a secret has 5 bytes. It must have 24 to 64"),
    ],
)
def test_an_invalid_secret_is_refused_and_not_repeated_in_the_message(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        secret(text)
    assert text not in str(raised.value)
