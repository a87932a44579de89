"""Builds the kernel: every module of `src/keuka/kernel` with a `.pxd` beside it is Cython in pure mode and becomes a C++ extension.

With `KEUKA_CHECKED=1` the same sources are compiled with bounds checks on every index, which is what `make checked` tests.
Everything else about the package stands in `pyproject.toml`.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CHECKED = os.environ.get("KEUKA_CHECKED", "0") == "1"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": CHECKED,
    "show_performance_hints": not CHECKED,
}
# The assertions of libstdc++ check the indices of C++ vectors, which Cython's own directive does not reach.
COMPILE_ARGS = ["-std=c++17", "-O3", "-g0", "-fno-strict-aliasing", *(["-D_GLIBCXX_ASSERTIONS"] if CHECKED else [])]
# The interpreter of expressions is compiled twice, for one lane and for many: inlining it is not left to the compiler.
INLINE = {"bytecode": [("CYTHON_INLINE", "inline __attribute__((always_inline))")]}


def extensions() -> list[Extension]:
    modules = sorted(path for path in Path("src/keuka/kernel").glob("*.py") if path.with_suffix(".pxd").exists())
    return [
        Extension(
            f"keuka.kernel.{path.stem}",
            [str(path)],
            language="c++",
            extra_compile_args=COMPILE_ARGS,
            define_macros=INLINE.get(path.stem, []),
        )
        for path in modules
    ]


setup(
    ext_modules=cythonize(
        extensions(),
        # Cython looks at times of files and not at directives, so each kind of build has its own folder.
        build_dir="build/cython-checked" if CHECKED else "build/cython",
        compiler_directives=DIRECTIVES,
    ),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
