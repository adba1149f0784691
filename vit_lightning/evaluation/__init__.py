"""How good a net is: the table of scores, and measures of features as pure functions on arrays."""
