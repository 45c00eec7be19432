"""What an API server, or Kyverno, makes of a pod by the policy that `rdzv-manifest policy` prints.

The evaluator is cel-expr-python of PyPI, the C++ implementation of CEL with its type checker. It knows no types of
Kubernetes, so `Object.spec…{field: x}` and `JSONPatch{…}` become maps first; that each type is named like the field in
which it stands, as the API server demands, is checked here. The patches are applied by jsonpatch of PyPI.

It cannot show the limits of cost, the functions that each release has, and the types of fields: for the last, the
tests validate the pods with the schema of Kubernetes.
"""

import copy
import os
import re
import sys

CACHE = os.environ.get("RDZV_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdzv")
PYTHON = os.path.join(CACHE, "cel", "bin", "python")
TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|\d+|&&|\|\||[=!<>]=|.')


def restart_with_evaluator():
    """Goes on with the Python that has the evaluator, if tests/support/install.sh has made it."""
    if os.path.exists(PYTHON) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        os.execv(PYTHON, [PYTHON] + sys.argv)


def missing():
    """Why nothing can be evaluated, or None."""
    try:
        import cel_expr_python  # noqa: F401
        import jsonpatch  # noqa: F401
    except ImportError as e:
        return "%s: run tests/support/install.sh cel" % e
    return None


class Refused(Exception):
    """The API server would refuse the policy."""


def as_maps(expression):
    """The expression with maps in the place of typed literals."""
    out, stack, behind = [], [], []  # stack: [type or None, the field]; behind: the last tokens
    for token in TOKEN.findall(expression):
        typed = re.fullmatch(r"(Object|JSONPatch)(\.\w+)*", token)
        if token == "{":
            name = behind[-1] if behind and re.fullmatch(r"(Object|JSONPatch)(\.\w+)*", behind[-1]) else None
            around = [s for s in stack if s[0]]
            if name and around and around[-1][0] != "JSONPatch" and name != "%s.%s" % tuple(around[-1]):
                raise Refused("type %s in the field %s of %s" % (name, around[-1][1], around[-1][0]))
            stack.append([name, None])
        elif token in "([":
            stack.append([None, None])
        elif token in ")]}":
            stack.pop()
        elif stack and stack[-1][0] and behind[-1] in ("{", ",") and re.fullmatch(r"\w+", token):
            stack[-1][1] = token
            token, behind = '"%s"' % token, behind + [token]
        if token.strip():
            behind.append(token)
        out.append("" if typed else token)
    return "".join(out)


def environment():
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_strings
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml("extensions:\n- name: two-var-comprehensions\n"),
                      variables={name: cel.Type.DYN for name in ("object", "request", "variables")},
                      extensions=[ext_strings.ExtStrings()])


class Policy:
    """A MutatingAdmissionPolicy, or a MutatingPolicy of Kyverno."""

    def __init__(self, document):
        self.spec = spec = document["spec"]
        env = environment()

        def compiled(text):
            try:
                return env.compile(as_maps(text))
            except Exception as e:
                raise Refused("%s\n%s" % (e, text)) from e
        self.conditions = [compiled(c["expression"]) for c in spec["matchConditions"]]
        self.variables = [(v["name"], compiled(v["expression"])) for v in spec["variables"]]
        self.mutations = [compiled(m["jsonPatch"]["expression"]) for m in spec["mutations"]]

    def selects(self, pod):
        labels = pod["metadata"].get("labels") or {}
        tests = {"Exists": lambda e: e["key"] in labels, "NotIn": lambda e: labels.get(e["key"]) not in e["values"]}
        return all(tests[e["operator"]](e) for e in self.spec["matchConstraints"]["objectSelector"]["matchExpressions"])

    def matches(self, pod):
        data = {"object": pod, "request": {"namespace": pod["metadata"]["namespace"]}, "variables": {}}
        return self.selects(pod) and all(c.eval(data=data).plain_value() for c in self.conditions)

    def admit(self, pod, always=False):
        """The pod as it is stored. `always`: even if the conditions say no."""
        import jsonpatch
        pod = defaulted(pod)
        if not always and not self.matches(pod):
            return pod
        data = {"object": pod, "request": {"namespace": pod["metadata"]["namespace"]}, "variables": {}}
        for name, expression in self.variables:
            data["variables"][name] = expression.eval(data=data).plain_value()
        for mutation in self.mutations:
            data["object"] = jsonpatch.apply_patch(data["object"], mutation.eval(data=data).plain_value())
        return defaulted(data["object"])


def defaulted(pod):
    """A copy as the API server has it before policies see it: quantities are texts, and limits are requests, too."""
    pod = copy.deepcopy(pod)
    pod["spec"].setdefault("restartPolicy", "Always")
    for c in (pod["spec"].get("initContainers") or []) + pod["spec"]["containers"]:
        resources = {k: {name: str(value) for name, value in (some or {}).items()}
                     for k, some in (c.get("resources") or {}).items()}
        if "limits" in resources:
            resources["requests"] = dict(resources["limits"], **resources.get("requests", {}))
        if resources:
            c["resources"] = resources
    return {k: v for k, v in pod.items() if v is not None}
