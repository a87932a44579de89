"""Builds the kernel: every module of `src/keuka/kernel` with a `.pxd` beside it is Cython in pure mode and becomes a C++ extension.

`KEUKA_BUILD` says what kind of kernel: `release` (the default), or for `make sanitize` `checked`, with bounds checks on every
index, and `sanitized`, with AddressSanitizer and UndefinedBehaviorSanitizer. Everything else about the package stands in
`pyproject.toml`.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KIND = os.environ.get("KEUKA_BUILD", "release")

# gcc's `undefined` leaves out conversions of doubles that do not fit. Python's own flags make signed overflow wrap round, which
# hides it from the sanitizer.
SANITIZERS = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-fno-wrapv", "-fno-wrapv-pointer"]
# Functions that a `.pxd` declares are visible to other modules, so gcc makes a call even where there is only one caller. With room for
# them sequences take 5 % fewer instructions.
INLINED = "--param=max-inline-insns-auto=200"
FLAGS = {
    "release": ["-O3", "-g0", INLINED],
    # The assertions of libstdc++ check the indices of C++ vectors, which Cython's own directive does not reach.
    "checked": ["-O3", "-g0", "-D_GLIBCXX_ASSERTIONS"],
    "sanitized": ["-O1", "-g", "-fno-omit-frame-pointer", *SANITIZERS],
}
if KIND not in FLAGS:
    sys.exit(f"KEUKA_BUILD is {KIND!r}; the kinds of build are {', '.join(FLAGS)}")

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": KIND == "checked",
    "wraparound": False,
    "cdivision": True,
    "infer_types": True,  # loops over numbers need no declaration
    "initializedcheck": KIND == "checked",
    "show_performance_hints": KIND == "release",
}
# The interpreter of expressions is compiled twice, for one lane and for many, and so is what runs the programs of states and of edges:
# inlining them is not left to the compiler.
INLINE = {module: [("CYTHON_INLINE", "inline __attribute__((always_inline))")] for module in ("bytecode", "epochs")}

# One folder for each kind of kernel, whoever asks for it: what an editable install compiled, a wheel does not compile again.
BUILT = f"build/{KIND}"


def extensions() -> list[Extension]:
    modules = sorted(path for path in Path("src/keuka/kernel").glob("*.py") if path.with_suffix(".pxd").exists())
    compile_args = ["-std=c++17", "-fno-strict-aliasing", *FLAGS[KIND]]
    return [
        Extension(
            f"keuka.kernel.{path.stem}",
            [str(path)],
            # What is compiled depends on the flags as well; make keeps a file of them, without it there is nothing to be out of date.
            depends=["setup.py", *[str(path) for path in [Path("build/flags")] if path.exists()]],
            define_macros=INLINE.get(path.stem, []),
            extra_compile_args=compile_args,
            extra_link_args=SANITIZERS if KIND == "sanitized" else [],
            language="c++",
        )
        for path in modules
    ]


setup(
    ext_modules=cythonize(
        extensions(),
        # Cython looks at times of files and not at directives, so each kind of build has its own folder.
        build_dir=f"build/cython-{KIND}",
        compiler_directives=DIRECTIVES,
        emit_linenums=KIND == "sanitized",  # reports name lines of the kernel, not of the generated code
    ),
    options={"build": {"build_lib": BUILT}, "build_ext": {"build_lib": BUILT, "parallel": os.cpu_count()}},
)
