"""Pure functions on tensors and configs: what a net costs, what it attends to, how good its features are."""
