"""Commands for operators.

doctor        examines an installation, without changing it
repartition   gives an installation more partitions, while it is stopped
multiprocess  several worker processes behind one address
"""
