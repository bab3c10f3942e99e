"""Limits callers to their destinations, and to the inputs and IDs of their namespaces."""

from app.engine.ingest.policy import Policy
from app.serve.access.caller import Caller
from app.serve.actions.resend import Sending
from app.serve.search.namespaces import inputs_of
from app.serve.web.problem import TypedProblem
from app.settings.settings import Settings
from punctual.contract.dialects.dialects import NATIVE

#: The policy for a namespace without an input: the rules for all.
_ANY = "*"


class OutsideNamespaces(TypedProblem):
    """The action is outside of the user's namespaces."""

    type_name = "forbidden"


class NamespaceBounds:
    """Refuses actions outside of a user's namespaces; users that are not bound to namespaces may do all."""

    def __init__(self, settings: Settings) -> None:
        self._topics, self._policy = settings.topics, Policy(settings)

    def input_for(self, caller: Caller, id_: str, to: str, cluster: str | None) -> str:
        """Return the topic for a request with this ID: an input of its namespace that may deliver to the destination.

        Raises OutsideNamespaces if there is none, or Refusal.
        """
        caller.check_destinations(to, None)
        if not caller.bound:
            return self._topics.requests
        namespace = self._topics.namespaces.of_id(id_)
        inputs = inputs_of(self._topics, namespace)
        why = {topic: self._policy.forbids(topic, to, cluster) for topic in inputs or [_ANY]}
        may = [topic for topic, forbidden in why.items() if not forbidden]
        if not may:
            sentence = f"namespace {namespace} has no permission to deliver there"
            raise OutsideNamespaces(f"{sentence}: {next(iter(why.values()))}")
        return next((one for one in may if self._topics.inputs.get(one) == NATIVE.name), self._topics.requests)

    def check_resend(self, caller: Caller, again: Sending) -> None:
        """Raise OutsideNamespaces if a dead letter, corrected or not, would be sent outside of the caller's namespaces.

        A record for an input of the caller's namespaces cannot name others, and its destinations are checked there.
        Raises Refusal if it is too large for the caller, or for a destination that is not the caller's.
        """
        caller.check_size(len(again.request.key or b"") + len(again.request.value or b""))
        if caller.destinations is not None:
            if again.asked is None:
                raise OutsideNamespaces("its destination cannot be read: correct its headers")
            if again.asked.op == "schedule":
                caller.check_destinations(again.asked.to, again.asked.on_failure)
        namespaces = self._topics.namespaces
        if caller.namespaces is None or namespaces.of_topic(again.topic) in caller.namespaces:
            return
        asked = again.asked
        if asked is None or asked.parked is not None:
            sentence = f"{again.topic} would not accept it for one of your namespaces as it is"
            raise OutsideNamespaces(f"{sentence}: correct its headers")
        if namespaces.of_id(asked.id) not in caller.namespaces:
            raise OutsideNamespaces(f"its ID would be {asked.id[:256]!r}, which is outside your namespaces")
        if asked.op == "schedule":
            self.input_for(caller, asked.id, asked.to, asked.cluster)
