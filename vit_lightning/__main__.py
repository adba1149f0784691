"""The door: `python -m vit_lightning VERB ...`."""

import sys

from vit_lightning.cli import first_signals

if __name__ == "__main__":
    first_signals.listen()  # before the imports that take long

from vit_lightning.cli.ending import (
    INTERRUPTED,
    TERMINATED,
    is_unread,
    leave,
    left_unfinished,
    prepare_ending,
    say,
    stop_behind,
    unread,
)
from vit_lightning.cli.exceptions import explain
from vit_lightning.cli.rank_errors import lost_peer, prefix
from vit_lightning.cli.run import Ended, run


def main() -> int:
    """Run the verb that the command line names and return the exit status."""
    try:
        run(sys.argv[1:])
        if sys.stdout:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return interrupted()
    except Ended:
        return terminated()
    except SystemExit as error:
        if error.code == 1 and isinstance(error.__context__, KeyboardInterrupt):  # as Lightning leaves
            return interrupted()
        if place := left_unfinished(error):
            say(f"{prefix()}error: {place} called for the program's end before the run was done")
            return 1
        raise
    except Exception as error:
        if is_unread(error):
            return unread()
        if stop := stop_behind(error):
            return interrupted() if stop is KeyboardInterrupt else terminated()
        sentence = explain(error) or lost_peer(error)
        if sentence is None:
            raise
        say(f"{prefix()}error: {sentence}")
        return 1
    return 0


def interrupted() -> int:
    """Say that Ctrl-C ended the program; return the status that shells have for it."""
    say("interrupted")
    return INTERRUPTED


def terminated() -> int:
    """Say that SIGTERM ended the program; return the status that shells have for it."""
    say(f"{prefix()}{first_signals.ENDED}")
    return TERMINATED


if __name__ == "__main__":
    prepare_ending()
    status = 1
    try:
        status = main()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    finally:
        leave(status)
    sys.exit(status)
