"""A browser for tests: Debian's Chromium without a window, driven over the WebDriver protocol.

`chromedriver` (package chromium-driver) is an HTTP server. It takes W3C WebDriver commands, and commands of Chrome's
own protocol for the rest. Python's standard library only.
"""

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014",
        "ArrowDown": "\ue015", "Home": "\ue011", "End": "\ue010"}
TIMEOUT = 120  # seconds; a busy machine starts a browser slowly, and axe may take more than the protocol's 30


def missing():
    """Why there is no browser here; None: there is one."""
    lacks = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return "there is no %s (tests/support/install.sh browser)" % " and no ".join(lacks) if lacks else None


class BrowserError(AssertionError):
    pass


class Browser:
    """One window. Its console and its errors are kept from the start."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="rdzv-browser-")
        self.log = open(os.path.join(self.folder, "driver.log"), "w+", encoding="utf-8")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=self.log,
                                       stderr=subprocess.STDOUT)
        self.session = None
        try:
            self.port = self.wait_port()
            self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "timeouts": {"script": TIMEOUT * 1000}, "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": self.arguments()}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def arguments(self):
        args = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                "--force-color-profile=srgb", "--disable-background-networking", "--disable-extensions",
                "--user-data-dir=" + os.path.join(self.folder, "profile")]
        return args + ["--no-sandbox"] * (os.geteuid() == 0)  # Chromium's own rule for root

    def wait_port(self):
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.driver.poll() is None:
            with open(self.log.name, encoding="utf-8") as f:
                found = re.search(r"started successfully on port (\d+)", f.read())
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        with open(self.log.name, encoding="utf-8") as f:
            raise BrowserError("chromedriver did not start:\n" + f.read())

    def call(self, method, path, body=None):
        prefix = "/session/" + self.session if self.session else ""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request(method, prefix + path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            value = json.load(connection.getresponse())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise BrowserError("%s %s: %s: %s" % (method, path, value["error"], value["message"].splitlines()[0]))
        return value

    def close(self):
        try:
            if self.session is not None:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- What tests say. ---

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        """The value of `return …` in a script."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def run_async(self, script, *args):
        """The same of a script that calls its last argument with the value."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(args)})

    def chrome(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def wait(self, script, *args, timeout=60):
        """The first value of the script that is true."""
        deadline = time.monotonic() + timeout
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > deadline:
                raise BrowserError("never true: %s %s; the page says: %s" % (script, args, self.text()))
            time.sleep(0.02)

    def wait_text(self, text, timeout=60):
        self.wait("return document.body.innerText.includes(arguments[0])", text, timeout=timeout)

    def text(self):
        return self.run("return document.body.innerText")

    def press(self, *names):
        for name in names:
            key = KEYS.get(name, name)
            self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
                {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def focused(self):
        """The accessible name, or the text, of what has the focus."""
        return self.run("const e = document.activeElement; return (e.getAttribute('aria-label') || e.innerText || "
                        "e.id || e.tagName).trim()")

    def console(self):
        """What the console has got since the last call, as texts: errors and warnings."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return ["%s: %s" % (e["level"], e["message"]) for e in entries if e["level"] in ("SEVERE", "WARNING")]

    def screen(self, width, height, dark=False, phone=False):
        self.chrome("Emulation.setDeviceMetricsOverride", width=width, height=height,
                    deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.chrome("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path, whole=True):
        data = self.chrome("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
