"""Output of `--json`: one object, with the same first fields for every command."""

import json
import sys
from typing import Any


def give(command: str, status: int, /, **fields: Any) -> None:
    """Write the JSON object: `command`, `ok`, `exit` (the exit status), then the command's own fields."""
    answer = {"command": command, "ok": status == 0, "exit": status, **fields}
    sys.stdout.write(json.dumps(answer, indent=1, default=str) + "\n")
