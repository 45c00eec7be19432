"""The status page, in a real browser: Debian's Chromium without a window.

    run.py [NAME...]        all cases, or the cases whose name contains a NAME

The jobs are scripted agents; tests/torch/status.py looks at the page of real ones. Accessibility is judged
by axe-core, of npm, at a fixed version; where npm does not reach it, that case is skipped.
"""

import functools
import http.client
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import scenes
import webdriver
from agents import Agent, rejoin

import cases
import servers
from c10d import Peer
from cases import case, check
from proxy import Proxy
from servers import free_port

AXE = "4.10.3"
JOIN_S = 1.0       # from a join to the page that shows it
UPDATE_MS = 100    # what a change among 10,000 nodes may take of the main thread, or as long as ROWS on a slow machine
ROWS = """
  const begin = performance.now(), box = document.createElement('div');
  for (let i = 0; i < 10000; i++)
    box.append(Object.assign(document.createElement('p'), {textContent: 'node ' + i}));
  document.body.append(box);
  box.getBoundingClientRect();
  box.remove();
  return performance.now() - begin;
"""
HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e&amp;'\"</script>"
WATCH_ERRORS = """
  window.refused = [];
  addEventListener('securitypolicyviolation', (e) => refused.push(e.effectiveDirective));
"""


class Rdzvd(servers.Rdzvd):
    """An rdzvd that must end with exit code 0, or be killed by the test."""

    def __exit__(self, *exc):
        code = self.process.poll() if self.process.poll() is not None else self.stop()
        if exc[0] is None:
            check(code in (0, -signal.SIGKILL), "rdzvd ended with %d:\n%s" % (code, self.log()))


class Window:
    """The browser of all cases: it starts once."""

    browser = None

    @classmethod
    def open(cls, url, width=1280, height=900, dark=False, phone=False):
        if cls.browser is None:
            cls.browser = webdriver.Browser()
            cls.browser.chrome("Page.addScriptToEvaluateOnNewDocument", source=WATCH_ERRORS)
        b = cls.browser
        b.open("about:blank")
        b.console()
        b.screen(width, height, dark, phone)
        b.open(url)
        return b

    @classmethod
    def close(cls):
        if cls.browser is not None:
            cls.browser.close()


def in_browser(function):
    """A case that is skipped where there is no browser."""
    @functools.wraps(function)
    def run():
        return webdriver.missing() or function()
    return case(run)


