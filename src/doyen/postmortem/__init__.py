"""Looks back: what several nodes recorded, or a simulation showed, as lanes on one clock, with a verdict.

- `align` lays clocks on one; `verdict` says for how long two acted at once.  Both are pure.
- `watch` follows one node; `recorded` and `simulated` have it follow the nodes of recordings and of a simulation.
- `incident` puts recordings together; `gather` reads the files; `picture` is what is shown, and `document` writes it.
- `other` and `whatif` replay recordings with another setting, and simulate from where they part (decision 130).
"""
