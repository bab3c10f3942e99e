"""Commands for operators.

doctor        examines an installation, without changing it
repartition   gives an installation more partitions, while it is stopped
access        `punctual access`, `punctual password`, `punctual token`: the lines of the access file
multiprocess  several worker processes behind one address
"""
