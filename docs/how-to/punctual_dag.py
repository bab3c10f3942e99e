"""Punctual in Airflow: a nightly bulk, the cold tier and the account. Change paths, and names of your own."""

import json
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

RUN = "cd /opt/punctual && .venv/bin/python -m pipeline"
#: A task with nothing to do is skipped: 99 is what BashOperator takes for that.
IDLE = "--exit-nothing 99 --json"
DEFAULTS = {
    "retries": 3,  # the same again: nothing is sent twice
    "retry_delay": timedelta(minutes=2),
    "env": {"KAFKA_BOOTSTRAP_SERVERS": "kafka-1:9092,kafka-2:9092"},
    "append_env": True,
}
BEGIN = datetime(2027, 1, 1, tzinfo=UTC)


def some_were_rejected(summary: str) -> bool:
    """Whether somebody has to look at rows; `summary` is the line of JSON that a task has left."""
    return json.loads(summary)["counts"]["rejected"] > 0


with DAG("punctual_reminders", schedule="15 2 * * *", start_date=BEGIN, max_active_runs=1, default_args=DEFAULTS):
    bulk = BashOperator(
        task_id="bulk",
        bash_command=(
            f"{RUN} bulk /srv/exports/reminders/{{{{ ds }}}} --job reminders --at due --to reminders --value-json '*' "
            "--natural-key customer,invoice --rejects /srv/exports/rejects --max-past 1000 --json"
        ),
    )
    rejected = ShortCircuitOperator(
        task_id="rejected",
        python_callable=some_were_rejected,
        op_args=["{{ ti.xcom_pull(task_ids='bulk') }}"],
    )
    bulk >> rejected >> BashOperator(task_id="tell", bash_command="echo rows were rejected | mail -s punctual ops")

# max_active_runs=1 is the lock that object stores do not have.
with DAG("punctual_promote", schedule="*/5 * * * *", start_date=BEGIN, max_active_runs=1, default_args=DEFAULTS):
    BashOperator(task_id="promote", bash_command=f"{RUN} promote /data/cold --lead PT2H {IDLE}")

with DAG("punctual_park", schedule="2-59/10 * * * *", start_date=BEGIN, max_active_runs=1, default_args=DEFAULTS):
    BashOperator(task_id="park", bash_command=f"{RUN} park /data/cold {IDLE}")

with DAG("punctual_account", schedule="0 3 * * *", start_date=BEGIN, max_active_runs=1, default_args=DEFAULTS):
    ledger = BashOperator(task_id="ledger", bash_command=f"{RUN} ledger /data/ledger --compact --json")
    rescue = BashOperator(task_id="rescue", bash_command=f"{RUN} rescue /data/ledger --as-is --apply --json")
    reconcile = BashOperator(task_id="reconcile", bash_command=f"{RUN} reconcile /data/ledger --json")
    ledger >> rescue >> reconcile
