"""Sweeps: a plan of runs, how they are started and gone on with, and what came out of them."""
