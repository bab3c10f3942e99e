"""The header names of the contract are what other languages rely on: they never change."""

from punctual.contract import headers


def test_the_names_of_all_headers_are_frozen() -> None:
    constants = {name: value for name, value in vars(headers).items() if name.isupper() and isinstance(value, str)}

    assert constants == {
        "PREFIX": "delay-",
        "TO": "delay-to",
        "AT": "delay-at",
        "AFTER": "delay-after",
        "ID": "delay-id",
        "TO_PARTITION": "delay-to-partition",
        "TO_CLUSTER": "delay-to-cluster",
        "MAX_LATE": "delay-max-late",
        "IF_LATE": "delay-if-late",
        "DEDUPE": "delay-dedupe",
        "ON_FAILURE": "delay-on-failure",
        "NO_LATER": "delay-no-later",
        "JITTER": "delay-jitter",
        "RETRY": "delay-retry",
        "MAX_ATTEMPTS": "delay-max-attempts",
        "ATTEMPT": "delay-attempt",
        "EVERY": "delay-every",
        "CRON": "delay-cron",
        "ZONE": "delay-zone",
        "UNTIL": "delay-until",
        "COUNT": "delay-count",
        "MISFIRE": "delay-misfire",
        "OP": "delay-op",
        "IF_DUE": "delay-if-due",
        "ASKED_AT": "delay-asked-at",
        "DUE": "delay-due",
        "SOURCE": "delay-source",
        "PARKED": "delay-parked",
        "EPOCH": "delay-epoch",
        "FIRST": "delay-first",
        "REASON": "delay-reason",
        "ERROR": "delay-error",
    }


def test_every_header_belongs_to_a_request_a_delivery_a_dead_letter_or_the_cold_topic() -> None:
    constants = {value for name, value in vars(headers).items() if name.isupper() and isinstance(value, str)}

    known = headers.REQUEST | headers.DELIVERY | headers.POST | headers.DEAD_LETTER | headers.COLD
    assert constants - {headers.PREFIX} == known


def test_what_punctual_adds_is_ignored_when_it_is_sent_again() -> None:
    assert {
        "delay-due",
        "delay-source",
        "delay-reason",
        "delay-error",
        "delay-epoch",
        "delay-first",
    } == headers.IGNORED
