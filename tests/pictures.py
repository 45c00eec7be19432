#!/usr/bin/env python3
"""Draws the pictures of the documents: SVG files that follow the reader's light or dark scheme.

  tests/pictures.py               compares the files with what this script draws; exit code 1 if one differs
  tests/pictures.py --update      writes the files
  tests/pictures.py --look DIR    writes both schemes of each picture as SVG and PNG to DIR, for a person to look at;
                                  needs rsvg-convert (package librsvg2-bin)

A picture fails here if a text leaves its box or the picture, or if two texts overlap. Widths of texts are estimated
for the widest common font, so the browser's own font fits as well.
"""

import argparse
import html
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZE, SMALL = 14, 12  # pixels of the two texts
EM = 0.60  # the width of a character of DejaVu Sans, the widest of the fonts below
COLOURS = {  # class: (light, dark)
    "paper": ("#ffffff", "#0d1117"), "edge": ("#d0d7de", "#30363d"), "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"), "line": ("#59636e", "#9198a1"), "plain": ("#f6f8fa", "#161b22"),
    "rdzvd": ("#ddf4ff", "#0c2d4d"), "rdzvd-edge": ("#0969da", "#4493f8"), "torch": ("#fff1e5", "#3d1f0a"),
    "torch-edge": ("#bc4c00", "#f0883e"), "disk": ("#dafbe1", "#0f2f1a"), "disk-edge": ("#1a7f37", "#3fb950"),
    "bad": ("#d1242f", "#f85149"),
}


def style(scheme):
    rules = {"paper": "fill:%s", "plain": "fill:%s", "ink": "fill:%s", "soft": "fill:%s", "bad": "fill:%s",
             "line": "stroke:%s;fill:none", "head": "fill:%s"}
    out = []
    for name, rule in rules.items():
        out.append(".%s{%s}" % (name, rule % COLOURS["line" if name == "head" else name][scheme]))
    for name in ("plain", "rdzvd", "torch", "disk"):
        edge = COLOURS["edge" if name == "plain" else name + "-edge"][scheme]
        out.append(".b-%s{fill:%s;stroke:%s}" % (name, COLOURS[name][scheme], edge))
    out.append(".b-paper{fill:%s;stroke:%s}" % (COLOURS["paper"][scheme], COLOURS["edge"][scheme]))
    out.append(".cross{stroke:%s;stroke-width:3}" % COLOURS["bad"][scheme])
    return "".join(out)


class Picture:
    def __init__(self, title, width, height):
        self.title, self.width, self.height = title, width, height
        self.parts, self.texts = [], []
        self.parts.append('<rect class="b-paper" x="0.5" y="0.5" width="%g" height="%g" rx="6"/>' % (
            width - 1, height - 1))

    def text(self, x, y, words, size=SIZE, kind="ink", anchor="middle", bold=False, room=None):
        """`y` is the base line; `room`: (left, right) that the text must keep to."""
        wide = len(words) * size * (EM + 0.05 * bold)
        left = {"middle": x - wide / 2, "start": x, "end": x - wide}[anchor]
        room = room or (4, self.width - 4)
        assert room[0] <= left and left + wide <= room[1], "%s: %r needs %d, %r has %d" % (
            self.title, words, wide, room, room[1] - room[0])
        box = (left, y - 0.8 * size, left + wide, y + 0.25 * size)
        assert box[1] >= 0 and box[3] <= self.height, "%s: %r is above or below the picture" % (self.title, words)
        for other, its in self.texts:
            apart = box[2] <= its[0] or its[2] <= box[0] or box[3] <= its[1] or its[3] <= box[1]
            assert apart, "%s: %r lies on %r" % (self.title, words, other)
        self.texts.append((words, box))
        self.parts.append('<text class="%s" x="%g" y="%g" font-size="%d" text-anchor="%s"%s>%s</text>' % (
            kind, x, y, size, anchor, ' font-weight="bold"' if bold else "", html.escape(words, quote=False)))

    def box(self, x, y, width, height, name, lines=(), kind="plain", at_top=False):
        """A box with a bold name and small lines below it."""
        self.parts.append('<rect class="b-%s" x="%g" y="%g" width="%g" height="%g" rx="5"/>' % (
            kind, x, y, width, height))
        high = SIZE * 1.2 + len(lines) * SMALL * 1.4
        base = y + (8 if at_top else (height - high) / 2) + SIZE
        room = (x + 3, x + width - 3)
        self.text(x + width / 2, base, name, bold=True, room=room)
        for i, line in enumerate(lines):
            self.text(x + width / 2, base + (i + 1) * SMALL * 1.4 + 1, line, SMALL, "soft", room=room)

    def arrow(self, *points, both=False, dashed=False):
        """A line through these points, with a head at its end."""
        self.parts.append('<polyline class="line" points="%s" stroke-width="1.5"%s marker-end="url(#head)"%s/>' % (
            " ".join("%g,%g" % p for p in points), ' stroke-dasharray="5 4"' if dashed else "",
            ' marker-start="url(#head)"' if both else ""))

    def cross(self, x, y):
        for dx in (-7, 7):
            self.parts.append('<line class="cross" x1="%g" y1="%g" x2="%g" y2="%g"/>' % (x - dx, y - 7, x + dx, y + 7))

    def svg(self, scheme=None):
        """`scheme` 0 or 1: that one only, for looking at it."""
        if scheme is None:
            css = style(0) + "@media (prefers-color-scheme:dark){%s}" % style(1)
        else:
            css = style(scheme)
        return "\n".join([
            '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"' % (
                self.width, self.height, self.width, self.height),
            ' font-family="-apple-system,Segoe UI,Helvetica,Arial,DejaVu Sans,sans-serif">',
            "<title>%s</title>" % html.escape(self.title), "<style>%s</style>" % css,
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path class="head" d="M0 0L10 5L0 10z"/></marker></defs>',
            *self.parts, "</svg>", ""])


