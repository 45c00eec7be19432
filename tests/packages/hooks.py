"""rdzv-manifest check where people are: the hook for pre-commit, and the action for GitHub, both with the wheel of the
programs under test.

    hooks.py [NAME...]     cases with one of these words in their name, or all

The programs are those of the build of $RDZVD, else of build/. Tools come from `tests/support/install.sh wheel`; pip asks
no index.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "manifest")]
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT  # noqa: E402
from workflow_tool import NODES  # noqa: E402
from wheels import check_output, make_wheel, tool, tools_folder, version  # noqa: E402

SCRATCH = tempfile.mkdtemp(prefix="rdzv-hooks-")
ACTION = os.path.join(ROOT, "deploy", "action")
MADE = {}

# The fault: agents at a shared store without a run id.
JOB = NODES.replace("--nnodes=2,", "--nnodes=2, --rdzv_conf=is_host=0, --max_restarts=3,")
MENDED = JOB.replace("--nnodes=2", "--rdzv_id=a1, --nnodes=2")


def put(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def wheel():
    if not MADE:
        MADE["wheel"] = make_wheel(SCRATCH)
    return MADE["wheel"]


def environment(**more):
    """Without the settings of pip and git on this machine, and without an index."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "GIT_", "PRE_COMMIT"))}
    links = " ".join((os.path.dirname(wheel()), os.path.join(tools_folder(), "files")))
    return dict(env, PIP_NO_INDEX="1", PIP_FIND_LINKS=links, PIP_CONFIG_FILE=os.devnull, GIT_CONFIG_GLOBAL=os.devnull,
                HOME=SCRATCH, PRE_COMMIT_HOME=os.path.join(SCRATCH, "pre-commit"),
                PATH=os.path.join(tools_folder(), "bin") + ":" + os.environ["PATH"], **more)


def git(folder, *words, code=0):
    return check_output("git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words, env=environment(),
                        code=code)


def make_repository(folder):
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=all")
    return git(folder, "rev-parse", "HEAD").strip()


@case
def the_package_of_the_hook_asks_for_the_wheel_of_its_version():
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as f:
        text = f.read()
    check('version = "%s"' % version() in text and '"rdzvd==%s"' % version() in text, text)
    with open(os.path.join(ACTION, "action.yml"), encoding="utf-8") as f:
        check(yaml.safe_load(f)["inputs"]["wheel"]["default"] == "rdzvd==" + version(), "the action")


@case
def pre_commit_installs_the_wheel_and_refuses_a_commit_with_a_fault():
    if tool("pre-commit") is None:
        return "there is no pre-commit: tests/support/install.sh wheel"
    hooks, people = os.path.join(SCRATCH, "rdzv"), os.path.join(SCRATCH, "people")
    os.makedirs(hooks)
    check_output(os.path.join(ROOT, "deploy", "source.sh"), hooks)
    revision = make_repository(hooks)
    check_output(tool("pre-commit"), "validate-manifest", os.path.join(hooks, ".pre-commit-hooks.yaml"), env=environment())

    config = "repos:\n- repo: %s\n  rev: %s\n  hooks:\n  - id: rdzv-manifest-check\n" % (hooks, revision)
    put(people, ".pre-commit-config.yaml", config)
    put(people, "jobs/train.yaml", MENDED)
    put(people, "compose.yaml", "services: {}\n")  # no manifest: check skips it
    make_repository(people)
    check_output(tool("pre-commit"), "install", cwd=people, env=environment())

    put(people, "jobs/train.yaml", JOB)
    out = git(people, "commit", "--all", "--message=a fault", code=1)
    check("Failed" in out and re.search(r"jobs/train.yaml:\d+:\d+: \w+: .*\[rdzv-id-missing\]", out), out)
    put(people, ".rdzv-check.yaml", "files: [jobs]\nignore: [rdzv-id-missing]\n")
    put(people, ".pre-commit-config.yaml", config + "    args: []\n")
    git(people, "add", "--all")
    out = git(people, "commit", "--message=an exception")
    check("Passed" in out, out)
    put(people, "notes.txt", "no manifest\n")
    git(people, "add", "--all")
    check("Skipped" in git(people, "commit", "--message=notes"), "it ran although no manifest has changed")
    return None


