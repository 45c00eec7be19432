"""rdzvd, a rendezvous store for distributed PyTorch, as a Python package: the programs of this wheel, and a rendezvous
backend of torchrun. Nothing here needs torch until torch loads the backend."""

import os
import sysconfig
from importlib import metadata

PROGRAMS = ("rdzvd", "rdzvctl", "rdzv-manifest")


def program_path(name):
    """The path of a program of this wheel. Installers put programs into different folders: that of the environment, of
    the user, or one below --target."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(os.path.dirname(here), "bin"), sysconfig.get_path("scripts")]
    try:
        installed = [os.fspath(f.locate()) for f in metadata.files("rdzvd") or () if f.name == name]
    except metadata.PackageNotFoundError:
        installed = []
    for path in installed + [os.path.join(folder, name) for folder in folders]:
        if os.access(path, os.X_OK):
            return os.path.realpath(path)
    raise FileNotFoundError("The wheel rdzvd has lost its program %s: install the wheel again. Looked at %s."
                            % (name, ", ".join(installed + folders)))
