"""How a net is trained: recipe, optimisers, schedule, averaging, resuming, exact metrics."""
