"""How a command ends: every exception becomes a message on stderr and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final

from supervisord_mcp.errors import SmcpError

#: What a shell reports for a program that Ctrl-C ended.
INTERRUPTED: Final = 130
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def ended(command: Callable[[], int], *, debug: Callable[[], bool] = bool) -> int:
    """Given what to do, do it and return the exit status. If ``debug``, every error shows where it was raised."""
    try:
        status = command()
        if sys.stdout is not None:  # a daemon may be started with its descriptors closed
            sys.stdout.flush()
    except SmcpError as error:
        report(error, debug=debug())
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return 1
    except OSError as error:
        if not _is_of_output(error):
            report(explained(error), debug=debug())
            return 1
        report(SmcpError(f"cannot write the output: {error.strerror}"), debug=debug())
        discard_output()
        return 1
    except Exception as error:  # noqa: BLE001 - the last place before the person, who gets one line and no traceback
        report(explained(error), debug=debug())
        return 1
    return status


def _is_of_output(error: OSError) -> bool:
    """Whether the output could not be written: files that we write ourselves have a name, or an error of ours."""
    return error.filename is None and error.errno in _NO_ROOM


def report(error: SmcpError, *, debug: bool = False) -> None:
    """Print an error on stderr, with its traceback if ``debug``."""
    from supervisord_mcp.cli import output

    if debug:
        traceback.print_exc()
    output.print_error(error)


def discard_output() -> None:
    """Send what is still buffered nowhere: its reader left, and the interpreter would complain on its way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def explained(error: Exception) -> SmcpError:
    """Given any exception, return what a person is told: itself if it is ours, else one line and where to look."""
    if isinstance(error, SmcpError):
        return error
    from supervisord_mcp import shim

    log = os.path.join(shim.state_directory(os.environ, os.getuid()), shim.LOG_NAME)
    told = SmcpError(
        f"unexpected {type(error).__name__}: {error}",
        remedy=f"what the daemon logged is in {log}\nwhere it happened is shown by: smcp --debug COMMAND",
    )
    told.code = "internal"
    return told
