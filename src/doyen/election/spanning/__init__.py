"""Multi-attribute election over an arbitrary graph.  [MADM §6.2.2]

messages.py    what nodes say and wait for: the whole interface
config.py      how long they wait
machine.py     the machine: elections one after the other, and what neighbours compare
gathering.py   one election at one node: its place in the tree, and the best candidate gathered
links.py       the neighbours, and what each last said of itself
returning.py   what a node that returns makes of its neighbours' answers
patience.py    when answers come too late
quality.py     what a node enters into an election
"""
