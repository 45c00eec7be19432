"""Who is missing: /rdzv/v1/status of real elastic jobs, over c10d and etcd-v2.

    status.py [--torch NAME]... [--backend NAME]... [--tell] [--logs DIR]

Three of four expected agents come and train; the agent of rank 1 is lost, and a new agent replaces it and gets its rank. At
each step the status must name the missing nodes, and at the end the reason why the round ended. Where there is a browser, the status page
has to show the same. Over c10d, rdzvd must report how this job has ended, and how one whose join times out.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

import torches
from job import STOP, Job, JobFailed, out

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
sys.path.insert(0, os.path.join(torches.ROOT, "tests", "page"))
import webdriver  # noqa: E402
from servers import OPERATOR, Rdzvd, rdzvd_binary, token_flag  # noqa: E402


BACKENDS = ("c10d", "etcd-v2")  # those that the status shows


class SmallJob(Job):
    workers_per_agent = 1  # it is about agents


def status(server):
    request = urllib.request.Request("http://localhost:%d/rdzv/v1/status" % server.port,
                                     headers=OPERATOR)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


def run_of(server, job):
    """The job's run; None: there is none yet."""
    runs = [r for r in status(server)["spaces"][0]["runs"] if r["id"] == job.run_id]
    if len(runs) > 1:
        raise JobFailed("one run is shown as %d" % len(runs))
    return runs[0] if runs else None


def ended(server, job):
    """The report of the job's end."""
    reports = [r for r in status(server)["spaces"][0]["ended"] if r["id"] == job.run_id]
    if len(reports) != 1:
        raise JobFailed("the run has ended %d times: %s" % (len(reports), reports))
    return reports[0]


def wait_run(server, job, condition, what):
    """Polls the status of the run until `condition` accepts it."""
    while True:
        run = run_of(server, job)
        if run is not None and condition(run):
            return run
        if STOP.is_set() or time.monotonic() > job.deadline:
            raise JobFailed("the status never said that %s: %s" % (what, json.dumps(run, indent=1)))
        time.sleep(0.1)


def check(truth, what, run):
    if not truth:
        raise JobFailed("%s: %s" % (what, json.dumps(run, indent=1)))


def has_words(text, words):
    at = 0
    for word in words:
        at = text.find(word, at)
        if at < 0:
            return False
    return True


