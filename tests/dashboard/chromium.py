"""Chromium without a window, driven over a pipe by its DevTools protocol: keys, colours, requests, screenshots."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "needs Chromium: apt-get install chromium"
PATIENCE = 300.0
"""Seconds that a condition may take to come true."""


class Browser:
    """A page in a browser of its own."""

    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self.requested: list[str] = []
        """The addresses that the page has asked for."""

    def open(self, url: str) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Network.enable")
        self.call("Page.enable")
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        session = {} if self._session is None else {"sessionId": self._session}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Network.requestWillBeSent":
                self.requested.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def evaluate(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, script: str) -> None:
        until = time.monotonic() + PATIENCE
        while not self.evaluate(script):
            assert time.monotonic() < until, f"not within {PATIENCE:.0f} s: {script}"
            time.sleep(0.1)

    def press(self, key: str, text: str = "") -> None:
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        pressed = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def scheme(self, name: str) -> None:
        """Make the system light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path, width: int) -> None:
        """The whole page as PNG."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        height = self.evaluate("document.documentElement.scrollHeight")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> Any:
        while b"\0" not in self._unread:
            more = os.read(self._receive, 1 << 16)
            assert more, "the browser has ended"
            self._unread += more
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that reads commands from descriptor 3 and writes answers to descriptor 4."""
    assert BINARY is not None
    commands, send = os.pipe()
    receive, answers = os.pipe()
    options = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --remote-debugging-pipe"
    shell = f'exec "$0" {options} --user-data-dir="$1" 3<&{commands} 4>&{answers}'
    process = subprocess.Popen(
        ["bash", "-c", shell, BINARY, str(profile)], pass_fds=(commands, answers), stderr=subprocess.DEVNULL
    )
    os.close(commands)
    os.close(answers)
    try:
        yield Browser(process, send, receive)
    finally:
        os.close(send)  # which ends the browser
        os.close(receive)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
