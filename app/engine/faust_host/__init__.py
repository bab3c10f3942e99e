"""Runs Faust and aiokafka's consumer, and replaces parts of both. Each module names the upstream line.

    chunk         records in chunks instead of single ones
    consumer      the fetch loop, and positions to commit; consumer_thread: its thread, which reads committed records
    group_intake  partitions are sought and opened as each is ready
    handover      assigned partitions go to their ownership instead of Faust's recovery; a member that returns with
                  another address, and a coordinator that has ended

A few places are with the code that they serve:

    app/engine/command_line.py  its command line: `worker` alone
    app/worker.py      Faust's app and its worker: the event loop, start and stop, the root logger
    app/serve/web/server.py  its web server, without its own pages
    tables/table.py    its table, without its store and its recovery
    app/kafka/patches  aiokafka: names of headers that are not UTF-8, and lost connections on uvloop
    app/kafka/wire     aiokafka's connections; frequent requests are encoded by hand
"""
