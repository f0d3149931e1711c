"""`python launch.py FD COMMAND...` runs a command and writes its exit status and resource usage to a descriptor.

A process is never said to have used less memory than the one that started it had used by then; this one uses little.
"""

import json
import os
import sys


def main() -> None:
    """Run the command of the arguments."""
    descriptor, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(descriptor, False)
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    fields = [os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss]
    os.write(descriptor, json.dumps(fields).encode())


if __name__ == "__main__":
    main()
