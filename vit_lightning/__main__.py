"""The door: `python -m vit_lightning VERB ...`."""

import signal
import sys

from vit_lightning.cli.exceptions import explain
from vit_lightning.cli.garbage_collection import skip_last_collection
from vit_lightning.cli.rank_errors import lost_peer, prefix
from vit_lightning.cli.run import Ended, run


def main() -> int:
    """Run the verb that the command line names and return the exit status."""
    try:
        run(sys.argv[1:])
    except KeyboardInterrupt:
        return interrupted()
    except Ended:
        print(f"{prefix()}error: ended by SIGTERM before it was done", file=sys.stderr)
        return 128 + signal.SIGTERM
    except SystemExit as error:
        if error.code == 1 and isinstance(error.__context__, KeyboardInterrupt):  # as Lightning leaves
            return interrupted()
        raise
    except Exception as error:
        sentence = explain(error) or lost_peer(error)
        if sentence is None:
            raise
        print(f"{prefix()}error: {sentence}", file=sys.stderr)
        return 1
    return 0


def interrupted() -> int:
    """Say that Ctrl-C ended the program; return the status that shells have for it."""
    print("interrupted", file=sys.stderr)
    return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: no file's name may end a program
    try:
        status = main()
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)  # nothing interrupts a program that is done
        skip_last_collection()
    sys.exit(status)
