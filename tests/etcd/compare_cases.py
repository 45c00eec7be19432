#!/usr/bin/env python3
"""Tests the comparer itself: recorded pairs of answers, each with the expected verdict.

    compare_cases.py [NAME...]     all cases, or the cases whose name contains a NAME
"""

import os
import sys
import types

import compare
import generate
import wire

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402


def answer(status, body):
    """A whole answer, without the headers that no case looks at."""
    out = wire.Answer(status, "HTTP/1.1", [], b"HTTP/1.1 %d\r\n\r\n" % status)
    out.body += body.encode()
    out.complete = True
    return out


def difference(bases, form, query, bodies, status=412):
    """What the comparer says of two answers to one PUT, from servers that count from `bases`."""
    sides = []
    for name, base in zip(("etcd", "rdzvd"), bases):
        sides.append(compare.Side(types.SimpleNamespace(name=name, port=1)))
        sides[-1].base = base
    request = generate.Request("PUT", b"/v2/keys/_/b", b"&".join(query) or None,
                               body=b"&".join(form))
    generate.Generator.note(request, form, query)
    return compare.difference(*sides, request, *[answer(status, body) for body in bodies])


def failed(cause, index):
    return '{"errorCode":101,"message":"Compare failed","cause":"%s","index":%d}\n' % (cause, index)


@case
def prev_index_of_the_query_counts_beside_a_body_that_is_no_form():
    # Seed 1795316102, request 10272: without a Content-Type the servers read the query alone.
    form = [b"value=v2", b"prevIndex=%D9%A5"]
    query = [b"prevIndex={{B+194}}"]
    bodies = [failed("[201 != 1946]", 2094), failed("[209 != 1954]", 2102)]
    text = difference((7, 15), form, query, bodies)
    check(text is None, text)


@case
def prev_index_of_the_form_counts_before_that_of_the_query():
    form = [b"prevIndex={{B+3}}"]
    query = [b"prevIndex={{B+194}}"]
    text = difference((7, 15), form, query, [failed("[10 != 11]", 20), failed("[18 != 19]", 28)])
    check(text is None, text)


@case
def servers_that_take_different_ones_of_two_differ():
    form = [b"prevIndex={{B+3}}"]
    query = [b"prevIndex={{B+194}}"]
    text = difference((7, 15), form, query, [failed("[10 != 11]", 20), failed("[209 != 19]", 28)])
    check(text is not None, "not seen")


@case
def other_indexes_differ():
    query = [b"prevIndex={{B+194}}"]
    for other in ("[209 != 1955]", "[208 != 1954]", "[201 != 1946]"):
        bodies = [failed("[201 != 1946]", 2094), failed(other, 2102)]
        check(difference((7, 15), [], query, bodies) is not None, "not seen: " + other)


@case
def a_number_that_is_no_index_is_the_same_on_both():
    query = [b"prevValue=v1", b"prevIndex=007"]
    bodies = [failed("[v1 != v2] [7 != 1946]", 2094), failed("[v1 != v2] [7 != 1954]", 2102)]
    text = difference((300, 308), [], query, bodies)
    check(text is None, text)
    bodies[1] = failed("[v1 != v2] [15 != 1954]", 2102)
    check(difference((300, 308), [], query, bodies) is not None, "not seen")


if __name__ == "__main__":
    sys.exit(cases.run("tests/etcd/compare_cases.py"))