# ---- The action

EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")


def value_of(expression, context):
    """Of the expressions that action.yml has: a name with dots, or its comparison with a text."""
    name, _, text = expression.partition(" == ")
    value = context[name]
    return value if not text else str(value == text.strip("'")).lower()


def fill(text, context):
    return EXPRESSION.sub(lambda found: value_of(found.group(1), context), text)


def run_action(folder, temporary, **given):
    """Runs the steps as a runner does, in one job. Returns the exit code, the output and the file that is uploaded or None."""
    with open(os.path.join(ACTION, "action.yml"), encoding="utf-8") as f:
        action = yaml.safe_load(f)
    context = {"inputs." + name: given.pop(name, row["default"]) for name, row in action["inputs"].items()}
    check(not given, "no input is named %s" % given)
    uploaded, output = None, ""
    for step in action["runs"]["steps"]:
        if fill(step.get("if", "true"), context) == "false":
            continue
        if "uses" in step:
            uploaded = fill(step["with"]["sarif_file"], context)
            continue
        handle, outputs = tempfile.mkstemp(dir=temporary)
        os.close(handle)
        env = environment(GITHUB_ACTION_PATH=ACTION, RUNNER_TEMP=temporary, GITHUB_OUTPUT=outputs,
                          **{name: fill(text, context) for name, text in step.get("env", {}).items()})
        done = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]], cwd=folder, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        output += done.stdout
        if done.returncode != 0:
            return done.returncode, output, uploaded
        with open(outputs, encoding="utf-8") as f:
            context.update({"steps.%s.outputs.%s" % (step.get("id"), name): value for name, value in
                            (line.rstrip("\n").split("=", 1) for line in f)})
    return 0, output, uploaded


@case
def the_action_is_one_for_github():
    validator = tool("check-jsonschema")
    if validator is None:
        return "there is no check-jsonschema: tests/support/install.sh wheel"
    check_output(validator, "--builtin-schema", "vendor.github-actions", os.path.join(ACTION, "action.yml"))
    return None


@case
def the_action_uploads_its_findings_and_then_fails():
    folder, temporary = os.path.join(SCRATCH, "action"), tempfile.mkdtemp(dir=SCRATCH)
    put(folder, "jobs/train.yaml", JOB)
    put(folder, "old jobs/train.yaml", JOB)
    code, output, uploaded = run_action(folder, temporary, wheel=wheel(), files="jobs")
    check(code == 1, output)
    check(re.search(r"^::\w+ file=jobs/train.yaml,line=\d+.*rdzv-id-missing", output, re.M), output)
    with open(uploaded, encoding="utf-8") as f:
        results = json.load(f)["runs"][0]["results"]
    places = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
    check("rdzv-id-missing" in {r["ruleId"] for r in results} and places == {"jobs/train.yaml"}, str(results))

    code, output, uploaded = run_action(folder, temporary, upload="false")
    check(code == 1 and uploaded is None and "old jobs/train.yaml" in output, output)
    put(folder, ".rdzv-check.yaml", "files: [jobs]\nignore: [rdzv-id-missing]\n")
    code, output, uploaded = run_action(folder, temporary, files="")
    check(code == 0 and os.path.exists(uploaded), output)
    code, output, uploaded = run_action(folder, temporary, files="jobs missing.yaml")
    check(code == 2 and uploaded is None and "missing.yaml" in output, output)
    code, output, uploaded = run_action(folder, temporary, wheel="rdzvd==0.0.0")
    check(code != 0 and uploaded is None and "rdzvd==0.0.0" in output, output)


@case
def the_wheel_in_the_documents_is_that_of_the_release():
    for path in glob.glob(os.path.join(ACTION, "*.md")):
        with open(path, encoding="utf-8") as f:
            check(set(re.findall(r"rdzvd-(\d[\d.]*)-", f.read())) == {version()}, path)


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "packages", "hooks.py")))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