def rdzvctl_says(server, job, *words):
    """Waits until `rdzvctl status` prints these words of the job in this order. Between two rounds, it briefly also
    names nodes that have not joined again."""
    program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))),
                           "client", "rdzvctl")
    while True:
        done = subprocess.run([program, "-s", "localhost:%d" % server.port, "status", job.run_id],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == 1 and has_words(done.stdout, words):
            return
        if STOP.is_set() or time.monotonic() > job.deadline:
            raise JobFailed("rdzvctl, exit %d, never said %r: %s%s" % (
                done.returncode, words, done.stdout, done.stderr))
        time.sleep(0.1)


# Records every text of the page, since a text may have changed before the test reads it.
KEEP_SHOWN = """
  window.shown = [];
  new MutationObserver(() => shown.push(document.querySelector('main').textContent)).observe(
    document.querySelector('main'), {subtree: true, childList: true, characterData: true});
"""


def page_says(browser, *texts):
    """The status page shows these, or has shown them, without a word of complaint in its console."""
    if browser is None:
        return
    for text in texts:
        browser.wait("return shown.some((text) => text.includes(arguments[0]))", text)
    check(not browser.console(), "the page has errors", browser.text())


def names_agents(run, job, names):
    """The nodes that are there are these agents."""
    nodes = [n for n in run["nodes"] if n["role"] == "participant"]
    check(len(nodes) == len(names), "not %d nodes" % len(names), run)
    check(sorted(n["rank"] for n in nodes) == list(range(len(names))), "wrong ranks", run)
    check(all(n.get("peer", "").startswith("127.0.0.1:") and "since" in n for n in nodes),
          "a node without its peer, or since when", run)
    check({n["pid"] for n in nodes} == {job.agents[n].pid for n in names}, "wrong pids", run)


def names_lost(run, job, name):
    check(len(run["missing"]) == 1, "not one node is missing", run)
    lost = run["missing"][0]
    check(lost["pid"] == job.agents[name].pid, "the wrong one is missing", run)
    check(lost["why"] == ("disconnected" if job.backend == "c10d" else "silent"),
          "why is it missing?", run)
    check("since" in lost and lost["peer"].startswith("127.0.0.1:"), "when, and from where?", run)
    return lost


def scenario(server, job, browser, tell):
    for name in "abc":
        job.start_agent(name)
    run = wait_run(server, job, lambda r: r["state"] == "complete", "a round is complete")
    names_agents(run, job, "abc")
    check(run["expect"] == 4 and run["missing_count"] == 1 and run["missing"] == [],
          "one of four has not come", run)
    check(run["min"] == 3 and run["backend"] == job.backend, "min is 3", run)
    rdzvctl_says(server, job, "RUN " + job.run_id, "complete", "3 of 4 nodes", "MISSING: 1",
                 "1 node has not been seen yet", "HERE: ")
    page_says(browser, job.run_id, "3 of 4 nodes are here. 1 node is missing; rdzvd has not seen it yet.",
              *("pid %d" % job.agents[n].pid for n in "abc"))
    first = run["round"]
    job.wait_training(3)
    mark = job.mark()
    tell("3 of 4 train; the status says so")

    ranks = [job.agent_of(rank) for rank in range(3)]
    lost = ranks[1]
    job.kill_agent(lost)
    # The survivors' workers may fail: then they leave, and over etcd-v2 it may take 8 s until they are let wait.
    run = wait_run(server, job, lambda r: len(r["missing"]) == 1 and r["missing"][0]["why"] != "left" and
                   r["missing_count"] == 2, "a node is lost, and two of four are not there")
    gone = names_lost(run, job, lost)
    rdzvctl_says(server, job, "MISSING: 2", gone["addr"], gone["why"], gone["peer"],
                 "1 more has not been seen yet")
    page_says(browser, "2 nodes are missing: %s (pid %d)" % (gone["addr"], gone["pid"]))
    tell("lost agent %s; the status names %s, %s" % (lost, gone["addr"], gone["why"]))

    job.start_agent("d")
    job.wait_new_training(3, since=mark)
    run = wait_run(server, job, lambda r: r["state"] == "complete" and r["round"] > first,
                   "the next round is complete")
    names_agents(run, job, [n for n in "abcd" if n != lost])
    check(run["missing"] == [] and run["missing_count"] == 1, "three of four again", run)
    check([job.agent_of(rank) for rank in range(3)] == [ranks[0], "d", ranks[2]], "d has not the rank of %s" % lost, run)
    old = next(r for r in run["rounds"] if r["round"] == first)
    why = "(pid %d) was lost" % job.agents[lost].pid
    check(old["nodes"] == 3 and "ended" in old and why in old.get("why", ""),
          "why did the first round end?", run)
    tell("round %d ended: %s" % (first, old["why"]))
    page_says(browser, "3 of 4 nodes are here", old["why"])

    job.finish(3)
    run = run_of(server, job)
    check(run is None or run["state"] == "closed", "it has been closed", run)
    if job.backend == "c10d":
        report = ended(server, job)
        check((report["end"], report["nodes"], report["missing"]) == ("done", 3, []) and report["rounds"] > first + 1,
              "it has ended well", report)
        page_says(browser, "Runs that have ended in the last day", report["why"])
        tell("ended: %s" % report["why"])


class JobInVain(SmallJob):
    conf = ["join_timeout=5"]


def gives_up(server, job, tell):
    """One of two agents comes."""
    agent = job.start_agent("a")
    agent.killed = True  # it is to fail
    job.wait(lambda: agent.code is not None, "the end of the agent")
    with open(agent.log_path, encoding="utf-8", errors="replace") as f:
        if agent.code != 1 or "RendezvousTimeoutError" not in f.read():
            raise JobFailed("the agent has ended with %d" % agent.code)
    report = ended(server, job)
    match = re.fullmatch(r"the join of .* \(pid %d\) timed out after (\d+) s; nodes that had joined: 1" % agent.pid,
                         report["why"])
    check(report["end"] == "join_timeout" and match and 5 <= int(match.group(1)) <= 12, "its join timed out", report)
    check((report["rounds"], report["nodes"]) == (0, 0), "there was no round", report)
    tell("ended: %s" % report["why"])


def first_round(server, job, tell):
    """The first agent alone tells how many nodes there are to be; that costs its job nothing."""
    begin = time.monotonic()
    job.start_agent("a")
    run = wait_run(server, job, lambda r: "min" in r and "max" in r, "MIN and MAX are known")
    seen = {name: run.get(name) for name in ("min", "max", "participants", "round")}
    check(seen == {"min": 2, "max": 4, "participants": 1, "round": 0}, "2:4, of an agent that has joined", run)
    server.wait_log("event=size_known .*min=2 max=4")
    tell("the first agent has told MIN and MAX %.1f s after its start" % (time.monotonic() - begin))
    for name in "bcd":
        job.start_agent(name)
    job.wait_training(4)
    joined = [line for line in server.log().splitlines() if "event=node_joined" in line and "run=first" in line]
    check(len(joined) == 4, "each node has joined once: %s" % joined, run_of(server, job))
    job.finish(4)


def run_case(options, torch, backend):
    """True if it passed. Says so, or all that is known about the failure."""
    name = "torch %s %s" % (torch.name, backend)
    folder = tempfile.mkdtemp(prefix="rdzv-status-", dir=options.logs)
    begin, job, browser = time.monotonic(), None, None

    def tell(text):
        if options.tell:
            out("  [%s, %5.1f s] %s" % (backend, time.monotonic() - begin, text))

    try:
        with Rdzvd(token_flag(), "--expect=4") as server:
            job = SmallJob(torch, backend, server.port, folder, "status-" + backend, "3:4",
                           seconds=300, shares=backend == "c10d")
            try:
                browser = None if webdriver.missing() else webdriver.Browser()
                if browser is not None:
                    browser.open(server.url)
                    browser.run(KEEP_SHOWN)
                scenario(server, job, browser, tell)
                if backend == "c10d":
                    job = JobInVain(torch, backend, server.port, folder, "in-vain", "2:2", seconds=60, shares=True)
                    gives_up(server, job, tell)
                if backend == "c10d" and not torch.is_1x:
                    job = SmallJob(torch, backend, server.port, tempfile.mkdtemp(dir=folder), "first", "2:4", seconds=120,
                                   shares=True)
                    first_round(server, job, tell)
            finally:
                if browser is not None:
                    browser.close()
                job.end()
    except Exception as error:  # reported, counted, and the next one runs
        out("failed  %s (%.1f s): %s" % (name, time.monotonic() - begin, error))
        if not isinstance(error, JobFailed):
            out(traceback.format_exc())
        if job is not None:
            out(job.logs())
            out("---- server\n" + "\n".join(server.log().splitlines()[-100:]))
        return False
    out("passed  %s (%.1f s)" % (name, time.monotonic() - begin))
    shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--logs", help="a folder for the logs of what fails")
    options = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    if webdriver.missing():
        print("skip page: %s" % webdriver.missing())
    cases = [(torch, backend) for torch in torches.choose(options.torch)
             for backend in options.backend or BACKENDS]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda c: run_case(options, *c), cases))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
