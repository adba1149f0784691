"""The public layouts of weights, each with its reader and its writer."""
