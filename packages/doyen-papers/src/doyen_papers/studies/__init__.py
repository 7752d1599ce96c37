"""Experiments of the papers, as questions to the simulator: a setting in, figures over many runs out."""
