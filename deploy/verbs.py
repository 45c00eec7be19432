#!/usr/bin/env python3
"""The one table of the verbs of rdzv-manifest and their options. A build makes what the parser reads and
the texts of --help of it, in C (embed.py --verbs); and JSON, of which man/pages.py makes the manual page and the
completions of shells:

    verbs.py                        prints the table as JSON

To add an option: add its row here, and its letter to the loop over options_next() in the file of the verb.
"""
import json


class Option:
    """`letter` is what options_next() returns, and with `short` also an option: -f. A `value` of None: it takes none.
    `words` says how a shell completes the value: the words themselves; "@files"; or "@platforms" and so on, a list of
    `rdzv-manifest list`."""

    def __init__(self, name, letter, value, words, help, short=False):
        self.name, self.letter, self.value, self.words, self.help, self.short = name, letter, value, words, help, short


class Verb:
    """`words` completes the arguments. `summary` has the verb in front, and no full stop: "checks ...". `about` and
    `more`, which comes behind the options, are paragraphs."""

    def __init__(self, name, syntax, words, summary, about, more, *options):
        self.name, self.syntax, self.words, self.summary, self.options = name, syntax, words, summary, options
        self.about, self.more = paragraphs(about), paragraphs(more)


def paragraphs(text):
    """Without the line ends and blanks that this file adds."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


HELP = """rdzv-manifest writes, reads, rewrites and checks Kubernetes manifests of training jobs that meet at rdzvd.

  rdzv-manifest VERB [ARGUMENT...]
  rdzv-manifest VERB --help
  rdzv-manifest --version