class Sequence(Picture):
    """Columns, and what passes between them, from top to bottom."""

    ROW = 36

    def __init__(self, title, width, columns, rows):
        """`columns`: (name, kind, x of its middle)."""
        super().__init__(title, width, 62 + rows * self.ROW)
        self.at, self.middle = 62, {}
        for name, kind, x in columns:
            self.middle[name] = x
            self.parts.append('<line class="line" x1="%g" y1="46" x2="%g" y2="%g" stroke-dasharray="2 4"/>' % (
                x, x, self.height - 12))
            wide = max(84, len(name) * SIZE * 0.65 + 16)
            self.box(x - wide / 2, 14, wide, 32, name, kind=kind)

    def message(self, start, end, words, dashed=False):
        a, b = self.middle[start], self.middle[end]
        y = self.at + 20
        self.label((a + b) / 2, y - 5, words, (min(a, b) + 2, max(a, b) - 2))
        self.arrow((a, y), (b, y), dashed=dashed)
        self.at += self.ROW

    def label(self, x, y, words, room):
        wide = len(words) * SMALL * EM
        self.parts.append('<rect class="paper" x="%g" y="%g" width="%g" height="%g"/>' % (
            x - wide / 2, y - SMALL, wide, SMALL + 3))
        self.text(x, y, words, SMALL, room=room)

    def note(self, start, end, words, kind="plain"):
        """A box across these columns."""
        a, b = self.middle[start], self.middle[end]
        wide = max(abs(b - a) + 60, len(words) * SMALL * EM + 16)
        left = min(max(6, (a + b) / 2 - wide / 2), self.width - 6 - wide)
        self.parts.append('<rect class="b-%s" x="%g" y="%g" width="%g" height="24" rx="4"/>' % (
            kind, left, self.at + 4, wide))
        self.text(left + wide / 2, self.at + 20, words, SMALL, room=(left + 2, left + wide - 2))
        self.at += self.ROW

    def killed(self, name, words):
        x, y = self.middle[name], self.at + 16
        self.cross(x, y)
        self.text(x + 16, y + 4, words, SMALL, "bad", anchor="start")
        self.at += self.ROW


# ------------------------------------------------------------ the pictures


