"""Bugs in what keeps teams apart and within their quotas, to be planted as those of planted.py."""

from typing import Any

from app.engine.ingest.quotas import Quotas
from app.engine.ingest.refusals import RefusalWriter
from app.engine.steps.step import Step
from app.settings.quotas import Quota
from punctual.contract.events import Event
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Refusal, Request
from tables import Changes
from tables.shares import Shares


def _as_said(_: Any) -> Any:
    def planted(_: Namespaces, _namespace: str, id_: str) -> str:
        return id_

    return planted


def _of_anybody(full: Any) -> Any:
    def planted(self: Namespaces, namespace: str, id_: str) -> str:
        return id_ if self.of_id(id_) else full(self, namespace, id_)

    return planted


def _unasked(_: Any) -> Any:
    def planted(*_: Any) -> None: ...

    return planted


def _of_an_empty_table(count: Any) -> Any:
    def planted(self: Quotas, name: str, quota: Quota) -> Any:
        stores, self._stores = self._stores, {}
        try:
            return count(self, name, quota)
        finally:
            self._stores = stores

    return planted


def _additions_alone(_: Any) -> Any:
    def planted(self: Shares, changes: Changes) -> None:
        for key in changes.added:
            entry = changes.entry(key)
            assert entry is not None
            self.add(key, entry, 1)

    return planted


def _told_alone(_: Any) -> Any:
    def planted(_: RefusalWriter, step: Step, asked: Request, refusal: Refusal) -> None:
        step.tell(Event("refused", asked.id, step.now_ms, asked.source, reason=refusal.reason.value))

    return planted


BUGS: dict[str, list[tuple[Any, str, Any]]] = {
    "ids of a team do not get its namespace": [(Namespaces, "full", _as_said)],
    "a team may name the ids of other teams": [(Namespaces, "full", _of_anybody)],
    "quotas are not checked": [(Quotas, "admit", _unasked)],
    "pending messages do not count for quotas": [(Quotas, "_count", _of_an_empty_table)],
    "removed rows still count for their namespace": [(Shares, "apply", _additions_alone)],
    "forwarded requests beyond the quota of their home are no dead letters": [
        (RefusalWriter, "refuse_forwarded", _told_alone)
    ],
}
