"""Is a history linearizable? Wing and Gong's search as Lowe made it fast: it takes one operation
after the other of those that may come next, and never looks at the same state of the clients and
the model twice.

Why a search of our own: porcupine, the well-kept one, is no package of Debian bookworm, and
neither Debian nor PyPI has another; Knossos and lincheck want a JVM. It is porcupine's algorithm with
three additions that this history needs: a connection's requests stay in order (requests without an answer
are sent ahead of others); of a connection that ended, the requests without an answer took effect up to
some one of them; and a wait begins and ends at two moments.

Sound by construction: whatever the search leaves out is only a matter of speed (`reads` below).
"""

import sys

INFINITE = sys.maxsize
LATE = 50000000  # an answer that takes longer says little about when its request had its effect


class Step:
    """One moment at which a request takes effect: some time in [call, ret].

    `guess`: when it probably came; those that came first are tried first. `reads`: its answer alone says
    that it changes nothing, so where it fits, it may be taken at once. `data` is the model's."""

    __slots__ = ("call", "ret", "reads", "data", "guess")

    def __init__(self, call, ret, reads, data, guess=None):
        self.call, self.ret, self.reads, self.data = call, ret, reads, data
        self.guess = guess or call + (min(ret, call + LATE) - call) // 2

    def __repr__(self):
        return "%s at %.6f..%s" % (self.data, self.call / 1e9,
                                   "?" if self.ret == INFINITE else "%.6f" % (self.ret / 1e9))


class Client:
    """The steps of one connection, in order. From the step `sure` on, the outcome of the requests is
    unknown: the first few of these requests (perhaps none, perhaps all) took effect before `ended`. Then
    `gone`, unless it is None, tells the model that the connection has ended."""

    def __init__(self, name, steps, sure=None, gone=None, ended=INFINITE):
        self.name = name
        self.steps = steps
        self.began = steps[0].call if steps else INFINITE
        self.sure = len(steps) if sure is None else sure
        self.gone = gone
        self.ended = ended


class Undecided(Exception):
    """The search took too long."""


class Search:
    """`model.step(state, client name, data)` gives the states that may follow, in which the answer
    is the one that was given; none: it cannot have come now."""

    def __init__(self, model, clients, limit=400000):
        self.model = model
        self.clients = sorted((c for c in clients if c.steps), key=lambda c: c.began)
        ends = {c.ended for c in clients if c.gone is not None} - {INFINITE}
        self.spans = any(s.call <= e < s.ret for e in ends for c in clients
                         for s in c.steps[:c.sure])
        self.limit = limit
        self.visited = 0
        self.deepest = (-1, None, None)

    # A position is the number of steps that were taken; len(steps) + 1: the connection is gone.

    def _end(self, c):
        return len(c.steps) + 1 if c.gone is not None else len(c.steps)

    def _due(self, c, at):
        """The time by which the client's next step must have happened."""
        if at < c.sure:
            return c.steps[at].ret
        if c.gone is not None and at <= len(c.steps):
            return c.ended
        return INFINITE

    def _first_open(self, places, low):
        """The clients before it have nothing left to do."""
        while low < len(places) and places[low] == self._end(self.clients[low]):
            low += 1
        return low

    def _horizon(self, places, low):
        """The time by which the next step of any client must have happened; and the index from which on
        clients begin later than this time. (Clients are sorted by their beginnings.)"""
        least = INFINITE
        for i in range(low, len(places)):
            c = self.clients[i]
            if c.began > least:
                return least, i
            least = min(least, self._due(c, places[i]))
        return least, len(places)

    def _candidates(self, places, low):
        """(client index, position after it, step), those first that have to come first; the same of
        connections' ends; whether any of the steps must come."""
        horizon, high = self._horizon(places, low)
        found, ends = [], []
        for i in range(low, high):
            c, at = self.clients[i], places[i]
            if at < len(c.steps) and c.steps[at].call <= horizon:
                s = c.steps[at]
                found.append((at >= c.sure, s.guess, i, at + 1, s))
            if c.gone is not None and c.sure <= at <= len(c.steps) and c.gone.call <= horizon:
                ends.append((i, len(c.steps) + 1, c.gone))
        found.sort(key=lambda f: f[:4])
        sure = any(not f[0] for f in found)
        return [f[2:] for f in found], ends, sure

    def _moves(self, places, state, low):
        """What can come next: lists of (places, state). One read that fits is enough: it changes
        nothing, so that it may as well come now."""
        moves = []
        steps, ends, sure = self._candidates(places, low)
        for i, after, s in steps:
            for new in self.model.step(state, self.clients[i].name, s.data):
                move = (places[:i] + (after,) + places[i + 1:], new)
                if s.reads and new == state:
                    return [move]
                moves.append(move)
        return moves + self._ends(places, state, ends, sure)

    def _ends(self, places, state, ends, sure):
        """An end that the model does not notice may as well come late: in the order of the clients,
        and behind all that must come, unless that may go on behind a daemon's end."""
        moves, unnoticed = [], []
        for i, after, s in ends:
            for new in self.model.step(state, self.clients[i].name, s.data):
                move = (places[:i] + (after,) + places[i + 1:], new)
                (unnoticed if new == state else moves).append(move)
        return moves if sure and not self.spans else moves + unnoticed[:1]

    def _is_done(self, places):
        return all(p >= c.sure and (c.gone is None or c.ended == INFINITE or p == self._end(c))
                   for p, c in zip(places, self.clients))

    def run(self, state):
        """True: it is linearizable from this state. Raises Undecided. Of the requests whose outcome
        nobody knows few took effect, mostly: it is tried with few of them first."""
        for few in 1, 3, 6:
            if self._run(state, few, self.limit // 10):
                return True
        found = self._run(state, INFINITE, self.limit)
        if found is None:
            raise Undecided("after %d states" % self.visited)
        return found

    def _taken(self, places):
        """How many of the unsure ones."""
        return sum(p - c.sure for p, c in zip(places, self.clients) if c.sure < p <= len(c.steps))

    def _run(self, state, few, limit):
        """None: not decided."""
        places = tuple(0 for _ in self.clients)
        seen = {(places, state)}
        stack = [(iter([(places, state)]), 0)]
        limit += self.visited
        while stack:
            move = next(stack[-1][0], None)
            if move is None:
                stack.pop()
                continue
            places, state = move
            depth = sum(places)
            if depth > self.deepest[0]:
                self.deepest = (depth, places, state)
            if self._is_done(places):
                return True
            low = self._first_open(places, stack[-1][1])
            moves = [m for m in self._moves(places, state, low) if m not in seen]
            if few != INFINITE:
                moves = [m for m in moves if self._taken(m[0]) <= few]
            seen.update(moves)
            self.visited += len(moves)
            if self.visited > limit:
                return None
            stack.append((iter(moves), low))
        return False

    def explain(self):
        """Where it got stuck, the furthest that it came."""
        _, places, state = self.deepest
        lines = ["the model's state: %s" % (state,), "what would have to come next:"]
        steps, ends, _ = self._candidates(places, self._first_open(places, 0))
        for i, _, s in steps + ends:
            lines.append("    client %s: %s" % (self.clients[i].name, s))
        return "\n".join(lines)