def roles():
    p = Picture("Roles and ports: agents, relays, a store, and programs that ask it", 860, 410)
    for y in (20, 150):
        p.box(20, y, 380, 110, "machine or pod", kind="plain", at_top=True)
        p.box(36, y + 38, 150, 58, "torchrun", ["agent and workers"], "torch")
        p.box(264, y + 38, 120, 58, "relay", ["localhost:29400"], "rdzvd")
        p.arrow((186, y + 67), (264, y + 67))
        p.text(225, y + 60, "c10d", SMALL, "soft")
        p.arrow((384, y + 67), (480, y + 67), (560, 172 if y == 20 else 200))
        p.text(440, y + 60, "link", SMALL, "soft")
    p.box(20, 280, 380, 110, "machine or pod without a relay", kind="plain", at_top=True)
    p.box(36, 318, 150, 58, "torchrun", ["agent and workers"], "torch")
    p.arrow((186, 347), (480, 347), (560, 226))
    p.text(333, 340, "c10d or etcd v2", SMALL, "soft")
    p.box(560, 150, 150, 98, "store", ["rdzvd, one port", "TCP 29400", "for many jobs"], "rdzvd")
    p.box(560, 20, 280, 76, "rdzvctl, browser, Prometheus", ["HTTP, the same port"], "plain")
    p.arrow((635, 96), (635, 150))
    p.box(560, 322, 130, 68, "directory", ["--data-dir", "no port"], "disk")
    p.arrow((610, 248), (610, 322), both=True)
    p.box(710, 322, 130, 68, "etcd v3", ["--journal", "TCP 2379"], "disk")
    p.arrow((680, 248), (740, 322), both=True)
    p.text(675, 312, "or", SMALL, "soft")
    return p


def request():
    p = Picture("The way of a request: one iteration of the event loop", 860, 330)
    top = [("socket", ["bytes of a client"], "plain"),
           ("net/", ["TLS,", "which protocol"], "rdzvd"),
           ("c10d/, http/", ["parse a whole", "request"], "rdzvd"),
           ("store/", ["admit or refuse", "the command"], "rdzvd")]
    for i, (name, lines, kind) in enumerate(top):
        p.box(20 + i * 215, 50, 165, 76, name, lines, kind)
        if i:
            p.arrow((20 + i * 215 - 50, 88), (20 + i * 215, 88))
    bottom = [("socket", ["one send for many", "answers"], "plain"),
              ("answers", ["leave after", "the journal"], "rdzvd"),
              ("journal", ["disk or etcd", "keeps changes"], "disk"),
              ("changes", ["apply; wake waits;", "rendezvous/ sees"], "rdzvd")]
    for i, (name, lines, kind) in enumerate(bottom):
        p.box(20 + i * 215, 210, 165, 76, name, lines, kind)
        if i:
            p.arrow((20 + i * 215, 248), (20 + i * 215 - 50, 248))
    p.arrow((747, 126), (747, 210))
    p.text(737, 172, "only if admitted: cannot fail", SMALL, "soft", anchor="end")
    p.arrow((690, 126), (690, 142), (102, 142), (102, 210), dashed=True)
    p.text(114, 172, "a refusal is an answer as well", SMALL, "soft", anchor="start")
    p.text(430, 30, "one thread, one iteration: many requests, one commit", SMALL, "soft")
    p.text(430, 315, "no step waits: slow requests and long answers continue in the next iteration", SMALL, "soft")
    return p


def a_round():
    p = Sequence("A round, from join to ranks", 860,
                 [("agent A", "torch", 90), ("agent B", "torch", 300), ("rdzvd", "rdzvd", 590),
                  ("agent C", "torch", 780)], 15)
    p.message("agent A", "rdzvd", "COMPARE_SET: A joins")
    p.note("rdzvd", "rdzvd", "MIN nodes: last call", "rdzvd")
    p.message("agent B", "rdzvd", "COMPARE_SET: B joins")
    p.note("rdzvd", "rdzvd", "every agent has joined: round complete", "rdzvd")
    p.message("rdzvd", "agent B", "B has rank 1")
    p.message("rdzvd", "agent A", "A has rank 0")
    p.message("agent A", "rdzvd", "SET and GET of MASTER_ADDR")
    p.message("rdzvd", "agent A", "rdzvd's own address: the worker store of this round")
    p.note("agent A", "agent B", "workers start and train", "torch")
    p.message("agent B", "rdzvd", "each second: GET; each 5 s: heartbeat", dashed=True)
    p.message("agent C", "rdzvd", "C waits")
    p.note("rdzvd", "rdzvd", "holds each GET until all agents have sent one", "rdzvd")
    p.message("rdzvd", "agent B", "a node waits")
    p.message("rdzvd", "agent A", "a node waits, at the same moment")
    p.note("agent A", "agent B", "both end their workers; the next round begins", "torch")
    return p


