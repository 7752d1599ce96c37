"""A museum of other people's bugs: published failures of locks and elections, as programs in made-up time.

rules.py      a process under a flawed rule, and the store that it asks
locks.py      rules that keep a lock in a store
peers.py      rules among processes that ask each other
exhibits.py   which rule, which scenario, what went wrong in public, and where the model is simpler
show.py       a rule and doyen on the same scenario, and how long two led, or nobody
"""