def request(port, method="GET", path="/", **headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r, body


def three_of_four(server, run="job"):
    """A complete round of three; the agents, by name."""
    agents = {name: Agent(server.port, run, name + ".train", pid=40 + i) for i, name in enumerate("abc")}
    agents["a"].join()
    agents["b"].join()
    agents["c"].join(complete=True)
    return agents


def is_quiet(b):
    errors = b.console()
    check(not errors, "the console has %s" % errors)
    check(b.run("return refused") == [], "the policy refused %s" % b.run("return refused"))


# ------------------------------------------------------------ what is sent


@case
def it_is_one_file_with_a_strict_policy():
    with Rdzvd() as server:
        r, page = request(server.port)
        policy = r.getheader("Content-Security-Policy")
        check(r.status == 200 and r.getheader("Content-Type") == "text/html; charset=utf-8", r.status)
        check(re.fullmatch(r"default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; img-src data:; "
                           r"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'", policy), policy)
        check(r.getheader("X-Content-Type-Options") == "nosniff" and r.getheader("Referrer-Policy") == "no-referrer",
              r.getheaders())
        check(b"@CSS@" not in page and b"@JS@" not in page, "a part is missing")
        from_outside = re.findall(rb"(?:src|href)=[\"'](?!/|#|data:)[^\"']*|@import|url\(", page)
        check(not from_outside, "it names %s" % from_outside)


@case
def a_page_that_is_known_is_not_sent_again():
    with Rdzvd() as server:
        r, page = request(server.port)
        tag = r.getheader("ETag")
        for known in (tag, "W/" + tag, '"x", %s' % tag, "*"):
            r, body = request(server.port, If_None_Match=known)
            check(r.status == 304 and body == b"" and r.getheader("ETag") == tag, "%s: %d" % (known, r.status))
            check(r.getheader("Content-Length") is None, "a length of nothing is not that of the page")
        r, body = request(server.port, If_None_Match='"x"')
        check(r.status == 200 and body == page, r.status)
        r, body = request(server.port, "HEAD")
        check(r.status == 200 and body == b"" and int(r.getheader("Content-Length")) == len(page), r.status)
        r, _ = request(server.port, "POST")
        check(r.status == 405 and r.getheader("Allow") == "GET,HEAD", r.status)
        check(request(server.port, path="/x")[0].status == 404, "other pages are none")


# ------------------------------------------------------------ what is shown


@in_browser
def it_begins_with_how_to_begin():
    with Rdzvd() as server:
        b = Window.open(server.url)
        b.wait_text("No runs yet")
        check("--rdzv-endpoint=" in b.text(), b.text())
        b.wait_text("c10d per second")
        is_quiet(b)


@in_browser
def it_says_how_a_run_has_ended():
    with Rdzvd("--closed-run-ttl=100ms") as server:
        b = Window.open(server.url)
        b.wait_text("No runs yet")
        for agent in three_of_four(server).values():
            agent.close()
        b.wait_text("All agents have left the run. It goes on if agents come back.")
        check(b.run("return document.querySelector('.run').className") == "run calm open", "a left run is no trouble")
        last = Agent(server.port, HOSTILE, "x")
        last.join()
        last.close_run()
        last.close()
        b.wait_text("closed the run")
        check(HOSTILE in b.text() and "Closed" in b.text(), b.text())
        check(b.run("return document.querySelectorAll('img, script').length") == 1, "a name has become an element")
        is_quiet(b)


@in_browser
def it_names_who_is_missing():
    with Rdzvd("--expect=4") as server:
        agents = three_of_four(server)
        b = Window.open(server.url)
        b.wait_text("3 of 4 nodes are here. 1 node is missing; rdzvd has not seen it yet.")
        agents["c"].close()
        b.wait_text("2 of 4 nodes are here. 2 nodes are missing: c.train (pid 42) \u2014 its connection ended")
        labels = b.run("return [...document.querySelectorAll('[role=option]')].map((e) => e.getAttribute('aria-label'))")
        check(labels == ["rank 0, a.train (pid 40), participant", "rank 1, b.train (pid 41), participant",
                         "rank 2, c.train (pid 42), missing, its connection ended", "node 4, not seen yet"], labels)
        check("c.train (pid 42) was lost: its connection ended" in b.text(), b.text())  # the time line
        is_quiet(b)


@in_browser
def it_names_who_is_gone_when_the_others_go_on():
    with tempfile.TemporaryDirectory() as folder:
        data = "--data-dir=" + os.path.join(folder, "data")
        with Rdzvd(data) as server:
            agents = three_of_four(server)
            b = Window.open(server.url)
            agents["c"].close()
            b.wait_text("1 node is missing: c.train (pid 42)")
            agents["a"].read()
            agents["a"].leave()
            rejoin([agents["a"], agents["b"]])
            b.wait_text("2 nodes are here. 1 node is absent: c.train (pid 42) \u2014 its connection ended")
            check("The run goes on without it." in b.text() and "is missing" not in b.text(), b.text())
            rows = b.run("return [...document.querySelectorAll('[aria-label=\"Absent nodes\"] tbody td')]"
                         ".map((e) => e.textContent)")
            check(rows[:4] == ["c.train", "42", "2", "its connection ended"] and len(rows) == 6, rows)
            check("Rounds are known since" not in b.text(), b.text())
            is_quiet(b)
        with Rdzvd(data) as server:
            b = Window.open(server.url)
            b.wait_text("Rounds are known since")  # and not those from before the start
            is_quiet(b)


@in_browser
def it_says_who_waits_for_which_key():
    with Rdzvd() as server:
        agents = three_of_four(server)
        peer = scenes.Peer(server.port)
        peer.wait(b"who/writes/this")
        agents["a"].wait(scenes.run_key("job", "agents/wait/for/this"))
        b = Window.open(server.url)
        b.wait_text("who/writes/this")
        b.wait_text("agents/wait/for/this")
        b.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        check(peer.name in b.text() and "a.train (pid 40), rank 0" in b.text(), b.text())
        is_quiet(b)


@in_browser
def earlier_rounds_are_shown_when_they_are_asked_for():
    with Rdzvd() as server:
        agents = three_of_four(server)
        for _ in range(7):
            agents["a"].leave()
            for name in "abc":
                agents[name].read()
                agents[name].join(complete=name == "c")
        b = Window.open(server.url)
        b.wait_text("Show earlier rounds")
        rounds = "return [...document.querySelectorAll('.rounds b')].map((e) => e.textContent)"
        check(b.run(rounds) == ["Round %d" % i for i in (7, 6, 5, 4, 3)], b.run(rounds))
        b.run("document.querySelector('.plain').click()")
        b.wait_text("Round 0")
        check(b.run(rounds) == ["Round %d" % i for i in range(7, -1, -1)], b.run(rounds))
        is_quiet(b)


@in_browser
def a_join_shows_within_a_second():
    with Rdzvd() as server:
        first = Agent(server.port, "job", "first.train", pid=1)
        first.join()
        b = Window.open(server.url)
        b.wait_text("1 node is here")
        took, agents = [], []
        for i in range(2, 7):
            agents.append(Agent(server.port, "job", "node-%d.train" % i, pid=i))
            began = time.monotonic()
            agents[-1].join()
            b.wait_text("node-%d.train" % i)
            took.append(time.monotonic() - began)
        check(min(took) < JOIN_S, "a join took %s s" % ", ".join("%.2f" % t for t in took))
        print("  joins were shown after %s s" % ", ".join("%.2f" % t for t in took))
        is_quiet(b)


@in_browser
def names_are_text_and_no_markup():
    with Rdzvd() as server:
        agent = Agent(server.port, HOSTILE, HOSTILE, pid=1)
        agent.join()
        lost = Agent(server.port, HOSTILE, "x" + HOSTILE, pid=2)
        lost.join(complete=True)
        agent.wait(scenes.run_key(HOSTILE, HOSTILE))
        scenes.Peer(server.port).wait(HOSTILE.encode())
        lost.close()
        b = Window.open(server.url)
        b.wait_text("is missing")
        check(b.run("return document.querySelectorAll('img, script').length") == 1, "a name has become an element")
        check(b.run("return document.title") == "rdzv status", "a name was run")
        check(b.run("return document.querySelector('.fold').textContent") == HOSTILE, "the name is another one")
        is_quiet(b)


@in_browser
def the_policy_holds():
    with Rdzvd() as server:
        b = Window.open(server.url)
        b.wait_text("No runs yet")
        b.run("""
          const s = document.createElement('script');
          s.textContent = "document.title = 'owned'";
          document.body.append(s);
          document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="document.title=\\'owned\\'"><p style="color: red">');
          const t = document.createElement('style');
          t.textContent = 'body { display: none }';
          document.head.append(t);""")
        outside = b.run_async("fetch('http://127.0.0.1:1/').then(() => arguments[0]('answered'), () => arguments[0]('refused'))")
        refused = set(b.wait("return refused.length >= 5 && refused"))
        check(b.run("return document.title") == "rdzv status" and outside == "refused", "it ran")
        check(refused == {"script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr", "img-src",
                          "connect-src"} - ({"script-src-attr"} - refused), refused)
        b.console()


# ------------------------------------------------------------ with the keyboard, and read aloud


@in_browser
def everything_is_within_reach_of_the_keyboard():
    with Rdzvd("--expect=4") as server:
        agents = three_of_four(server)
        b = Window.open(server.url)
        b.wait_text("b.train")
        b.press("Tab")
        check(b.focused() == "Skip to the runs", b.focused())
        b.press("Enter", "Tab")
        check(b.focused() == "job", "behind the skip link is the run, and not %s" % b.focused())
        b.press("Enter")
        check(b.run("return document.querySelector('.body').hidden"), "Enter closes the card")
        b.press("Enter", "Tab")
        check(b.focused() == "rank 0, a.train (pid 40), participant", b.focused())
        b.press("ArrowRight")
        check(b.focused() == "rank 1, b.train (pid 41), participant", b.focused())
        b.wait_text("Rank 1: participant, b.train (pid 41) from " + agents["b"].name)
        b.press("End")
        check(b.focused() == "node 4, not seen yet", b.focused())
        b.press("Home")
        agents["c"].close()  # the focus stays while the page changes
        b.wait_text("its connection ended")
        check(b.focused() == "rank 0, a.train (pid 40), participant", b.focused())
        check(b.run("return document.querySelectorAll('[role=option][tabindex=\"0\"]').length") == 1, "one stop of Tab")
        b.press("/")
        check(b.focused() == "query", b.focused())
        is_quiet(b)


@in_browser
def what_changes_is_read_aloud_and_not_too_much():
    with Rdzvd() as server:
        agents = three_of_four(server)
        others = [Agent(server.port, "other-%d" % i, "host", pid=1) for i in range(8)]
        for other in others:
            other.join()
        b = Window.open(server.url)
        b.wait_text("other-7")
        check(b.run("return document.getElementById('news').textContent") == "", "nothing has changed yet")
        agents["c"].close()
        b.wait("return document.getElementById('news').textContent.includes("
               "'Run job: Complete, round 0, 2 nodes here, 1 missing: c.train')")
        for i, other in enumerate(others):
            Agent(server.port, "other-%d" % i, "late", pid=2).join()
        b.wait("return /And \\d+ runs? more changed/.test(document.getElementById('news').textContent)")
        check(b.run("return document.getElementById('news').textContent.length") < 400, "that is too long to listen to")


def axe():
    """The program's text; None: npm does not reach it."""
    folder = os.path.join(os.environ.get("RDZV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdzv"), "axe-core-" + AXE)
    path = os.path.join(folder, "axe.min.js")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory() as work:
            try:
                subprocess.run(["npm", "pack", "--silent", "axe-core@" + AXE], cwd=work, check=True, timeout=120,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            except (OSError, subprocess.SubprocessError):
                return None
            with tarfile.open(os.path.join(work, "axe-core-%s.tgz" % AXE)) as pack:
                text = pack.extractfile("package/axe.min.js").read()
        os.makedirs(folder, exist_ok=True)
        with open(path + ".new", "wb") as f:
            f.write(text)
        os.rename(path + ".new", path)
    with open(path, encoding="utf-8") as f:
        return f.read()


def judge(b, program, where):
    b.run(program)
    found = b.run_async("""
      const done = arguments[arguments.length - 1];
      axe.run(document).then((r) => done(r.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.target + ': ' +
        n.any.concat(n.all, n.none).map((c) => c.message).join('; '))])), (e) => done([['critical', String(e), []]]));""")
    check(not found, "%s: axe finds %s" % (where, str(found)[:3000]))


@in_browser
def axe_finds_nothing_in_two_spaces():
    program = axe()
    if program is None:
        return "npm has no axe-core@%s for us" % AXE
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rdzvd.sock")
        with Rdzvd("--listen=unix:" + path, listen=("127.0.0.1:0", "127.0.0.1:0/team-b")) as server:
            clients = [Peer(port) for port in server.ports]
            for client in clients:
                client.wait(b"key")
            with Proxy(path) as forward:
                b = Window.open("http://127.0.0.1:%d" % forward.port)
                b.wait("return document.querySelectorAll('[aria-label^=\"Clients of no run\"]:not([hidden])').length === 2")
                judge(b, program, "two spaces")


@in_browser
def axe_finds_nothing():
    program = axe()
    if program is None:
        return "npm has no axe-core@%s for us" % AXE
    for size in ({}, {"width": 390, "height": 844, "phone": True}):
        for dark in (False, True):
            where = "%s, %s" % ("phone" if size else "desktop", "dark" if dark else "light")
            with Rdzvd("--expect=4") as server:
                b = Window.open(server.url, dark=dark, **size)
                b.wait_text("No runs yet")
                judge(b, program, where + ", empty")
                agents = three_of_four(server)
                agents["a"].wait(scenes.run_key("job", "some/key"))
                agents["c"].close()
                three_of_four(server, "other")["c"].close()
                crowd = scenes.Crowd(server.port, "crowd", 600)
                b.wait_text("its connection ended")
                b.wait("return document.querySelectorAll('[aria-label=\"Missing nodes\"]').length === 2")
                b.wait_text("some/key")
                b.wait("return document.querySelector('[role=slider]') !== null")
                b.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                b.press("Tab", "Enter", "Tab", "Tab", "ArrowRight")
                judge(b, program, where)
                crowd.close()
                server.stop(signal.SIGKILL)
                b.wait_text("Not connected since")
                judge(b, program, where + ", not connected")


# ------------------------------------------------------------ many


@in_browser
def ten_thousand_nodes_stay_smooth():
    with Rdzvd() as server:
        crowd = scenes.Crowd(server.port, "crowd", 10000)
        b = Window.open(server.url)
        b.wait_text("10,000 participants")
        lefts = b.run("return [...document.querySelector('.legend').parentNode.children].slice(0, 2)"
                      ".map((e) => e.getBoundingClientRect().left)")
        check(lefts[0] == lefts[1], "the legend is not below its title: %s" % lefts)
        b.chrome("Performance.enable")

        def spent():
            return {m["name"]: m["value"] for m in b.chrome("Performance.getMetrics")["metrics"]}["TaskDuration"]

        took, rows = [], []
        for i in range(6):
            before = spent()
            crowd.change(wait=[10000 + i])
            b.wait_text("%d waiting" % (i + 1))
            took.append((spent() - before) * 1000)
            rows.append(b.run(ROWS))
        told = "a change took %s ms of the main thread, 10,000 rows %s ms" % tuple(
            ", ".join("%.0f" % t for t in times) for times in (took, rows))
        check(min(took) < max(UPDATE_MS, min(rows)), told)
        print("  " + told)
        b.run("document.querySelector('[role=slider]').focus()")
        b.press("ArrowRight", "ArrowRight")
        b.wait("return document.querySelector('[role=slider]').getAttribute('aria-valuetext').startsWith("
               "'rank 2, node-0002.train (pid 4002), ')")
        b.press("End")
        check(b.run("return document.querySelector('[role=slider]').getAttribute('aria-valuenow')") == "10006", "the last one")
        is_quiet(b)


@in_browser
def operators_find_runs_of_all_spaces():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rdzvd.sock")
        with Rdzvd("--listen=unix:" + path, listen=("127.0.0.1:0", "127.0.0.1:0/team-b")) as server:
            own = Agent(server.port, "job", "a.train", pid=1)
            own.join()
            other = Agent(server.ports[1], "job", "b.train", pid=2)
            other.join()
            b = Window.open(server.url)
            b.wait_text("a.train")
            check("team-b" not in b.text() and "b.train" not in b.text(), "a listener shows its own space alone")
            b = Window.open("http://127.0.0.1:%d" % server.ports[1])
            b.wait_text("Open waits")  # of the first event of counters
            check("b.train" in b.text() and "per second" not in b.text(), "what is asked for elsewhere is counted here")
            with Proxy(path) as forward:  # as `ssh -L PORT:SOCKET` makes one
                b = Window.open("http://127.0.0.1:%d/#run=job&space=team-b" % forward.port)
                b.wait_text("Space team-b")
                b.wait_text("b.train")
                check(b.focused() == "job" and "a.train" not in b.text(), "the link opens one run")
                b.press("/", "a", ".", "t", "r")
                b.wait_text("1 of 2 runs matches \u201ca.tr\u201d")
                check(b.run("return [...document.querySelectorAll('.run:not([hidden])')].length") == 1, b.text())
                is_quiet(b)


# ------------------------------------------------------------ without a connection


@in_browser
def it_says_since_when_there_is_no_connection_and_comes_back():
    port = free_port()
    address = "127.0.0.1:%d" % port
    with Rdzvd("--expect=4", listen=(address,)) as server:
        agents = three_of_four(server)
        b = Window.open(server.url)
        b.wait_text("3 of 4 nodes are here")
        is_quiet(b)
        server.stop(signal.SIGKILL)
    b.wait_text("Not connected since")
    since = b.run("return document.getElementById('link-text').textContent")
    check(re.fullmatch(r"Not connected since \d\d:\d\d:\d\d", since), since)
    check("3 of 4 nodes are here" in b.text(), "what was known stays")
    del agents
    with Rdzvd(listen=(address,)):
        b.wait_text("No runs yet")
        check(b.run("return document.getElementById('link-text').textContent") == "Live", b.text())
        check(b.run("return document.getElementById('offline').hidden"), b.text())
        b.wait("return document.getElementById('news').textContent === 'Connected again'")


@in_browser
def a_relay_says_that_it_is_one():
    port = free_port()
    store = Rdzvd(listen=("127.0.0.1:%d" % port,))
    with Rdzvd("--upstream=127.0.0.1:%d" % port) as relay:
        try:
            agent = Agent(relay.port, "job", "a.train", pid=1)
            agent.join()
            b = Window.open(relay.url)
            b.wait_text("You are at a relay, which is connected to ")
            b.wait_text("a.train")
            is_quiet(b)
            store.stop(signal.SIGKILL)
            b.wait_text("Not connected since")
            b.wait_text("You are at a relay, which is waiting for its store")
            b = Window.open(relay.url)  # it opens without the store
            b.wait_text("Not connected")
            b.wait_text("You are at a relay")
        finally:
            store.stop(signal.SIGKILL)


if __name__ == "__main__":
    try:
        result = cases.run("tests/page/run.py")
    finally:
        Window.close()
    sys.exit(result)