def restart():
    p = Sequence("A relay over a restart of its store", 860,
                 [("agent", "torch", 90), ("relay", "rdzvd", 330), ("store", "rdzvd", 590),
                  ("directory", "disk", 780)], 14)
    p.message("agent", "relay", "ADD")
    p.message("relay", "store", "ADD, number 7")
    p.message("store", "directory", "write")
    p.message("store", "relay", "answer to 7")
    p.message("relay", "agent", "answer")
    p.killed("store", "killed, or moved")
    p.message("agent", "relay", "ADD; the connection stays")
    p.note("relay", "relay", "keeps number 8; connects after 50 ms to 1 s", "rdzvd")
    p.message("directory", "store", "keys, sessions", dashed=True)
    p.message("relay", "store", "8 is without an answer")
    p.note("store", "store", "executes 8, if it has not yet", "rdzvd")
    p.message("store", "directory", "write")
    p.message("store", "relay", "answer to 8")
    p.message("relay", "agent", "answer")
    return p


def replicas():
    p = Picture("Replicas on an etcd v3 cluster", 860, 400)
    p.box(20, 40, 170, 76, "relay", ["--upstream=A,B,C", "goes to the leader"], "rdzvd")
    p.box(20, 230, 170, 76, "other clients", ["at any replica", "with --upstream"], "plain")
    follows = ["follows:", "reads the log"]
    for i, lines in enumerate([["leads: answers", "holds the lease"], follows, follows]):
        p.box(340, 30 + 110 * i, 170, 86, "replica " + "ABC"[i], lines, "rdzvd")
    p.arrow((190, 66), (340, 66))
    p.text(265, 58, "link", SMALL, "soft")
    p.arrow((190, 262), (230, 262), (280, 190), (340, 190))
    p.text(205, 222, "HTTP, c10d", SMALL, "soft", anchor="end", room=(4, 300))
    p.arrow((400, 140), (400, 116))
    p.text(412, 133, "passes on", SMALL, "soft", anchor="start")
    p.box(660, 110, 170, 140, "etcd", ["three members", "lease: 5 s", "log of changes", "snapshot"], "disk")
    p.arrow((510, 66), (585, 66), (660, 140))
    p.text(585, 54, "writes", SMALL, "soft")
    p.arrow((660, 183), (510, 183))
    p.text(585, 176, "reads", SMALL, "soft")
    p.arrow((660, 220), (585, 293), (510, 293))
    p.text(560, 312, "reads", SMALL, "soft")
    p.text(430, 362, "The leader dies: its lease ends after 5 s, B or C leads, and relays connect to it.", SMALL)
    p.text(430, 382, "The leader gets SIGTERM: it gives the lease back, and the next one leads at once.", SMALL)
    return p


PICTURES = {"rdzv/roles.svg": roles, "rdzv/request.svg": request, "rdzv/rendezvous/round.svg": a_round,
            "rdzv/relay/restart.svg": restart, "rdzv/etcd3/replicas.svg": replicas}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--look", metavar="DIR")
    options = parser.parse_args()
    differ = 0
    for path, draw in PICTURES.items():
        picture, whole = draw(), os.path.join(ROOT, path)
        if options.look:
            for scheme, word in enumerate(("light", "dark")):
                name = os.path.join(options.look, "%s-%s" % (os.path.basename(path)[:-4], word))
                with open(name + ".svg", "w", encoding="utf-8") as f:
                    f.write(picture.svg(scheme))
                subprocess.run(["rsvg-convert", "-o", name + ".png", name + ".svg"], check=True)
        elif options.update:
            with open(whole, "w", encoding="utf-8") as f:
                f.write(picture.svg())
        elif not os.path.exists(whole) or open(whole, encoding="utf-8").read() != picture.svg():
            print("%s:1: differs from what tests/pictures.py draws: tests/pictures.py --update" % path)
            differ += 1
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
