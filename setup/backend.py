"""The package's build: setuptools', and where a C compiler is, with transport and simulator compiled into the wheel.

MRCLAB_COMPILED=0 leaves that out; MRCLAB_COMPILED=1 makes it an error where they cannot be compiled. An editable
install has nothing compiled: `make setup` does that in the checkout. pip shows its output with -v.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import setuptools

TREE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TREE), str(TREE / "setup")]

from mrclab import PACKAGES  # noqa: E402
from mrclab import compiled as form  # noqa: E402

if int(setuptools.__version__.split(".")[0]) < form.SETUPTOOLS:
    raise SystemExit(
        f"mrclab: setuptools {setuptools.__version__} is too old to build the package; "
        f"`pip install 'setuptools>={form.SETUPTOOLS}'`, or leave out --no-build-isolation"
    )

from setuptools import build_meta  # noqa: E402
from setuptools.command.bdist_wheel import bdist_wheel  # noqa: E402
from setuptools.command.build_py import build_py  # noqa: E402

build_editable = build_meta.build_editable
build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel

DATA = ("p4src", "scenarios")
"""Folders without Python that a wheel has among the packages."""

COMPILERS = ("mypy", "pydantic>=2.12")
"""Packages needed to compile: mypyc; pydantic, for its types and for the trial run of the build."""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the packages besides setuptools that a wheel needs here."""
    packages = list(build_meta.get_requires_for_build_wheel(config_settings))
    if os.environ.get(form.VARIABLE) == "0" or form.missing_compiler():
        return packages
    return [*packages, *COMPILERS]


class BuildPy(build_py):
    """setuptools' command that lays out the packages, with the compiled form beside them."""

    has_compiled = False

    def finalize_options(self) -> None:
        """Find the packages, which lie beside the folder of the package itself."""
        folders = [name for name in (*PACKAGES, *DATA) if (TREE / name).is_dir()]
        if not self.editable_mode and folders:
            inner = [f"{name}.{found}" for name in folders for found in setuptools.find_packages(str(TREE / name))]
            self.distribution.packages += [f"mrclab.{name}" for name in (*folders, *inner)]
            self.distribution.package_dir = {f"mrclab.{name}": name for name in folders}
        super().finalize_options()

    def run(self) -> None:
        """Lay out the packages, and where they can be, the compiled modules."""
        super().run()
        if self.editable_mode or os.environ.get(form.VARIABLE) == "0":
            return
        import compiled  # noqa: PLC0415 - of this folder

        reason = compiled.copy_into(Path(self.build_lib) / "mrclab")
        self.has_compiled = not reason
        if reason and os.environ.get(form.VARIABLE) == "1":
            raise SystemExit(f"mrclab: {form.VARIABLE} is 1, but {reason}")
        if reason:
            sys.stdout.write(f"mrclab: the package is plain Python, as {reason}\n")


class BdistWheel(bdist_wheel):
    """setuptools' command that makes a wheel: for one kind of Python and machine where something is compiled."""

    def run(self) -> None:
        """Build first, as the kind of wheel depends on the build."""
        self.run_command("build")
        built = self.get_finalized_command("build_py")
        if built.has_compiled:
            self.root_is_pure = False
            self.distribution.has_ext_modules = lambda: True
        super().run()
