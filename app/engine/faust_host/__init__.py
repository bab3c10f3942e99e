"""Where Faust is bent, and aiokafka's consumer with it: each place names the upstream line that it answers.

    chunk         records in chunks instead of single ones
    consumer      the fetch loop, and positions to commit; consumer_thread: its thread, which reads committed records
    group_intake  partitions are sought and opened as each is ready
    handover      of assigned partitions, which stands where Faust's recovery stands; a member that comes back
                  with another address, and a coordinator that has ended
    command_line  the command line: `worker` alone
    library_logs  what the libraries log at each step of theirs

A few places are with what they serve:

    app/worker.py      Faust's app and its worker: the event loop, start and stop, the root logger
    app/serve/web/server.py  its web server, without its own pages
    tables/table.py    its table, without its store and its recovery
    app/kafka/patches  aiokafka: names of headers that are not UTF-8, and lost connections on uvloop
    app/kafka/wire     aiokafka's connections, with what is sent often packed by hand
"""
