"""Measuring: clocks, contenders prepared as fit prepares them, alternating rounds, loaders, input sizes."""
