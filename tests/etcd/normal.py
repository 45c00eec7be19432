"""Answers of etcd's v2 API as text that can be compared: the order of listings.

Works on the text as it was sent and not on parsed JSON, so that member order, spacing and escapes
stay part of what is compared.
"""

import re

# Strings are one token, so that brackets and names inside values are never mistaken for JSON's own.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.S)


def sort_nodes(text):
    """The same JSON text with the items of every "nodes" list in ascending order."""
    out = [""]  # the text so far, and that of the current item of each open "nodes" list
    opened = []  # for each open bracket: the finished items of a "nodes" list, else None
    at = 0
    previous = None
    for match in TOKEN.finditer(text):
        token = match.group()
        part = text[at:match.start()]
        at = match.end()
        in_nodes = bool(opened) and opened[-1] is not None
        if token in "{[":
            out[-1] += part + token
            opened.append(None)
            if token == "[" and previous == '"nodes"':
                opened[-1] = []
                out.append("")
        elif token in "}]":
            if in_nodes:
                items = opened.pop() + [out.pop() + part]
                out[-1] += ",".join(sorted(items)) + token
            else:
                out[-1] += part + token
                opened = opened[:-1]
        elif token == "," and in_nodes:
            opened[-1].append(out.pop() + part)
            out.append("")
        else:
            out[-1] += part + token
        previous = token
    return out[0] + text[at:]
