"""Commands for operators.

doctor        examines an installation, and changes nothing
repartition   gives an installation more partitions, while it is stopped
multiprocess  several worker processes behind one address
"""
