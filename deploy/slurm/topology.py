#!/usr/bin/env python3
"""Writes the table of domains for `rdzvd --topology-file`.

    scontrol show topology | topology.py slurm > domains
    kubectl get nodes,pods -o json | topology.py kubernetes LABEL... > domains

Slurm: switches, the outermost first, or blocks (topology/tree, topology/block; topology.conf works as well).
Kubernetes: the values of the labels of each node, such as topology.kubernetes.io/zone and your cloud's label of a rack,
the outermost first; for the name and the addresses of each node, and for the names and the addresses of its pods.
"""

import json
import re
import sys


def expand(text):
    """tux[01-03,7],a1 -> tux01, tux02, tux03, tux7, a1"""
    names = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        head, bracket, rest = part.partition("[")
        if not bracket:
            names.append(part)
            continue
        numbers, _, tail = rest.partition("]")
        for piece in numbers.split(","):
            low, _, high = piece.partition("-")
            for i in range(int(low), int(high or low) + 1):
                names += expand("%s%0*d%s" % (head, len(low), i, tail))
    return names


def slurm(text):
    nodes, parents = {}, {}
    for line in text.splitlines():
        fields = dict(f.split("=", 1) for f in line.split("#")[0].split() if "=" in f)
        name = fields.get("SwitchName") or fields.get("BlockName")
        if name is None:
            continue
        for child in expand(fields.get("Switches", "")):
            parents[child] = name
        if "Switches" not in fields:
            nodes.update((node, name) for node in expand(fields.get("Nodes", "")))
    for node, name in nodes.items():
        path = [name]
        while path[0] in parents and parents[path[0]] not in path:
            path.insert(0, parents[path[0]])
        yield node, path


def kubernetes(text, labels):
    items = json.loads(text)["items"]
    path_of = {}
    for item in items:
        if item["kind"] != "Node":
            continue
        have = item["metadata"].get("labels", {})
        path = path_of[item["metadata"]["name"]] = [have[label] for label in labels if label in have]
        for name in {item["metadata"]["name"], *(a["address"] for a in item["status"].get("addresses", []))}:
            yield name, path
    for item in items:
        path = path_of.get(item["spec"].get("nodeName")) if item["kind"] == "Pod" else None
        if path is not None and not item["spec"].get("hostNetwork"):
            for name in {item["metadata"]["name"], item["status"].get("podIP", item["metadata"]["name"])}:
                yield name, path


def main(args):
    if args[:1] == ["slurm"] and len(args) == 1:
        lines = slurm(sys.stdin.read())
    elif args[:1] == ["kubernetes"] and len(args) > 1:
        lines = kubernetes(sys.stdin.read(), args[1:])
    else:
        sys.exit(__doc__)
    for name, path in sorted({name: path for name, path in lines if path}.items()):
        print(name, "/".join(part.replace("/", "_") for part in path))


if __name__ == "__main__":
    main(sys.argv[1:])