%s
Exit codes: 0 done; 1 check found something, emit --diff a difference, or rewrite --exit-code nothing to do; 2 the input \
or the arguments are wrong.
"""

VERBS = [
    Verb("emit", "[-f FILE...] [OPTION...]", "",
         "makes the manifests of a job and its store from a user file",
         """Turns a user file into the manifest of a job that meets at rdzvd.""",
         """Settings: `rdzv-manifest list settings`. The manifest goes to standard output, notes go to standard
            error. After an error there is no output, and the exit code is 2.""",
         Option("file", "f", "FILE", "@files",
                "settings; - is standard input; of several files the later ones win", short=True),
         Option("set", "s", "A.B=C", "",
                "one setting, over all files; A[0].B=C, A={x,y}, several with commas"),
         Option("platform", "P", "NAME", "@platforms",
                "see `rdzv-manifest list platforms`; or your own file (./mine.yaml)"),
         Option("profile", "p", "NAME", "@profiles",
                "settings for a kind of cluster, below those of the files; repeatable"),
         Option("rdzv", "r", "NAME", "@placements",
                "where rdzvd runs, see `rdzv-manifest list placements`; relay is the one to choose: with it no "
                "agent notices that the store restarts"),
         Option("backend", "b", "NAME", "c10d etcd-v2",
                "c10d or etcd-v2"),
         Option("shape", "S", "pods", "pods",
                "the same as --platform pods: plain pods, as the LitGPT chart has"),
         Option("release", "R", "NAME", "",
                "the name of the release, for the values of the LitGPT chart"),
         Option("input-format", "F", "NAME", "@formats",
                "see `rdzv-manifest list formats`; by default the settings decide"),
         Option("suffix", "x", "NAME", "hash",
                "the same as --set nameSuffix=NAME; `hash` makes one of the settings"),
         Option("output", "o", "FORMAT", "yaml json",
                "yaml (the default) or json", short=True),
         Option("diff", "d", "FILE", "@files",
                "print how the manifest in FILE differs, as `diff -u` does; the exit code is 1 if it does")),
    Verb("import", "[OPTION...] [FILE]...", "@files",
         "makes a user file for emit from the manifests of a job",
         """Prints a user file of which emit makes this job again, with rdzvd as its store.

            All files together are one bundle: a store in them that is rdzvd becomes `rdzv` in the user file; any
            other one is left behind, and the platform decides where rdzvd runs. What has no setting of its own
            goes into `pod` and `container`; of what a user file cannot say, a note names the place.""",
         """The user file goes to standard output, notes go to standard error. After an error there is no output,
            and the exit code is 2.""",
         Option("job", "j", "NAME", "",
                "the job, if the files have several"),
         Option("platform", "P", "NAME", "@platforms",
                "what is to run it, see `rdzv-manifest list platforms`; without it what runs it now")),
    Verb("rewrite", "[OPTION...] [FILE]...", "@files",
         "puts rdzvd into manifests with an etcd, or with a store in worker 0",
         """Puts rdzvd in the place of an etcd pod, or of the store in worker 0.

            All files together are one bundle: the etcd may be in one file, its Services and the jobs in others; -
            means standard input, and is the default. rewrite edits only the necessary bytes. It prints all files
            to standard output, and notes about its changes to standard error.""",
         """It is a post-renderer of helm (of Helm 3 with --post-renderer rdzv-manifest --post-renderer-args
            rewrite, of Helm 4 with the plugin deploy/helm/post-renderer), and a KRM function: of a ResourceList it
            takes its options from functionConfig, and adds results.

            Exit codes: 0 rewritten, or nothing to rewrite: then the output is the input; 1 nothing to rewrite,
            with --exit-code; 2 the files or the arguments are wrong, or rewrite cannot edit them safely, and
            writes nothing.""",
         Option("keep-backend", "k", None, "",
                "leave the jobs on etcd-v2 instead of moving them to c10d"),
         Option("backend", "b", "NAME", "c10d etcd-v2",
                "the same in the words of emit: c10d, or etcd-v2 for --keep-backend"),
         Option("from", "f", "etcd|c10d", "etcd c10d",
                "only the etcd and the jobs that meet there, or only the jobs whose worker 0 is the store; "
                "without it both"),
         Option("wiring", "w", "agent-store", "agent-store torchrun",
                "give a PyTorchJob that runs no torchrun an rdzvd beside its Master, at the port where rank 0 "
                "would listen"),
         Option("rdzv", "r", "service|relay|replicas", "service relay replicas",
                "relay: put a relay into each pod that moves to c10d, so that the store may restart; it gets a "
                "volume. replicas: the same with several stores, whose state is in etcd (--set "
                "rdzv.journal.endpoints[0]=HOST:2379). Without it they talk to the store itself"),
         Option("etcd", "e", "NAME", "",
                "replace this etcd, NAME or NAMESPACE/NAME, if there are several"),
         Option("keep-kind", "K", None, "",
                "leave a Pod or Deployment of that kind; without it rdzvd is a StatefulSet"),
         Option("image", "i", "IMAGE", "",
                "of rdzvd (registry.example/rdzvd:0.1.0)"),
         Option("set", "S", "rdzv.A=B", "",
                "a setting of emit for the pod of the store, such as rdzv.priority=high, "
                "rdzv.imagePullSecrets[0].name=pull, rdzv.nodeSelector.pool=cpu"),
         Option("metrics", "m", "annotations", "annotations",
                "let Prometheus find the store's metrics, as rdzv.metrics of emit"),
         Option("diff", "d", None, "",
                "print a unified diff instead of the files, and write none"),
         Option("plan", "P", None, "",
                "print the commands that delete, apply and wait, in order"),
         Option("in-place", "p", None, "",
                "write the files that change, and keep each old one as FILE.bak"),
         Option("exit-code", "x", None, "",
                "exit with 1 instead of 0 if nothing needs a rewrite"),
         Option("show", "s", None, "",
                "print what rewrite sees in the files, as JSON, and rewrite nothing")),
    Verb("policy", "[OPTION...]", "",
         "writes the policy that gives labelled pods a relay as they are created",
         """Writes a MutatingAdmissionPolicy with its binding, or a MutatingPolicy of Kyverno. A pod with the label
            `rdzv.dev/inject: JOB` then gets a relay as a native sidecar and the variables PET_RDZV_*, as `rewrite
            --rdzv=relay` would write them.""",
         """The policy sees pods only, so the label belongs to the pod template. Options of torchrun in a command
            win over the variables: `check` finds them.""",
         Option("store", "s", "HOST:PORT", "",
                "the store of all jobs, such as rdzvd.infra:29400; without it, each job JOB has a store of its "
                "own, JOB-rdzv:29400 in its namespace, as emit and rewrite make it"),
         Option("image", "i", "IMAGE", "",
                "of rdzvd, the same as --set rdzv.image=IMAGE"),
         Option("api", "a", "NAME", "v1 v1beta1 kyverno",
                "v1: for Kubernetes 1.36 and later (the default); v1beta1: for 1.34 and 1.35; kyverno: a "
                "MutatingPolicy of Kyverno 1.17 and later, for clusters without either"),
         Option("set", "S", "rdzv.A=B", "",
                "a setting of emit for the relays, such as rdzv.tls.clientSecret=relay-tls or "
                "rdzv.conf.last_call_timeout=5")),
    Verb("check", "[OPTION...] [FILE | FOLDER]...", "@files",
         "finds in manifests what is known to break the rendezvous",
         """Finds in Kubernetes manifests what is known to break the rendezvous of training jobs.

            All files together are one bundle, as they are applied together; - is the standard input. Of a folder
            check takes all manifests, and skips and counts files that hold no objects. check knows Volcano Jobs,
            PyTorchJobs, AppWrappers, JobSets, Jobs, TrainJobs, Pods, StatefulSets and Services. It finds the
            options of torchrun in commands, in scripts, in PET_* variables and in elasticPolicy.""",
         """The annotation `rdzv.dev/ignore: RULE,RULE` of an object leaves out what these rules find there.

            `rdzv-manifest list rules` lists the rules, and `rdzv-manifest explain RULE` explains one.

            Exit codes: 0 nothing found; 1 findings; 2 the input or the arguments are wrong.""",
         Option("output", "o", "FORMAT", "text json sarif github",
                "text (the default), json, sarif (SARIF 2.1.0), or github (the annotations of its workflows)",
                short=True),
         Option("rule", "r", "RULE", "@rules",
                "only this rule; repeatable"),
         Option("ignore", "i", "RULE", "@rules",
                "all rules but this one; repeatable"),
         Option("severity", "s", "LEVEL", "error warning note",
                "error; warning (and errors); note (all, the default)"),
         Option("target", "t", "WHAT[=VERSION]", "kubernetes= training-operator= volcano= jobset= istio",
                "also what breaks on that: kubernetes=1.28, training-operator=1.7, volcano=1.8, jobset=0.6, "
                "istio; repeatable"),
         Option("exclude", "x", "PATTERN", "",
                "no file or folder of a folder that is like this; repeatable"),
         Option("config", "c", "FILE", "@files",
                "rules, ignore, severity, targets, exclude, files and output as YAML; without it "
                ".rdzv-check.yaml, if that is there"),
         Option("no-config", "n", None, "",
                "no such file"),
         Option("strict", "T", None, "",
                "exit with 1 also if something was not looked at: an unknown launcher, kind or option"),
         Option("show", "S", None, "",
                "print what check sees in the files, as JSON, and apply no rule")),
    Verb("list", "[platforms|profiles|placements|formats|settings|rules|schema]",
         "platforms profiles placements formats settings rules schema",
         "lists platforms, profiles, placements, formats, settings and rules",
         """Shows what emit knows, and the rules of check.

            Without a word it lists all of these but schema: the settings as JSON Schema, for editors.
            `rdzv-manifest explain NAME` explains one setting or rule.""",
         """"""),
    Verb("explain", "SETTING|RULE|KIND/NAME", "@settings @rules",
         "shows all about one setting, or one rule of check",
         """Shows all about one setting of a user file (such as numPods, rdzv, rdzv.placement), one rule of check
            (such as rdzv-id-fixed), or the file of a platform, profile, placement or format (such as
            platforms/volcano: a start for one of your own).""",
         """"""),
]


def filled(**fields):
    return {name: value for name, value in fields.items() if value not in (None, "")}


def described(verb):
    options = [filled(name=o.name, letter=o.letter if o.short else None, value=o.value, help=o.help, words=o.words)
               for o in verb.options]
    return dict(filled(name=verb.name, syntax=verb.syntax, summary=verb.summary, about=verb.about, more=verb.more,
                       words=verb.words), options=options)


if __name__ == "__main__":
    print(json.dumps({"verbs": [described(verb) for verb in VERBS]}, indent=1))
