"""Firefox by its own remote protocol, Marionette: lines of JSON behind their length, on a port of loopback."""

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any


class Firefox:
    """A headless Firefox with a profile of its own; `close` ends it."""

    def __init__(self, program: str, profile: Path, patience: float = 120.0) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        off = ("app.update.enabled", "browser.shell.checkDefaultBrowser", "network.captive-portal-service.enabled",
               "network.connectivity-service.enabled", "datareporting.policy.dataSubmissionEnabled")  # fmt: skip
        preferences = {"marionette.port": port, **dict.fromkeys(off, False)}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        words = [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._number = 0
        end = time.monotonic() + patience
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=patience)
                break
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.2)
        self._read()  # its greeting
        self.call("WebDriver:NewSession", capabilities={})
        self.call("WebDriver:SetTimeouts", script=int(patience * 1e3), pageLoad=int(patience * 1e3))

    def call(self, command: str, **parameters: Any) -> Any:
        """Carry out a command; RuntimeError with what Firefox refuses."""
        self._number += 1
        text = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(str(len(text)).encode() + b":" + text)
        _, _, error, result = json.loads(self._read())
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def _read(self) -> bytes:
        length = b""
        while (byte := self._socket.recv(1)) != b":":
            length += byte
        text = b""
        while len(text) < int(length):
            text += self._socket.recv(int(length) - len(text))
        return text

    def open(self, address: str) -> None:
        """Go to a page."""
        self.call("WebDriver:Navigate", url=address)

    def script(self, text: str) -> Any:
        """Run the body of an asynchronous function in the page; what it returns."""
        whole = f"const done = arguments[0]; (async () => {{ {text} }})().then(done, (error) => done(String(error)));"
        return self.call("WebDriver:ExecuteAsyncScript", script=whole, args=[])["value"]

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(AttributeError, OSError):
            self._socket.close()
        self._process.kill()
        self._process.wait()
