"""The flight recorder: all inputs of a node's machines as plain data, and a replay of them on the same machines.

format      what is in a file, as declared types
declared    which facts and commands may be in a file
snapshot    the state of running machines as data, and back into machines that were just built
recorder    writes a file while a node runs
reader      reads a file that nobody vouches for
replay      runs the inputs again, and compares the effects
matching    finds the send of each message received, over the recordings of several nodes
limits      bounds the memory and the time of a replay
"""
