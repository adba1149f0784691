"""The command line: parsing, help, precedence, and errors in one sentence."""
