"""`faust -A app worker --processes N`: several workers started and watched by one process, behind one address.

`plan` says what each of them gets of the environment, `supervisor` starts them and starts them again, `front` answers
at the address that one worker alone would have, and `metrics` makes one exposition of theirs.
"""
