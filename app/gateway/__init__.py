"""The gateway: takes messages over HTTP and writes them as requests to Kafka, or to a spool on disk while it is down.

command     `faust -A app gateway`
gateway     puts the parts together, and ends them in order
intake      takes records: to Kafka, or to the spool
lane        one partition: straight to Kafka, or in order through the spool
spool       what Kafka has not taken yet, on disk
connection  brokers that may be away
receipts    when an order came, and ids for those that have none
health      /live, /ready and /metrics
"""
