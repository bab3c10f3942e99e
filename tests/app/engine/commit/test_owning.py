"""Why a partition is owned no more, as the brokers' coordinator has it."""

import pytest

from app.base.errors import NotOwner, TransactionForbidden
from app.engine.commit.transactional_journal import _Owning
from app.kafka.transactions.coordinator import Fenced, Forgotten, IdForbidden


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (Forgotten("delay-3"), NotOwner, r"forgotten the transactional id delay-3.*transactional\.id\.expiration\.ms"),
        (Fenced("delay-3"), NotOwner, "partition 3: another worker has taken it over"),
        (IdForbidden("delay-3"), TransactionForbidden, "delay-3"),
    ],
)
def test_the_error_message_names_the_defect(error: Exception, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said), _Owning(3):
        raise error
