"""What a net costs and what a device can do: MACs, peaks, clocks, memory."""
