"""Pictures of what the functions of `inspection` return, by matplotlib; each function returns a figure to be saved."""
