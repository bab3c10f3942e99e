"""The rights that a worker needs, as they are granted."""

import shlex

import pytest
import yaml  # type: ignore[import-untyped]

from app.ops.doctor.acl import gateway_acls, worker_acls
from app.ops.doctor.acl_lines import kafka_acls, strimzi
from app.settings.settings import Settings

SETTINGS = Settings.from_env({"DELAY_DESTINATIONS": "orders.*", "DELAY_GUARANTEE": "exactly_once"})
ALL = Settings.from_env({"DELAY_DESTINATIONS": "*"})


def test_the_commands_of_kafkas_tool_grant_each_right() -> None:
    lines = kafka_acls(SETTINGS, "User:punctual").splitlines()
    assert len(lines) == len(worker_acls(SETTINGS))
    assert (
        "kafka-acls --bootstrap-server 127.0.0.1:9092 --add --allow-principal User:punctual --operation Read "
        "--operation Write --topic orders. --resource-pattern-type prefixed"
    ) in lines
    assert any("--transactional-id delay- " in line for line in lines)


def test_a_gateways_permissions_are_granted_in_the_same_way() -> None:
    wanted = gateway_acls(SETTINGS)
    assert len(kafka_acls(SETTINGS, "User:gateway", wanted).splitlines()) == len(wanted)
    user = yaml.safe_load(strimzi(SETTINGS, "User:gateway", wanted))
    named = {one["resource"]["name"] for one in user["spec"]["authorization"]["acls"]}
    assert named == {acl.name for acl in wanted}


def test_a_shell_does_not_expand_the_names_in_the_commands() -> None:
    [line] = [line for line in kafka_acls(ALL, "User:CN=a b").splitlines() if "*" in line]
    assert "--topic '*'" in line
    assert shlex.split(line)[4:6] == ["--allow-principal", "User:CN=a b"]


def test_strimzis_user_has_the_same_rights() -> None:
    user = yaml.safe_load(strimzi(SETTINGS, "User:punctual"))
    assert (user["kind"], user["metadata"]["name"]) == ("KafkaUser", "punctual")
    granted = {
        (one["resource"]["type"], one["resource"]["name"], *one["operations"])
        for one in user["spec"]["authorization"]["acls"]
    }
    kinds = {"transactional id": "transactionalId"}
    assert granted == {
        (kinds.get(acl.resource, acl.resource), acl.name, *acl.operations) for acl in worker_acls(SETTINGS)
    }


@pytest.mark.parametrize(("principal", "by"), [("User:punctual", "scram-sha-512"), ("User:CN=punctual", "tls")])
def test_strimzis_user_comes_in_as_its_principal_says(principal: str, by: str) -> None:
    user = yaml.safe_load(strimzi(SETTINGS, principal))
    assert (user["metadata"]["name"], user["spec"]["authentication"]["type"]) == ("punctual", by)
