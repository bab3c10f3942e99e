"""The records route of Confluent's REST proxy (API v3), for programs that change over; off unless GATEWAY_CONFLUENT=on.

records      the route: records in, a report for each out
json_stream  splits the records of a stream
failures     errors in the proxy's form
"""
