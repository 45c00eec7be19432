"""Draws the figures of run.py as SVG, which follow the reader's light or dark scheme; needs python3-matplotlib."""

import os
import re
import statistics

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

COLOURS = {"rdzvd": "#d9480f", "torch libuv": "#1c7ed6", "torch legacy": "#74c0fc", "bare": "#868e96"}
INK = "#010203"  # stands for the colour of the page's text until the file is written
SCHEMES = "<style>svg{color:#1f2328}@media (prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"

# {file: (what the scene's name is, x axis, [(y axis, key, factor)])}
PLOTS = {
    "connections": (r"add, (\d+) connections$", "connections", [("requests per second", "rps", 1),
                                                                ("p99, ms", "p99_us", 1e-3)]),
    "ranks": (r"(\d+) ranks, relays$", "ranks", [("seconds", "seconds", 1), ("store's CPU, s", "server_cpu", 1),
                                                 ("resident, MiB", "rss_mib", 1)]),
    "rest": (r"(\d+) ranks, relays, at rest$", "ranks", [("part of a core", "server_busy", 1)]),
    "agents": (r"(\d+) agents$", "agents", [("seconds", "seconds", 1), ("store's CPU, s", "server_cpu", 1)]),
}


def series(figures, pattern, key):
    """{server: ([x], [median], [lowest], [highest])}"""
    found = {}
    for scene, rounds in figures.items():
        match = re.match(pattern, scene)
        for name, runs in rounds.items() if match else ():
            values = [run[key] for run in runs if key in run]
            if values:
                found.setdefault(name, []).append((int(match.group(1)), statistics.median(values), min(values),
                                                   max(values)))
    return {name: list(zip(*sorted(points))) for name, points in found.items()}


def follow_scheme(path):
    with open(path, encoding="utf-8") as f:
        text = re.sub(" +\n", "\n", f.read()).replace(INK, "currentColor")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(" <defs>", " %s\n <defs>" % SCHEMES, 1))


def draw_one(figures, name, path):
    pattern, x_name, panels = PLOTS[name]
    style = {"text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
             "svg.hashsalt": "rdzv", "svg.fonttype": "none", "font.size": 9}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3), squeeze=False)
        drawn = False
        for axis, (y_name, key, factor) in zip(axes[0], panels):
            for server, (x, middle, low, high) in series(figures, pattern, key).items():
                scaled = [[v * factor for v in values] for values in (middle, low, high)]
                axis.plot(x, scaled[0], marker="o", label=server, color=COLOURS.get(server))
                axis.fill_between(x, scaled[1], scaled[2], alpha=0.2, color=COLOURS.get(server))
                drawn = True
            if name in ("ranks", "agents"):  # what grows as the number of ranks is a straight line
                axis.set_yscale("log")
                axis.yaxis.set_major_formatter("{x:,g}")
            else:
                axis.set_ylim(0, None)
            axis.set(xlabel=x_name, ylabel=y_name, xscale="log", facecolor="none")
            axis.minorticks_off()
            if drawn:
                axis.set_xticks(x, ["{:,}".format(v) for v in x])
        if drawn:
            axes[0][0].legend(facecolor="none", frameon=False)
            figure.tight_layout()
            figure.savefig(path, transparent=True, metadata={"Date": None})
            follow_scheme(path)
        pyplot.close(figure)


def draw(report, folder):
    os.makedirs(folder, exist_ok=True)
    for name in PLOTS:
        draw_one(report["figures"], name, os.path.join(folder, name + ".svg"))
