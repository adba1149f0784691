"""The one exception for wrong user input."""


class InputError(ValueError):
    """What the user gave cannot work; the message is one sentence with the value, the expectation and the fix.

    The command line prints the message alone and exits with status 1; any other exception keeps its traceback.
    """
