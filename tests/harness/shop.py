"""A user's Faust app, configured by its environment; the other programs in this folder give it a handler."""

import os

import faust

from punctual.client.faust_methods import DelayMethods

TO = os.environ["APP_TO"]


class Shop(DelayMethods, faust.App):
    delay_app_id = os.environ["APP_DELAY"]


app = Shop(
    f"{TO}-shop",
    broker=f"kafka://{os.environ['APP_KAFKA']}",
    datadir=os.environ["APP_DATA"],
    store="memory://",
    web_enabled=False,
    topic_allow_declare=False,
    topic_disable_leader=True,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.5,
    broker_commit_interval=0.5,
    consumer_auto_offset_reset="earliest",
)
source = app.topic(TO, value_type=bytes, value_serializer="raw")
