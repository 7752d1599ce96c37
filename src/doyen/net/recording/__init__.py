"""The flight recorder: all inputs of a node's machines as plain data (decision 101), and a replay of them.

- `format` declares what is in a file; `declared` lists which facts and commands may be.
- `recorder` writes a file while a node runs; `reader` reads one that nobody vouches for.
- `effects` describes effects; `built`, `snapshot` and `loader` turn the state of machines into data and back.
- `replay` runs the inputs again and compares the effects; `limits` bounds what that may cost.
- `matching` finds where each message was sent, over the recordings of several nodes.
"""
